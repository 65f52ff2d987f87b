"""The Python that each peer runs in: one that is given, or one made at first use."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

CACHE = Path.home() / ".cache" / "beam_datasets" / "benchmarks"
ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = {
    "ours": (f"--editable={ROOT}[beam,image,remote]", "torch"),  # beam_datasets beside PyTorch
    "tfds": ("tensorflow-cpu", "tensorflow-datasets", "apache-beam", "array_record", "grain"),
    "torch": ("mosaicml-streaming", "webdataset", "pillow"),
    "hf": ("datasets", "pillow", "torch"),
    "lance": ("pylance", "imagecodecs", "torch"),
    "litdata": ("litdata", "imagecodecs"),
}
VARIABLES = {
    "TF_CPP_MIN_LOG_LEVEL": "3",  # TensorFlow's own messages
    "CUDA_VISIBLE_DEVICES": "",
    "HF_HUB_OFFLINE": "1",
    "PYTHONDONTWRITEBYTECODE": "",  # packages are compiled when they are installed, a checkout when it is imported
    "PYTHONPATH": str(Path(__file__).parent),  # for the processes that a system starts
}


def python_of(name: str) -> str:
    """Returns the interpreter of an environment: what $BENCHMARK_PYTHON_<NAME> names, or one that is made if need be.

    Args:
        name: key of REQUIREMENTS, or "" for the environment of this process.
    """
    if not name:
        return sys.executable
    return os.environ.get(f"BENCHMARK_PYTHON_{name.upper()}") or _made(CACHE / name, REQUIREMENTS[name])


def _made(directory: Path, requirements: tuple[str, ...]) -> str:
    python, ready = directory / "bin" / "python", directory / "requirements.txt"
    wanted = "\n".join(requirements)
    if not ready.exists() or ready.read_text() != wanted:
        print(f"Installing {', '.join(requirements)} into {directory}", file=sys.stderr)
        venv.create(directory, clear=True, symlinks=os.name != "nt", with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *requirements], check=True, stdout=sys.stderr)
        ready.write_text(wanted)  # last, so that an interrupted installation is begun anew
    return str(python)
