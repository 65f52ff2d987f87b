"""What a version number promises, checked against the last published version before the new one is published."""

from __future__ import annotations

from beam_datasets import catalog, storage
from beam_datasets.errors import VersionError
from beam_datasets.model.version import LATEST, Version

SHOWN = 10  # reasons of a refusal


def earlier_version(dataset_dir: str, wanted: str = "latest") -> str | None:
    """Returns the directory of the published version that a version is to be checked against.

    Args:
        dataset_dir: of the version that is to be published.
        wanted: a version; or 'latest' for the highest one below it.

    Returns:
        None where the latest is wanted, and none is below it.

    Raises:
        VersionError: the version that is wanted is not published, or not below.
        ValueError: `wanted` is no version.
    """
    folder, mine = storage.dirname(dataset_dir), Version(storage.basename(dataset_dir))
    names = storage.list_dir(folder) if storage.is_dir(folder) else []
    there = [Version(name) for name in names if Version.is_valid(name) and name == str(Version(name))]
    earlier = sorted(v for v in there if v < mine and catalog.is_published(storage.join(folder, str(v))))
    if wanted in LATEST:
        return storage.join(folder, str(earlier[-1])) if earlier else None
    if Version(wanted) not in earlier:
        listed = ", ".join(map(str, earlier)) or "none"
        raise VersionError(
            f"{mine} cannot be checked against {wanted}: published versions below {mine} in {folder} are {listed}."
        )
    return storage.join(folder, str(Version(wanted)))


def check(published_dir: str, staged_dir: str) -> None:
    """Checks that a staged version keeps what its number promises to readers of a published one.

    Raises:
        VersionError: it does not; the message says what differs and which number would do.
    """
    from beam_datasets.reading.comparing import diff  # few runs ask for it, and all would wait for the import
    from beam_datasets.reading.opening import builder_from_directory

    found = diff(builder_from_directory(published_dir), builder_from_directory(staged_dir), examples=0)
    verdict = found.verdict
    if verdict.kept:
        return
    reasons = [f"  {reason.needs}  {reason.text}" for reason in verdict.reasons]
    left_out = [f"  ... and {len(reasons) - SHOWN} more"] if len(reasons) > SHOWN else []
    lines = [f"{found.new} was not published: it was compared with {found.old}.", *reasons[:SHOWN], *left_out]
    raise VersionError("\n".join([*lines, str(verdict)]))
