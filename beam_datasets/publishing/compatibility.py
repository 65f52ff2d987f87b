"""The check of a new version number against the differences from an earlier published version, before publishing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from beam_datasets import catalog, storage
from beam_datasets.errors import ResultKeptError, VersionError
from beam_datasets.metadata.info import DatasetInfo
from beam_datasets.metadata.version import LATEST, Version

if TYPE_CHECKING:
    from beam_datasets.diffing import Verdict


NUM_SHOWN = 10  # reasons of a refusal


def earlier_version(dataset_dir: str, requested: str = "latest") -> str | None:
    """Returns the directory of the published version against which a version is checked; None if there is none.

    Args:
        dataset_dir: directory of the version to publish.
        requested: a version; or 'latest' for the highest one below it, for which the result may be None.

    Raises:
        VersionError: the requested version is not published, or not below.
        ValueError: `requested` is not a version.
    """
    folder, mine = storage.dirname(dataset_dir), Version(storage.basename(dataset_dir))
    earlier = [version for version in catalog.versions_in(folder) if version < mine]
    if requested in LATEST:
        return storage.join(folder, str(earlier[-1])) if earlier else None
    if Version(requested) not in earlier:
        listed = ", ".join(map(str, earlier)) or "none"
        raise VersionError(
            f"{mine} cannot be checked against {requested}: published versions below {mine} in {folder} are {listed}.",
            expected=listed,
            got=str(requested),
        )
    return storage.join(folder, str(Version(requested)))


def check_known(published_dir: str, info: DatasetInfo) -> None:
    """Checks the features and description of a version, before it is generated, against those of a published version.

    Raises:
        VersionError: the version is too low for the differences; the message lists them and a version to use.
    """
    from beam_datasets.diffing.features import compare_features
    from beam_datasets.diffing.result import judge
    from beam_datasets.reading.opening import builder_from_directory

    old = builder_from_directory(published_dir).info
    verdict = judge(old, info, compare_features(old.features, info.features).changes, [])
    if not verdict.kept:
        raise VersionError(_refusal(verdict, info.display_name, old.display_name))


def check(published_dir: str, result_dir: str) -> None:
    """Checks that a complete result is as compatible with a published version as its version number promises.

    Raises:
        ResultKeptError: the result is less compatible; the message contains the differences, and the command that
            publishes the result as another version.
    """
    from beam_datasets.diffing import diff  # few runs ask for it, and all would wait for the import

    difference = diff(published_dir, result_dir, examples=0)
    if not difference.verdict.kept:
        command = f"beam-datasets publish {result_dir} --version {difference.verdict.lowest}"
        damaged = (line for split in difference.splits.values() for line in split.undecoded_lines())
        text = "\n".join([_refusal(difference.verdict, difference.new, difference.old), *damaged])
        raise ResultKeptError(f"{text}\nThe result is kept. To publish it under that number: {command}")


def check_number(dataset_dir: str, result_dir: str) -> None:
    """Checks the new version number of a kept result against the version published before it.

    Raises:
        VersionError: the number is too low.
    """
    from beam_datasets.diffing import diff

    published_dir, version = earlier_version(dataset_dir), Version(storage.basename(dataset_dir))
    if published_dir is None:
        return
    verdict = diff(published_dir, result_dir, examples=0).verdict
    if verdict.lowest is not None and version < verdict.lowest:
        raise VersionError(
            expected=(
                f"version {verdict.lowest} or higher, as the result differs from {storage.basename(published_dir)}"
            ),
            got=str(version),
            path=dataset_dir,
        )


def _refusal(verdict: Verdict, new: str, old: str) -> str:
    """Returns the text of the error about a version number that is too low, with at most `NUM_SHOWN` reasons.

    Args:
        verdict: the comparison of the two versions.
        new: name of the version that was not published.
        old: name of the version that it was compared with.
    """
    reasons = [f"  {reason.needs}  {reason.text}" for reason in verdict.reasons]
    ellipsis = [f"  ... and {len(reasons) - NUM_SHOWN} more"] if len(reasons) > NUM_SHOWN else []
    lines = [f"{new} was not published: it was compared with {old}.", *reasons[:NUM_SHOWN], *ellipsis]
    return "\n".join([*lines, str(verdict)])
