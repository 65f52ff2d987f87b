"""Real frameworks train on two ranks: what each gets in an epoch, after a stop, and on another number of ranks.

docs/how-to/adapters.md has the table of the results, whose rows are compared here and printed at the end of the run.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.conftest import ROWS, flat, needed
from tests.adapters.frameworks import DONE, NUM_EXAMPLES
from tests.processes import kill

SCRIPT = Path(__file__).with_name("frameworks.py")
ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "how-to" / "adapters.md"

# framework -> its name on the page, modules that it needs, number of processes that the test starts
FRAMEWORKS = {
    "torchrun": ("torchrun, StatefulDataLoader", ["torch", "torchdata"], 1),
    "spawn": ("torch.multiprocessing.spawn", ["torch", "torchdata"], 1),
    "lightning": ("Lightning, ddp", ["torch", "lightning"], 2),
    "transformers": ("Hugging Face Trainer", ["torch", "transformers", "accelerate"], 2),
    "accelerate": ("Accelerate", ["torch", "accelerate"], 2),
    "accelerate, dispatching": ("Accelerate, dispatching", ["torch", "accelerate"], 2),
    "jax": ("JAX, 2 processes of 2 devices", ["jax", "torch"], 2),
    "keras": ("Keras", ["tensorflow"], 1),
    "grain": ("Grain", ["grain"], 1),
}


def run(framework: str, num_processes: int, folder: Path) -> list[dict[str, Any]]:
    """Returns what each rank has written."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    variables = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
    command = [sys.executable, str(SCRIPT), framework, str(folder)]
    if framework == "torchrun":
        launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", f"--master_port={port}"]
        command = launcher + command[1:]
    processes: list[subprocess.Popen[bytes]] = []
    for rank in range(num_processes):
        mine = {}
        if num_processes > 1:
            mine = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(num_processes)}
            mine |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "LOCAL_WORLD_SIZE": str(num_processes)}
            mine |= {"TORCHELASTIC_RUN_ID": "test", "GROUP_RANK": "0"}  # Lightning starts no processes then
        with (folder / f"{rank}.log").open("w") as log:
            environment = variables | mine
            processes.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True))
    try:
        codes = [process.wait(timeout=200) for process in processes]
    finally:
        for process in processes:
            kill(process)
    logs = "\n".join(path.read_text()[-3000:] for path in sorted(folder.glob("*.log")))
    assert codes == [0] * num_processes, logs
    return [json.loads(path.read_text()) for path in sorted(folder.glob("[01].json"))]


def epoch_cell(ranks: list[dict[str, Any]], epoch: int) -> str:
    """Returns how often each example came."""
    got = flat(flat(rank["epochs"][epoch] for rank in ranks))
    again = len(got) - len(set(got))
    if len(set(got)) != NUM_EXAMPLES:
        return f"{len(set(got))} of {NUM_EXAMPLES}"
    return f"once, {again} again" if again else "once"


def steps_cell(ranks: list[dict[str, Any]]) -> str:
    return " and ".join(str(len(rank["epochs"][0])) for rank in ranks)


def order_cell(ranks: list[dict[str, Any]]) -> str:
    return "same order" if any(rank["epochs"][0] == rank["epochs"][1] for rank in ranks) else "other order"


def resumed_cell(ranks: list[dict[str, Any]]) -> str:
    """Returns whether a run goes on with the rest of the second epoch, which examples of its own may fill up."""
    rest = [rank["epochs"][1][DONE:] for rank in ranks]
    got = [rank["resumed"] for rank in ranks]
    if got == rest:
        return "exact"
    before = set(flat(flat(rank["epochs"][1][:DONE] for rank in ranks)))
    is_whole = set(flat(flat(rest))) - before <= set(flat(flat(got)))
    return "exact up to the last step" if is_whole and [g[:-1] for g in got] == [r[:-1] for r in rest] else "other"


def others_cell(ranks: list[dict[str, Any]]) -> str:
    before = flat(flat(rank["epochs"][1][:DONE] for rank in ranks))
    expected = set(flat(flat(rank["epochs"][1] for rank in ranks))) - set(before)
    got = ranks[0].get("others", [])
    return "exact" if sorted(got) == sorted(expected) else "other"


def evaluated_cell(ranks: list[dict[str, Any]]) -> str:
    got = ranks[0]["evaluated"]
    return "all" if len(got) == len(set(got)) == NUM_EXAMPLES else f"{len(set(got))} of {NUM_EXAMPLES}"


def check_stream(rank: dict[str, Any], log: str) -> None:
    """Checks that a rank resumes a stream if all ranks have saved their states; else a warning and an error come."""
    whole, resumed = rank["stream"], rank["resumed stream"]
    assert resumed == {"0": whole["0"][DONE:], "1": whole["1"]}
    assert "Lightning restores the state of rank 0 on all ranks" in rank["error"]
    assert "contain the state of the loader of rank 0 alone" in log


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_framework(framework: str, tmp_path: Path) -> None:
    name, modules, num_processes = FRAMEWORKS[framework]
    for module in modules:
        needed(module)
    ranks = run(framework, num_processes, tmp_path)
    for number, rank in enumerate(ranks):
        if "stream" in rank:
            check_stream(rank, (tmp_path / f"{number}.log").read_text())
    epochs = [epoch_cell(ranks, epoch) for epoch in range(2)]
    assert len(set(epochs)) == 1
    cells = [name, epochs[0], steps_cell(ranks), order_cell(ranks), resumed_cell(ranks)]
    cells += [others_cell(ranks), evaluated_cell(ranks)] if len(ranks) > 1 else ["one process", "one process"]
    ROWS.append(row := f"| {' | '.join(cells)} |")
    assert row in PAGE.read_text(encoding="utf-8").splitlines(), f"{PAGE}: expected the row {row}"
