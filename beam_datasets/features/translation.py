"""Translation and TranslationVariableLanguages: the same text in several languages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from beam_datasets.errors import FeatureTypeError, FeatureValueError
from beam_datasets.features.base import DocArg, FeatureConnector, Json, drop_unset, to_names
from beam_datasets.features.features_dict import FeaturesDict
from beam_datasets.features.raw import to_bytes
from beam_datasets.features.sequence import Sequence
from beam_datasets.features.tensor import Text
from beam_datasets.features.wrapped import Wrapped


class Translation(FeaturesDict):
    """A text in each of some languages: a dict from language codes to texts.

    Args:
        languages: the language codes.
        encoder: must be None, see `Text`.
        encoder_config: must be None.
        doc: what it means.
    """

    PATH: ClassVar[str] = "translation_feature.Translation"

    def __init__(
        self, languages: Iterable[str], encoder: None = None, encoder_config: None = None, *, doc: DocArg = None
    ) -> None:
        super().__init__(
            {language: Text(encoder, encoder_config) for language in to_names("languages", languages)}, doc=doc
        )

    @property
    def languages(self) -> list[str]:
        """The language codes, sorted."""
        return sorted(self.features)

    def content_json(self) -> tuple[str, Json]:
        """Returns the key 'translation' and the languages."""
        return "translation", drop_unset(languages=self.languages)

    @classmethod
    def from_content(cls, content: Json) -> Translation:
        """Returns the Translation with this content."""
        return cls(content.get("languages", []))


@dataclass(frozen=True, repr=False, init=False)
class TranslationVariableLanguages(Wrapped):
    """A text in any number of languages, each with one translation or several.

    Takes a dict from language codes to a text or to several; decodes to a dict of two arrays, `language` and
    `translation`, sorted by both.

    Args:
        languages: the language codes that may occur; any, if None.
        doc: what it means.
    """

    language_codes: frozenset[str] | None

    PATH: ClassVar[str] = "translation_feature.TranslationVariableLanguages"

    def __init__(self, languages: Iterable[str] | None = None, *, doc: DocArg = None) -> None:
        codes = frozenset(to_names("languages", languages)) if languages else None
        self._set_fields(doc=doc, language_codes=codes)
        super().__post_init__()

    @property
    def languages(self) -> list[str] | None:
        """The language codes that may occur, sorted; None for any."""
        return None if self.language_codes is None else sorted(self.language_codes)

    @property
    def num_languages(self) -> int | None:
        """How many language codes may occur; None for any."""
        return None if self.language_codes is None else len(self.language_codes)

    def inner_connector(self) -> FeatureConnector:
        """Returns the sequence of pairs."""
        return Sequence({"language": Text(), "translation": Text()})

    def to_inner_converter(self, path: str) -> Callable[[Any], Any]:
        """Returns the function from a dict of translations to sorted pairs."""
        known = self.language_codes

        def lower(value: Any) -> list[dict[str, Any]]:
            if not isinstance(value, dict):
                raise FeatureTypeError(f"{path}: {type(value).__name__} is not a dict from languages to translations")
            unknown = [language for language in value if known is not None and language not in known]
            if unknown:
                raise FeatureValueError(f"{path}: expected languages of {self.languages}, got {unknown}")
            pairs = []
            for language, texts in value.items():
                if isinstance(texts, Mapping) or not hasattr(texts, "__iter__"):
                    raise FeatureTypeError(f"{path}: expected texts, got {type(texts).__name__}: {texts!r:.80}")
                several = [texts] if isinstance(texts, (str, bytes)) else texts
                pairs += [(to_bytes(language, path), to_bytes(text, path)) for text in several]
            return [{"language": language, "translation": text} for language, text in sorted(pairs)]

        return lower

    def from_inner_converter(self, path: str) -> Callable[[Any], Any]:
        """Returns the function that changes nothing: pairs are decoded as pairs."""
        return lambda value: value

    def from_inner_items_converter(self, path: str, rank: int) -> Callable[[Any], Any]:
        """Returns the function that changes nothing."""
        return lambda value: value

    def content_json(self) -> tuple[str, Json]:
        """Returns the key 'translation' and the languages."""
        return "translation", {"variableLanguagesPerExample": True, **drop_unset(languages=self.languages)}

    @classmethod
    def from_content(cls, content: Json) -> TranslationVariableLanguages:
        """Returns the feature with this content."""
        return cls(content.get("languages"))

    def __repr__(self) -> str:
        return repr(self.inner_connector()).replace("Sequence(", "TranslationVariableLanguages(", 1)
