"""Errors if a framework is not installed, and the process split of JAX."""

from __future__ import annotations

import re
import sys
from types import SimpleNamespace
from typing import Any

import pytest

import beam_datasets as bd
from beam_datasets.errors import MissingDependencyError
from beam_datasets.extras import install_command
from tests.adapters.conftest import flat, ids


@pytest.mark.parametrize(
    "method, module, name, extra",
    [
        ("as_torch", "torch", "PyTorch", "torch"),
        ("as_tf_dataset", "tensorflow", "TensorFlow", "tf"),
        ("as_grain_source", "grain", "Grain", "grain"),
    ],
)
def test_names_what_to_install(
    three: Any, monkeypatch: pytest.MonkeyPatch, method: str, module: str, name: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)  # so that it cannot be imported
    message = rf"^{method}\(\) needs {name}: {re.escape(install_command(extra))}$"
    with pytest.raises(MissingDependencyError, match=message):
        getattr(three.as_dataset("train"), method)()


def test_says_why_a_framework_cannot_be_imported(three: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    (tmp_path / "grain.py").write_text("import a_library_that_is_not_there")
    monkeypatch.delitem(sys.modules, "grain", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingDependencyError, match=r"cannot be imported: No module named 'a_library"):
        three.as_dataset("train").as_grain_source()


def test_jax_processes_divide_a_split(three: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = ids(three.as_dataset("train")[:])
    parts = []
    for process in range(3):
        jax = SimpleNamespace(process_index=lambda p=process: p, process_count=lambda: 3)
        monkeypatch.setitem(sys.modules, "jax", jax)
        split = bd.split_for_jax_process("train")
        parts.append(ids(three.as_dataset(split)))
    assert flat(parts) == whole
    assert [len(part) for part in parts] == [8, 8, 7]
    assert len(three.as_dataset(bd.split_for_jax_process("train", drop_remainder=True))) == 7


def test_jax_split_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(MissingDependencyError, match=r"process_index and process_count, or pip install jax"):
        bd.split_for_jax_process("train")
    assert bd.split_for_jax_process("train", process_index=0, process_count=2)
