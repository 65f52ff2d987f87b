"""Staging of inputs.json, the record of the files that a version is built from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from beam_datasets import storage
from beam_datasets.errors import PathNotFoundError
from beam_datasets.metadata.inputs import INPUTS_FILE, Inputs
from beam_datasets.native import crc32c
from beam_datasets.publishing import staged_files
from beam_datasets.publishing.publication import Publication


def stage_inputs(publication: Publication, inputs: Inputs | None) -> Publication:
    """Stages the record of the files that a version is built from, if there is one; returns the publication with it.

    So it is written before the job, and is not part of its graph.
    """
    if inputs is None:
        return publication
    text, folder = inputs.to_text().encode(), staged_files.new_dir(publication.staging_dir)
    storage.write_bytes(storage.join(folder, INPUTS_FILE), text)
    return replace(publication, inputs=(storage.join(folder, INPUTS_FILE), len(text), crc32c(text)))


def stage_checksums(publication: Publication, checksums: Mapping[str, str]) -> Publication:
    """Stages the record again, with checksums of its files, and returns the publication with it.

    Args:
        publication: the publication, whose record is staged without these checksums.
        checksums: path of a file -> its checksum; '' if it is not known.
    """
    assert publication.inputs is not None
    inputs = Inputs.from_text(storage.read_bytes(publication.inputs[0]))
    assert inputs is not None
    known_checksums = {name: text for name, text in checksums.items() if text}
    return stage_inputs(publication, inputs.with_files(Inputs(checksums=known_checksums)))


def read_inputs(dataset_dir: str) -> Inputs | None:
    """Returns the files that a version was built from; None if it has no readable inputs.json."""
    try:
        return Inputs.from_text(storage.read_bytes(storage.join(dataset_dir, INPUTS_FILE)))
    except PathNotFoundError:
        return None


def inherited_inputs(publication: Publication) -> Inputs | None:
    """Returns the record of input files that a version takes from its sources; None if it takes none."""
    inheritance = publication.inheritance
    if inheritance is None:
        return None
    return inheritance.derive([read_inputs(each) for each in inheritance.sources])
