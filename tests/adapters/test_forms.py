"""All forms of `as_torch()` on two spawned ranks: each example in each epoch, in equal steps where `even` is given."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import beam_datasets as bd
from tests.adapters.conftest import flat
from tests.adapters.read_forms_on_ranks import BATCH_SIZE, DIRECTORY, NUM_EXAMPLES, NUM_RANKS

SCRIPT = Path(__file__).with_name("read_forms_on_ranks.py")
ROOT = Path(__file__).resolve().parents[2]


def test_forms_on_spawned_ranks(torch: Any, tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, SCRIPT, tmp_path], env=environment, check=True, timeout=300)
    ranks = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(NUM_RANKS)]
    examples = bd.builder_from_directory(DIRECTORY).as_dataset(f"train[:{NUM_EXAMPLES}]")
    expected = Counter(int(example["idx"]) for example in examples)
    assert len(ranks[0]) == 11
    for form in ranks[0]:
        for epoch in range(2):
            batches = [rank[form][epoch] for rank in ranks]
            check(form, Counter(flat(flat(batches))), expected)
            if not form.endswith("None"):
                assert len({len(steps) for steps in batches}) == 1, form
                assert {len(batch) for batch in flat(batches)} == {BATCH_SIZE}, form
        assert any(rank[form][0] != rank[form][1] for rank in ranks), f"{form}: the order of both epochs is the same"


def check(form: str, got: Counter[int], expected: Counter[int]) -> None:
    """Checks the examples of all ranks in an epoch; the sampler repeats one, so that the ranks have equal numbers."""
    missing, again = (expected - got).total(), (got - expected).total()
    rest = -NUM_EXAMPLES % (BATCH_SIZE * NUM_RANKS)
    if form.endswith("drop"):
        assert (missing, again) == (BATCH_SIZE * NUM_RANKS - rest, 0), form
    elif form.endswith("pad"):
        assert (missing, again) == (0, rest), form
    else:
        assert (missing, again) == (0, form.startswith("map style")), form
