"""The list of examples at a slice of a dataset."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from beam_datasets.arguments import shown


class ExampleList(list[Any]):
    """A list of examples. Using it as a dataset raises an error with the correct expression."""

    @classmethod
    def of(cls, examples: Iterable[Any]) -> ExampleList:
        """Returns the list of examples; a pytree for JAX, as other lists, once one was made after `import jax`."""
        if "jax" in sys.modules:
            from beam_datasets.adapters.jax_arrays import register_list_class

            register_list_class(cls)
        return cls(examples)

    def __getitem__(self, index: Any) -> Any:
        """Returns the example at an index. A slice gives a plain list.

        Raises:
            TypeError: the index is something else, such as the name of a feature.
        """
        if isinstance(index, str):
            raise TypeError(
                f"ds[:5] is a list of examples, whose indices are integers or slices, not {shown(index)}. The values "
                f"of a feature are [example[{index!r}] for example in ds[:5]]; ds.batch(5) has arrays of them."
            )
        return super().__getitem__(index)

    def __reduce__(self) -> tuple[Any, ...]:
        """Returns how it is copied and pickled: as a list."""
        return list, (list(self),)

    if not TYPE_CHECKING:  # so that a type checker reports missing attributes

        def __getattr__(self, name: str) -> Any:
            """Raises an AttributeError that explains how to get a dataset."""
            hint = "" if name.startswith("_") else " ds[:5] is a list; ds.take(5) and split='train[:5]' are datasets."
            raise AttributeError(f"'list' object has no attribute {name!r}.{hint}", name=name)
