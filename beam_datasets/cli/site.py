"""`beam-datasets site`: the catalogue of a directory of datasets as static pages."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from beam_datasets import catalog, storage
from beam_datasets.cli.diff import as_json, text_lines
from beam_datasets.cli.explorer import pages
from beam_datasets.cli.explorer.pages import MAX_SHOWN, PICTURES, SOUNDS, media, media_of
from beam_datasets.cli.info import info_json
from beam_datasets.cli.options import STORAGE_OPTIONS, Command, Flag, Option, UsageError
from beam_datasets.cli.printing import plural, say
from beam_datasets.diffing import diff
from beam_datasets.display.text import printable
from beam_datasets.display.values import feature_at, value_text
from beam_datasets.errors import BeamDatasetsError, FeatureError, PathNotFoundError, StorageError
from beam_datasets.extras import framework
from beam_datasets.features import ClassLabel, FeaturesDict
from beam_datasets.features.trees import leaves_with_features
from beam_datasets.reading.opening import ReadOnlyBuilder
from beam_datasets.statistics.page import asset, content
from beam_datasets.statistics.report import compute_request, json_text, read_saved, save
from beam_datasets.statistics.summary import prepare_request

if TYPE_CHECKING:
    from types import ModuleType

    import pyarrow

    from beam_datasets.features import FeatureConnector
    from beam_datasets.statistics.report import Statistics


COMMAND = Command(
    "site",
    """\
Writes static pages about all datasets in a directory, for any web server, bucket or disk. They contain a search,
statistics, sample rows, changes between versions, catalog.json, and for each version Croissant metadata for dataset
search engines and ML tools.

Statistics and changes are computed only once: statistics are saved beside the datasets, changes in the site.""",
    (
        Option("data_dir", "DATA_DIR", "the directory of the datasets"),
        Option(
            "--to",
            "DIR",
            "directory for the pages, outside of DATA_DIR; files of the same names are replaced (required)",
            required=True,
        ),
        Option(
            "--url",
            "URL",
            "URL at which the pages will be published; search engines and tools that read the site need it",
        ),
        Flag("--no_statistics", "do not compute statistics; show only saved ones"),
        Flag("--no_changes", "do not compare versions (a comparison reads all examples); show only saved comparisons"),
        STORAGE_OPTIONS,
    ),
    example="DATA_DIR --to DIR",
)
_POLICY = "default-src 'self' file:; img-src 'self' file: data:; object-src 'none'; base-uri 'none'; form-action 'none'"
_MAX_NUMBERS = 1000
_TYPES = {bool: "sc:Boolean", int: "sc:Integer", float: "sc:Float", str: "sc:Text"}
# The terms of Croissant 1.0 and their meanings.
_TERMS = (
    "citeAs column conformsTo data dataType equivalentProperty examples extract field fileObject fileProperty fileSet "
    "format includes isLiveDataset jsonPath key md5 parentField path recordSet references regex repeated replace "
    "samplingRate separator source subField transform"
)
CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "sc": "https://schema.org/",
    **{term: f"cr:{term}" for term in _TERMS.split()},
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
}


def run(args: Sequence[str]) -> int:
    """Writes the site."""
    parsed = COMMAND.parse(args)
    jinja = framework("jinja2", needed_by="beam-datasets site", name="Jinja", extra="explore")
    root, target = catalog.root_dir(parsed.data_dir, parsed.storage_options), storage.normalize(parsed.to)
    if not catalog.list_datasets(root) and not storage.is_dir(root):
        raise PathNotFoundError(f"{root}: {catalog.explain_missing_directory(root)}")
    if _do_overlap(target, root):
        raise UsageError(f"--to {parsed.to}: expected a directory outside of {root} and not above it")
    catalogue = pages.Catalogue(root)
    site = _Site(catalogue, target, (parsed.url or "").rstrip("/"), jinja)
    index, previous, entries = catalogue.index(), "", []
    for row in index["datasets"]:
        name = row["dataset"]
        is_same_dataset = name.rpartition(":")[0] == previous.rpartition(":")[0]
        try:
            if "error" in row:
                raise BeamDatasetsError(f"left out: {row['error']}")
            entries.append(site.version(name, previous if is_same_dataset else "", parsed.statistics, parsed.changes))
            previous = name
        except BeamDatasetsError as error:
            row["error"] = str(error)
            site.damage[name] = [str(error)]
    site.show("index.html", "index", index)
    for name in ("page.css", "page.js"):
        site.write(name, asset(name))
    site.write("catalog.json", json.dumps({"format": 1, "datasets": entries}, indent=1))
    say(f"{plural(len(entries), 'version')} in {storage.join(site.target, 'index.html')}")
    for name, errors in site.damage.items():
        say("\n".join(f"{name}: {error}" for error in dict.fromkeys(errors)), file=sys.stderr)
    return 1 if site.damage else 0


def _do_overlap(*directories: str) -> bool:
    """Returns whether two directories are the same, or one contains the other."""
    if any(map(storage.is_remote, directories)):  # it has no links
        parts = [tuple(filter(None, storage.url(path).split("/"))) for path in directories]
        return any(outer[: len(inner)] == inner for outer, inner in (parts, parts[::-1]))
    places = list(map(os.path.realpath, directories))
    return os.path.commonpath(places) in places


class _Site:
    """The templates of the explorer with links between files.

    Attributes:
        catalogue: the datasets.
        target: the directory of the site.
        url: its public address; '' if that is not known.
        damage: name of a version -> why parts of its pages are missing.
    """

    def __init__(self, catalogue: pages.Catalogue, target: str, url: str, jinja: Any) -> None:
        self.catalogue, self.target, self.url = catalogue, target, url
        loader = jinja.PackageLoader("beam_datasets.cli.explorer")
        self.damage: dict[str, list[str]] = {}
        self._templates = jinja.Environment(loader=loader, autoescape=True, finalize=pages.escaped)

    def write(self, path: str, data: str | bytes) -> None:
        """Writes a file of the site.

        Args:
            path: path of the file in the site, with `/`.
            data: the content; a str is written as UTF-8.
        """
        target = storage.join(self.target, path)
        storage.make_dirs(storage.dirname(target))
        storage.write_bytes(target, data.encode() if isinstance(data, str) else data)

    def show(self, path: str, template: str, values: dict[str, Any]) -> None:
        """Writes an HTML page.

        Args:
            path: path of the page in the site, with `/`.
            template: name of the template without `.html`.
            values: the template's variables by name.
        """
        up = "../" * path.count("/")

        def url_for(
            endpoint: str,
            name: str = "",
            slice: str = "",
            index: int = 0,
            path: str = "",
            item: int = 0,
            size: int | None = None,
        ) -> str:
            """Returns the relative URL of a page or file of the site; "" for a damaged image.

            Args:
                endpoint: "index", "style", "code", "dataset", "statistics", "rows", or "file" for an image or sound,
                    which is written.
                name: name of the dataset version.
                slice: name of the split.
                index: index of the example in the slice.
                path: path of the feature.
                item: index of the image in the feature.
                size: not used: all images of a site have one size.
            """
            files = {"index": "index.html", "style": "page.css", "code": "page.js"}
            if endpoint in files:
                return up + files[endpoint]
            if endpoint == "file":
                media_path = self.media(name, slice, index, path, item)
                return media_path and up + quote(f"{_version_folder(name)}/{media_path}")
            file = {"dataset": "index.html", "statistics": "statistics.html", "rows": _rows_file(slice)}[endpoint]
            return up + quote(f"{_version_folder(name)}/{file}")

        page = self._templates.get_template(f"{template}.html", globals={"url_for": url_for, "MAX_SHOWN": MAX_SHOWN})
        self.write(path, page.render(catalogue=self.catalogue, policy=_POLICY, static=True, **values))

    def media(self, name: str, split: str, index: int, path: str, item: int) -> str:
        """Writes a small image or a sound, and returns its path in the version's folder; '' for a damaged image.

        Args:
            name: name of the dataset, with its version.
            split: expression of the slice.
            index: index of the example in the slice.
            path: path of the feature.
            item: index of the image in the feature.
        """
        published = self.catalogue.open(name)
        try:
            data, kind = media(published, split, index, path, item, 96)
        except FeatureError:
            return ""
        number = hashlib.sha256(f"{split} {path} {index} {item}".encode()).hexdigest()[:16]
        file = f"media/{number}.{kind.rpartition('/')[2]}"
        self.write(f"{_version_folder(name)}/{file}", data)
        return file

    def _make_or_report(self, name: str, make: Callable[..., Any], *args: Any) -> Any:
        """Returns `make(*args)`; for a BeamDatasetsError, adds its text to `damage[name]` and returns None."""
        try:
            return make(*args)
        except BeamDatasetsError as error:
            self.damage.setdefault(name, []).append(str(error))
            return None

    def version(self, name: str, previous: str, computes_statistics: bool, compares: bool) -> dict[str, Any]:
        """Writes the files of a version, and returns its entry of catalogue.json: `info_json`, and its files by kind.

        Args:
            name: full name of the version.
            previous: full name of the version before; '' if there is none.
            computes_statistics: whether to compute statistics that are not saved.
            compares: whether to compare the version with the one before.
        """
        published, folder = self.catalogue.open(name), _version_folder(name)
        statistics = (
            self._make_or_report(name, self._statistics, published, computes_statistics)
            if published.info.splits
            else None
        )
        changes = self._changes(published, previous, compares) if previous else None
        samples = {split: self._make_or_report(name, self._sample, published, split) for split in published.info.splits}
        samples = {split: sample for split, sample in samples.items() if sample is not None}
        croissant_json = croissant(published, samples, f"{self.url}/{quote(folder)}/" if self.url else "")
        self.write(f"{folder}/croissant.json", json.dumps(croissant_json, indent=1))
        for split in published.info.splits:
            template, rows = "rows", self._make_or_report(name, pages.rows_page, self.catalogue, name, split)
            if rows is None:
                template, rows = "error", {"message": self.damage[name][-1]}
            self.show(f"{folder}/{_rows_file(split)}", template, rows | {"has_statistics": statistics is not None})
        files = {"page": "index.html", "croissant": "croissant.json"}
        if statistics is not None:
            files["statistics"] = "statistics.json"
            self.write(f"{folder}/statistics.json", json_text(statistics))
            selections = [(name, split) for split in statistics.slices]
            body = content(statistics.slices, images=self._make_or_report(name, self._images, published))
            page_data = {"chosen": selections, "content": printable(body)}
            self.show(f"{folder}/statistics.html", "statistics", page_data)
        values: dict[str, Any] = {
            "previous": previous,
            "changes": changes,
            "croissant": croissant_json,
            "has_statistics": statistics is not None,
        }
        values |= pages.dataset_page(self.catalogue, name) | {"damage": dict.fromkeys(self.damage.get(name, ()))}
        self.show(f"{folder}/index.html", "dataset", values)
        return info_json(published) | {"files": {file_kind: f"{folder}/{file}" for file_kind, file in files.items()}}

    def _statistics(self, published: ReadOnlyBuilder, computes: bool) -> Statistics | None:
        """Returns the saved `Statistics` of a version; if there are none, computes and saves them if `computes`.

        Returns None if there are none and `computes` is False.
        """
        request = prepare_request(published.dataset_dir)
        statistics = read_saved(request)
        if statistics is None and computes:
            statistics = compute_request(request)
            with contextlib.suppress(StorageError):  # another user may own the datasets
                save(statistics)
        return statistics

    def _images(self, published: ReadOnlyBuilder) -> dict[str, list[tuple[str, str]]]:
        """Returns images of the first examples: feature -> [(URL, description), ...]; see `pages.sample_images`."""
        name, split = published.info.display_name, pages.default_slice(published)
        return pages.sample_images(published, split, lambda *location: quote(self.media(name, split, *location)))

    def _changes(self, published: ReadOnlyBuilder, previous: str, compares: bool) -> str | None:
        """Returns text about the differences between a version and the one before; None if it is not known.

        The text is saved in changes.json, and read from there if the digests of both versions are the same.

        Args:
            published: the version.
            previous: name of the version before, such as 'digits:1.0.0'.
            compares: whether to compare the versions if no text is saved.
        """
        old, path = self.catalogue.open(previous), f"{_version_folder(published.info.display_name)}/changes.json"
        digests = [old.digest, published.digest]
        with contextlib.suppress(StorageError, ValueError, KeyError):
            saved_changes = json.loads(storage.read_bytes(storage.join(self.target, path)))
            if saved_changes["digests"] == digests:
                return str(saved_changes["text"])
        if not compares:
            return None
        if (difference := self._make_or_report(published.info.display_name, diff, old, published)) is None:
            return None
        text = "\n".join(text_lines(difference, old.info.features, published.info.features))
        self.write(path, json.dumps({"digests": digests, "text": text} | as_json(difference), indent=1))
        return text

    def _sample(self, published: ReadOnlyBuilder, split: str) -> tuple[str, str, list[dict[str, Any]]]:
        """Writes the first examples of a split as Parquet.

        Returns:
            (name of the file, its SHA-256 in hexadecimal digits, the rows); see `_sample_rows`.
        """
        arrow = framework("pyarrow", needed_by="beam-datasets site", name="PyArrow", extra="explore")
        parquet = framework("pyarrow.parquet", needed_by="beam-datasets site", name="PyArrow", extra="explore")
        rows, out = self._sample_rows(published, split), io.BytesIO()
        columns = {path: [row.get(path) for row in rows] for path in (rows[0] if rows else ())}
        table = arrow.table({path: _arrow_array(arrow, values) for path, values in columns.items()})
        parquet.write_table(table.replace_schema_metadata(_for_pandas(table.schema)), out)
        data, file = out.getvalue(), f"sample-{quote(split, safe='')}.parquet"
        self.write(f"{_version_folder(published.info.display_name)}/{file}", data)
        return file, hashlib.sha256(data).hexdigest(), rows

    def _sample_rows(self, published: ReadOnlyBuilder, split: str) -> list[dict[str, Any]]:
        """Returns {path of a feature: `sample_value`} of each of the first examples of a split.

        The value of an image or sound is the path of its file in the version's folder, which it writes; a list of paths
        for several, None for a damaged one.
        """
        name, rows = published.info.display_name, []
        for index, example in enumerate(pages.read_slice(published, split)[: pages.PAGE_ROWS]):
            row = {}
            for path, value, leaf in leaves_with_features(example, published.info.features):
                files = media_of(value, leaf)
                if files is None:
                    row[path] = sample_value(value, leaf)
                    continue
                item_numbers = [one["item"] for one in files[:MAX_SHOWN] if not one["note"]]
                urls = [self.media(name, split, index, path, item) or None for item in item_numbers]
                row[path] = (urls or [None])[0] if isinstance(leaf, SOUNDS) or isinstance(value, bytes) else urls
            rows.append(row)
        return rows


def _version_folder(name: str) -> str:
    """Returns the folder of a version in the site: "digits/1.0.0" for "digits:1.0.0"."""
    return name.replace(":", "/")


def _arrow_array(arrow: ModuleType, values: list[Any]) -> pyarrow.Array:
    """Returns an Arrow array of values; integers above 2**63 - 1, also in lists, make it unsigned.

    Args:
        arrow: the module `pyarrow`.
        values: the values, one per row; None for null.
    """
    try:
        return arrow.array(values)
    except OverflowError:  # of integers from 2^63 on
        is_list = any(isinstance(value, list) for value in values)
        return arrow.array(values, arrow.list_(arrow.uint64()) if is_list else arrow.uint64())


def _for_pandas(schema: Any) -> dict[str, str]:
    """Returns the metadata {'pandas': JSON text} for an Arrow schema, by which pandas reads nullable integers.

    Without it pandas, and so Croissant's library, would read a column of integers with missing values as floats.
    """
    dtypes = {"int64": "Int64", "uint64": "UInt64"}
    types = {field.name: str(field.type) for field in schema if str(field.type) in dtypes}
    columns = [{"name": name, "pandas_type": kind, "numpy_type": dtypes[kind]} for name, kind in types.items()]
    return {"pandas": json.dumps({"columns": columns, "index_columns": [], "column_indexes": []})}


def _rows_file(split: str) -> str:
    """Returns the file name of the page with the rows of a split: "rows-train.html"."""
    return f"rows-{quote(split, safe='')}.html"


def sample_value(value: Any, leaf: FeatureConnector) -> Any:
    """Returns a number, the first 1,000 numbers of a list, the name of a label, or the text of any other value.

    All values of a feature have one type, so that they can be a column. A label without a name is its number as text.

    >>> sample_value(np.int64(1), ClassLabel(names=["cat", "dog"])), sample_value(np.array([1.5, 2]), None)
    ('dog', [1.5, 2.0])
    """
    if isinstance(value, (bytes, str)):
        return pages.decoded(value)
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "biuf" and value.ndim < 2:
        if not isinstance(leaf, ClassLabel) or not (names := leaf.label_names) or value.ndim:
            return np.asarray(value)[:_MAX_NUMBERS].tolist() if value.ndim else value.tolist()
        number = int(value)
        return names[number] if 0 <= number < len(names) else None if number == -1 else str(number)
    if isinstance(value, (list, np.ndarray)) and np.ndim(value) == 1:
        return [sample_value(item, leaf) for item in value]
    return None if value is None else value_text(value, leaf, 1000)


def croissant(published: ReadOnlyBuilder, samples: dict[str, tuple[str, str, list[Any]]], base: str) -> dict[str, Any]:
    """Returns the metadata of a version as Croissant 1.0, which are those of schema.org too.

    Its record sets are the sample rows, as no library of Croissant reads TFRecord.

    Args:
        published: the version.
        samples: split -> (file of its sample rows, the file's SHA-256, the rows); see `_Site._sample`.
        base: URL of the version's folder; '' for paths that are relative to it.
    """
    info = published.info
    homepage = info.homepage if re.match("https?://", info.homepage or "") else None
    content = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": info.display_name,
        "description": info.description or info.display_name,
        "version": str(info.version),
        "identifier": published.digest,
        "url": base or homepage or "index.html",
        "license": info.license,
        "citeAs": info.citation,
        "sameAs": homepage,
        "distribution": [
            _file(f"sample-{quote(s)}", base + quote(file) if base else file, digest)
            for s, (file, digest, _) in samples.items()
        ],
        "recordSet": [_record_set(split, rows, info.features) for split, (_, _, rows) in samples.items() if rows],
    }
    return {name: value for name, value in content.items() if value}


def _file(name: str, url: str, digest: str) -> dict[str, Any]:
    """Returns the description of a Parquet file in the vocabulary Croissant, a `cr:FileObject` as values of JSON.

    Args:
        name: identifier of the file, such as 'sample-train'.
        url: URL of the file, or its path relative to the site.
        digest: SHA-256 of the file, in hexadecimal digits.
    """
    kind = {"@type": "cr:FileObject", "@id": name, "name": name, "encodingFormat": "application/x-parquet"}
    return kind | {"contentUrl": url, "sha256": digest}


def _record_set(split: str, rows: list[dict[str, Any]], features: FeaturesDict) -> dict[str, Any]:
    """Returns Croissant's RecordSet of a sample; mixed or unknown types of values become sc:Text.

    Args:
        split: name of the split.
        rows: the rows of the sample: path of a feature -> value; at least one.
        features: features of the dataset, for columns whose values are all None.
    """
    fields = []
    for path in filter(None, rows[0]):  # a column of Croissant has a name
        values = [row[path] for row in rows if row.get(path) is not None]
        repeated = any(isinstance(value, list) for value in values)
        items = [item for value in values for item in (value if isinstance(value, list) else [value])]
        kinds = {type(item) for item in items if item is not None} or {_item_type(feature_at(features, path))}
        kind = _TYPES.get(kinds.pop(), "sc:Text") if len(kinds) == 1 else "sc:Text"
        column = {"fileObject": {"@id": f"sample-{quote(split)}"}, "extract": {"column": path}}
        field = {"@type": "cr:Field", "@id": f"{quote(split)}/{quote(path, safe='')}", "name": path, "dataType": kind}
        fields.append(field | {"source": column} | ({"repeated": True} if repeated else {}))
    return {"@type": "cr:RecordSet", "@id": quote(split), "name": split, "field": fields}


def _item_type(leaf: FeatureConnector | None) -> type:
    """Returns the Python type of the `sample_value` of a feature: str, bool, int or float."""
    if isinstance(leaf, (*PICTURES, *SOUNDS)) or getattr(leaf, "label_names", None):
        return str
    return {"b": bool, "i": int, "u": int, "f": float}.get(getattr(getattr(leaf, "dtype", None), "kind", ""), str)
