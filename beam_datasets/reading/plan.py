"""`ReadPlan`: the records of a dataset, their order and the transforms to elements, from which an iterator reads."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from beam_datasets.reading.elements.transforms import (
    Batch,
    Program,
    Step,
    append_filler,
    compose,
    compose_many,
    share_cores,
    warn_of_default_fill,
)
from beam_datasets.reading.index.transforms import Batches, Operation
from beam_datasets.reading.lookup import Lookup
from beam_datasets.reading.records.source import Source

if TYPE_CHECKING:
    from beam_datasets.reading.checkpoint import Identity

_COMPILED = ("decode_one", "decode_many", "program")  # cached properties that are not pickled, but computed again


class ReadPlan:
    """The parts of a `Dataset`: an operation, which is an order of records, and steps, which make elements of them.

    It is immutable, and reads nothing.
    """

    def __init__(
        self,
        operation: Operation,
        steps: tuple[Step, ...],
        *,
        source: Source | None,
        lookup: Lookup | None,
        identity: Identity,
    ) -> None:
        """Creates a plan; users call `builder.as_dataset`.

        Args:
            operation: the records and their order.
            steps: the transforms from records to elements.
            source: the source of the records, without operations; None for a mixture.
            lookup: key lookup in the source; None for a mixture.
            identity: the data that are read, for fingerprints.
        """
        self._operation = operation
        self._steps = steps
        self._source = source
        self._lookup = lookup
        self._identity = identity
        self._processes: int | None = None
        self._threads: int | None = None

    def _with(self, operation: Operation | None = None, steps: tuple[Step, ...] | None = None) -> Self:
        """Returns a copy with another operation or other steps; None keeps those of this plan."""
        plan = object.__new__(type(self))
        vars(plan).update(self.__getstate__())
        plan._operation = self._operation if operation is None else operation
        plan._steps = self._steps if steps is None else steps
        return plan

    @property
    def features(self) -> Any:
        """The features of the examples as they are decoded, before `map()` and `batch()`; None after `raw()`."""
        return self._steps[0].decoded_features

    @functools.cached_property
    def decode_one(self) -> Callable[[Any], Any]:
        """The function from an item to an element: from a record to an example, or from several records to a batch."""
        return compose(self._steps)

    @functools.cached_property
    def decode_many(self) -> Callable[[list[Any]], list[Any]]:
        """The function from a list of items of the order to the list of their elements."""
        return compose_many(self._steps)

    @functools.cached_property
    def program(self) -> Program:
        """The compiled transforms from blocks of items to elements."""
        return Program.compile(self._steps, self._threads)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in _COMPILED}

    def _without_batches(self) -> Self:
        """Returns the dataset without `batch()` and later `map()` steps, with examples that `drop_remainder` left out.

        Returns itself if it has no batches.

        Raises:
            ValueError: an operation follows `batch()`, so positions count batches.
        """
        first = self._steps[0]
        if not isinstance(first, Batch):
            return self
        if not isinstance(self._operation, Batches):
            raise ValueError("the positions of this dataset are those of batches, as an operation follows batch().")
        return self._with(self._operation.child, first.steps)._without_batches()

    def _share_cores(self, processes: int) -> Self:
        """Returns the dataset for one of several processes, which share the cores."""
        return self._with(steps=share_cores(processes, self._steps)) if processes > 1 else self

    def _with_filler(self, fill: Any, arrays: Any = None) -> Self:
        """Returns the dataset with missing values replaced, as frameworks need it; see `append_filler`.

        Logs a warning of default integers; see `warn_of_default_fill`.

        Args:
            fill: the replacements; see `Dataset.batch`.
            arrays: single numbers of this dtype become arrays of shape (); None if no numbers do.
        """
        steps = append_filler(self._steps, fill, arrays)
        warn_of_default_fill(steps)
        return self._with(steps=steps)
