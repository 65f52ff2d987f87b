"""beam_datasets in PyTorch's DataLoader."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ours import STEPS as OURS
from ours import SYSTEM, _dataset
from steps import BATCH_SIZE, loader_steps
from torch.utils.data import DataLoader

if TYPE_CHECKING:
    from steps import Job

PACKAGES = ("beam_datasets", "torch", "numpy")


def _load(job: Job, workers: int, function: Any) -> Any:
    batches = _dataset(job).batch(BATCH_SIZE, pad=job.workload == "tokens")
    return DataLoader(batches.as_torch(), batch_size=None, num_workers=workers)


STEPS = {"generate_beam": OURS["generate_beam"], **loader_steps(SYSTEM, _load)}
