"""Decoders: from a record to the items that are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from beam_datasets.formats import example, sequence_example
from beam_datasets.reading.items.parsing import FixedLen, FixedLenSequence, VarLen

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from beam_datasets.reading.items.handlers import ItemHandler

    Parse = Callable[[str], Any]


class DataDecoder(Protocol):
    """What a specification decodes records with."""

    def list_items(self) -> list[str]:
        """Returns the names of the items."""

    def decode(self, data: bytes, items: Sequence[str] | None = None) -> list[Any]:
        """Returns the asked items of a record, in the asked order; all where None."""


class TFExampleDecoder:
    """Decodes records that are a tf.train.Example.

    >>> from beam_datasets.reading.items import Tensor
    >>> decoder = TFExampleDecoder({"n": FixedLen((), "int64")}, {"number": Tensor("n")})
    >>> [number] = decoder.decode(example.serialize({"n": [7]}))
    >>> int(number)
    7
    """

    def __init__(
        self, keys_to_features: Mapping[str, FixedLen | VarLen], items_to_handlers: Mapping[str, ItemHandler]
    ) -> None:
        """Takes what the records hold and what the items are made of.

        Args:
            keys_to_features: what is stored under a key.
            items_to_handlers: what makes an item of the values of some keys.

        Raises:
            TypeError: a feature is neither FixedLen nor VarLen.
            ValueError: a handler needs a key that has no feature.
        """
        _check_features(keys_to_features, "keys_to_features", (FixedLen, VarLen))
        _check_handlers(items_to_handlers, keys_to_features)
        self._features = {key: (key.encode("utf-8"), feature) for key, feature in keys_to_features.items()}
        self._handlers = dict(items_to_handlers)

    def list_items(self) -> list[str]:
        """Returns the names of the items."""
        return list(self._handlers)

    def decode(self, data: bytes, items: Sequence[str] | None = None) -> list[Any]:
        """Returns the asked items of a record, in the asked order; all where None. Parses nothing else.

        Raises:
            ExampleError: the record is no tf.train.Example.
            FeatureError: a value that is needed is missing, or does not fit.
            ValueError: there is no such item.
        """
        whole, spans = example.spans_of(data)
        features = self._features

        def parse(key: str) -> Any:
            name, feature = features[key]
            return feature.parse(key, whole, spans.get(name))

        return _decode(self._handlers, items, parse)


class TFSequenceExampleDecoder:
    """Decodes records that are a tf.train.SequenceExample."""

    def __init__(
        self,
        keys_to_context_features: Mapping[str, FixedLen | VarLen],
        keys_to_sequence_features: Mapping[str, FixedLenSequence | VarLen],
        items_to_handlers: Mapping[str, ItemHandler],
    ) -> None:
        """Takes what the records hold and what the items are made of.

        Args:
            keys_to_context_features: what is stored under a key of the context.
            keys_to_sequence_features: what is stored at each time step under a key of the sequences.
            items_to_handlers: what makes an item of the values of some keys, of either kind.

        Raises:
            TypeError: a feature is of a kind that cannot stand there.
            ValueError: a key is one of the context and of the sequences, or a handler needs a key that has no feature.
        """
        _check_features(keys_to_context_features, "keys_to_context_features", (FixedLen, VarLen))
        _check_features(keys_to_sequence_features, "keys_to_sequence_features", (FixedLenSequence, VarLen))
        if both := sorted(set(keys_to_context_features) & set(keys_to_sequence_features)):
            raise ValueError(f"keys {_quoted(both)} are in the context and in the sequences; an item could mean either")
        _check_handlers(items_to_handlers, {**keys_to_context_features, **keys_to_sequence_features})
        self._context = dict(keys_to_context_features)
        self._sequences = dict(keys_to_sequence_features)
        self._handlers = dict(items_to_handlers)

    def list_items(self) -> list[str]:
        """Returns the names of the items."""
        return list(self._handlers)

    def decode(self, data: bytes, items: Sequence[str] | None = None) -> list[Any]:
        """Returns the asked items of a record, in the asked order; all where None. Parses nothing else.

        Raises:
            ExampleError: the record is no tf.train.SequenceExample.
            FeatureError: a value that is needed is missing, or does not fit.
            ValueError: there is no such item.
        """
        halves = sequence_example.spans_of(data)

        def parse(key: str) -> Any:
            name = key.encode("utf-8")
            if key in self._context:
                return self._context[key].parse(key, halves.context, halves.context_spans.get(name))
            return self._sequences[key].parse_steps(key, halves.lists, halves.list_spans.get(name))

        return _decode(self._handlers, items, parse)


def check_items(items: Sequence[str], known: Sequence[str]) -> None:
    """Raises where an asked item is not known.

    Raises:
        TypeError: it is one name, not a list of names.
        ValueError: there is no such item.
    """
    if isinstance(items, str):
        raise TypeError(f"items must be a list of names, got the text {items!r}; write [{items!r}]")
    if missing := [item for item in items if item not in known]:
        raise ValueError(f"no item {_quoted(missing)}; known are {_quoted(known) or 'none'}")


def _decode(handlers: dict[str, ItemHandler], items: Sequence[str] | None, parse: Parse) -> list[Any]:
    """Returns the items; parses each key that they need once."""
    if items is None:
        items = list(handlers)
    elif isinstance(items, str) or not all(map(handlers.__contains__, items)):
        check_items(items, list(handlers))
    values: dict[str, Any] = {}
    made = []
    for item in items:
        handler = handlers[item]
        for key in handler.keys:
            if key not in values:
                values[key] = parse(key)
        made.append(handler.tensors_to_item({key: values[key] for key in handler.keys}))
    return made


def _check_features(features: Mapping[str, Any], name: str, kinds: tuple[type, ...]) -> None:
    for key, feature in features.items():
        if not isinstance(feature, kinds):
            expected = " or ".join(kind.__name__ for kind in kinds)
            raise TypeError(f"{name}[{key!r}] must be a {expected}, got {feature!r}")


def _check_handlers(handlers: Mapping[str, ItemHandler], features: Mapping[str, Any]) -> None:
    for item, handler in handlers.items():
        if missing := [key for key in handler.keys if key not in features]:
            raise ValueError(
                f"item {item!r} needs the keys {_quoted(missing)}, which have no feature; there are features of "
                f"{_quoted(features) or 'none'}"
            )


def _quoted(names: Sequence[str] | Mapping[str, Any]) -> str:
    return ", ".join(map(repr, names))
