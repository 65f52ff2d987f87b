"""What is said where a framework is not installed, and the process split of JAX."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

import beam_datasets as bd
from beam_datasets.errors import MissingDependencyError


@pytest.mark.parametrize(
    "method, module, message",
    [
        ("as_torch", "torch", r"as_torch\(\) needs PyTorch: pip install 'beam_datasets\[torch\]'"),
        ("as_tf_dataset", "tensorflow", r"as_tf_dataset\(\) needs TensorFlow: pip install 'beam_datasets\[tf\]'"),
        ("as_grain_source", "grain", r"as_grain_source\(\) needs Grain: pip install 'beam_datasets\[grain\]'"),
    ],
)
def test_says_what_to_install(
    three: Any, monkeypatch: pytest.MonkeyPatch, method: str, module: str, message: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)  # so that it cannot be imported
    with pytest.raises(MissingDependencyError, match=f"^{message}$"):
        getattr(three.as_dataset("train"), method)()


def test_says_why_a_framework_cannot_be_imported(three: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    (tmp_path / "grain.py").write_text("import a_library_that_is_not_there")
    monkeypatch.delitem(sys.modules, "grain", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingDependencyError, match=r"cannot be imported: No module named 'a_library"):
        three.as_dataset("train").as_grain_source()


def test_jax_processes_divide_a_split(three: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = [int(example["idx"]) for example in three.as_dataset("train")[:]]
    parts = []
    for process in range(3):
        jax = SimpleNamespace(process_index=lambda p=process: p, process_count=lambda: 3)
        monkeypatch.setitem(sys.modules, "jax", jax)
        split = bd.split_for_jax_process("train")
        parts.append([int(example["idx"]) for example in three.as_dataset(split)[:]])
    assert [example for part in parts for example in part] == whole
    assert [len(part) for part in parts] == [8, 8, 7]
    assert len(three.as_dataset(bd.split_for_jax_process("train", drop_remainder=True))) == 7


def test_jax_split_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(MissingDependencyError, match=r"process_index and process_count, or pip install jax"):
        bd.split_for_jax_process("train")
    assert bd.split_for_jax_process("train", process_index=0, process_count=2)
