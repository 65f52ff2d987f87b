"""Installs beam_datasets and the runnable pipelines beside it."""

from pathlib import Path

from setuptools import find_packages, setup

BEAM = ["apache-beam>=2.77,<3"]
IMAGE = ["pillow>=10", "opencv-python-headless>=4.8"]
REMOTE = ["obstore>=0.6", "fsspec>=2024.2"]
FILES = ["pyarrow>=14", "pandas>=2"]

setup(
    name="beam_datasets",
    version="0.1.0",
    description="Deterministically shuffled, versioned datasets: generated with Apache Beam, read without it",
    long_description=Path(__file__).with_name("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.10",
    packages=find_packages(include=["beam_datasets*", "pipelines*"]),
    package_data={"beam_datasets": ["py.typed"]},
    install_requires=["numpy>=1.24", "protobuf>=4.21", "crc32c>=2.3"],
    extras_require={
        "beam": [*BEAM, "tqdm>=4.60"],
        "image": IMAGE,
        "remote": REMOTE,
        "files": FILES,
        "gcp": ["apache-beam[gcp]>=2.77,<3"],
        "torch": ["torch"],
        "tf": ["tensorflow"],
        "grain": ["grain"],
        "sklearn": ["scikit-learn"],
        "dev": [*BEAM, "tqdm>=4.60", *IMAGE, *REMOTE, *FILES, "scikit-learn", "pytest>=7", "pytest-xdist",
                "hypothesis", "psutil", "ruff", "mypy", "types-protobuf"],
    },
    entry_points={"console_scripts": ["beam-datasets = beam_datasets.cli:main"]},
)
