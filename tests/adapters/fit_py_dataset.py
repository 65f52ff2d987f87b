"""Trains with Keras on a `PyDataset` that reads a dataset by indices; prints the ids of each step and epoch as JSON.

fit_py_dataset.py WORKERS USE_MULTIPROCESSING
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np

import beam_datasets as bd

DIRECTORY = Path(__file__).resolve().parents[1] / "data" / "tfds" / "spec_inter" / "1.2.3"
NUM_EXAMPLES, BATCH_SIZE, EPOCHS = 201, 16, 2
steps: list[list[int]] = []


class Batches(keras.utils.PyDataset):
    """Slices of a dataset."""

    def __init__(self, dataset: Any, **options: Any) -> None:
        super().__init__(**options)
        self.dataset = dataset

    def __len__(self) -> int:
        return -(-len(self.dataset) // BATCH_SIZE)

    def __getitem__(self, index: int) -> Any:
        examples = self.dataset[index * BATCH_SIZE : (index + 1) * BATCH_SIZE]
        numbers = np.array([[example["idx"]] for example in examples], np.float32)
        return numbers, np.zeros_like(numbers)


class Model(keras.Sequential):
    """Keeps the numbers that it gets."""

    def train_step(self, data: Any) -> Any:
        steps.append(np.ravel(data[0]).astype(int).tolist())
        return super().train_step(data)


if __name__ == "__main__":
    train = bd.builder_from_directory(DIRECTORY).as_dataset(f"train[:{NUM_EXAMPLES}]")
    batches = Batches(train, workers=int(sys.argv[1]), use_multiprocessing=sys.argv[2] == "True")
    model = Model([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", run_eagerly=True)
    model.fit(batches, epochs=EPOCHS, verbose=0)
    print(json.dumps([steps[: len(batches)], steps[len(batches) :]]))
