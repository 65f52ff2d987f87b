"""Text."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from beam_datasets.features.dtypes import STRING
from beam_datasets.features.tensor import Tensor

if TYPE_CHECKING:
    from beam_datasets.features.base import DocArg, Json


class Text(Tensor):
    """Text, stored as UTF-8; bytes are taken and stored as they are. Decodes to bytes.

    Args:
        encoder: must be None: texts encoded as numbers, which old datasets have, are not supported.
        encoder_config: must be None.
        doc: what it means.
        optional: None is a value. features.json cannot say so; hence any Text that a record lacks decodes to None.
    """

    PATH: ClassVar[str] = "text_feature.Text"

    def __init__(
        self, encoder: None = None, encoder_config: None = None, *, doc: DocArg = None, optional: bool = False
    ) -> None:
        if encoder is not None or encoder_config is not None:
            raise ValueError("Text does not support an encoder; encode the text to a Sequence of integers before")
        super().__init__(shape=(), dtype=STRING, doc=doc, optional=optional)

    @property
    def may_be_missing(self) -> bool:
        """Returns True, see `optional`."""
        return True

    def content_json(self) -> tuple[str, Json]:
        """Returns the key 'text' and nothing."""
        return "text", {}

    @classmethod
    def from_content(cls, content: Json) -> Text:
        """Returns a Text."""
        if content.get("use_encoder"):
            raise ValueError("the dataset has text encoded as numbers by an encoder; that is not supported")
        return cls()
