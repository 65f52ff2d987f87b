"""Translation and TranslationVariableLanguages: the same text in several languages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from beam_datasets.errors import FeatureTypeError, FeatureValueError
from beam_datasets.features.base import DocArg, FeatureConnector, FromJson, to_names
from beam_datasets.features.dtypes import Json, drop_unset
from beam_datasets.features.features_dict import FeaturesDict
from beam_datasets.features.raw import to_bytes
from beam_datasets.features.sequence import Sequence
from beam_datasets.features.tensor import Text
from beam_datasets.features.wrapped import Wrapped


class Translation(FeaturesDict):
    """A text in a fixed set of languages: a dict from language codes to texts.

    Args:
        languages: the language codes; each value has a text for each of them.
        encoder: must be None; see `Text`.
        encoder_config: must be None.
        doc: the documentation of the feature.
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
        """Returns ('translation', {'languages': language codes})."""
        return "translation", drop_unset({"languages": self.languages})

    @classmethod
    def from_content(cls, content: Json, from_json: FromJson) -> Translation:
        """Returns the Translation of `content`, such as {'languages': ['de', 'en']}; see `content_json`."""
        return cls(content.get("languages", []))


@dataclass(frozen=True, repr=False, init=False)
class TranslationVariableLanguages(Wrapped):
    """A text in any number of languages, with one translation or several in each.

    Takes a dict from language codes to a text or a list of texts. Decodes to a dict of two arrays of bytes, `language`
    and `translation`, sorted by both: {'de': 'Hut', 'en': ['cap', 'hat']} becomes {'language': [b'de', b'en', b'en'],
    'translation': [b'Hut', b'cap', b'hat']}.

    Args:
        languages: the language codes that may occur; None for any.
        doc: the documentation of the feature.
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
        """The number of language codes that may occur; None for any number."""
        return None if self.language_codes is None else len(self.language_codes)

    def inner_connector(self) -> FeatureConnector:
        """Returns the connector of a sequence of dicts {'language': text, 'translation': text}."""
        return Sequence({"language": Text(), "translation": Text()})

    def to_inner_converter(self, path: str) -> Callable[[Any], Any]:
        """Returns the function from a dict of translations to a sorted list of {'language': ..., 'translation': ...}.

        Args:
            path: the feature, for errors of the function.
        """
        codes = self.language_codes

        def to_pairs(value: Any) -> list[dict[str, Any]]:
            """Returns the sorted list of {'language': ..., 'translation': ...} of a dict of translations."""
            if not isinstance(value, dict):
                raise FeatureTypeError(
                    f"{type(value).__name__} is not a dict from languages to translations", feature=path
                )
            unknown = [language for language in value if codes is not None and language not in codes]
            if unknown:
                raise FeatureValueError(expected=f"languages of {self.languages}", got=str(unknown), feature=path)
            pairs = []
            for language, texts in value.items():
                if isinstance(texts, Mapping) or not hasattr(texts, "__iter__"):
                    raise FeatureTypeError(expected="texts", got=f"{type(texts).__name__}: {texts!r:.80}", feature=path)
                text_list = [texts] if isinstance(texts, (str, bytes)) else texts
                pairs += [(to_bytes(language, path), to_bytes(text, path)) for text in text_list]
            return [{"language": language, "translation": text} for language, text in sorted(pairs)]

        return to_pairs

    def from_inner_converter(self, path: str) -> Callable[[Any], Any]:
        """Returns the identity function, as decoded values are the pairs of the inner connector."""
        return lambda value: value

    def from_inner_items_converter(self, path: str, rank: int) -> Callable[[Any], Any]:
        """Returns the identity function, as decoded values are the pairs of the inner connector."""
        return lambda value: value

    def content_json(self) -> tuple[str, Json]:
        """Returns ('translation', {'variableLanguagesPerExample': True, 'languages': language codes, if any})."""
        return "translation", {"variableLanguagesPerExample": True, **drop_unset({"languages": self.languages})}

    @classmethod
    def from_content(cls, content: Json, from_json: FromJson) -> TranslationVariableLanguages:
        """Returns the feature of `content`, the second value of `content_json`."""
        return cls(content.get("languages"))

    def __repr__(self) -> str:
        return repr(self.inner_connector()).replace("Sequence(", "TranslationVariableLanguages(", 1)
