"""Installs beam_datasets."""

import os
import re
import sys
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

BEAM = ["apache-beam>=2.77,<3", "tqdm>=4.60"]
IMAGE = ["deflate>=0.7", "pillow>=10", "opencv-python-headless>=4.8"]
REMOTE = ["obstore>=0.6", "fsspec>=2024.2"]
FILES = ["pyarrow>=14", "pandas>=2"]
EXPORT = ["pyarrow>=15", "webdataset>=0.2.86", "array_record>=0.5; sys_platform != 'win32'"]
SKLEARN = ["scikit-learn>=1.3"]
TEST = ["greenlet>=3", "ml_dtypes>=0.3", "pytest>=7", "pytest-xdist>=3", "hypothesis>=6.80", "psutil>=5", "wheel>=0.40"]
STORES = ["moto[server]>=5"]
# What submitting a job to Dataflow needs. All of apache-beam[gcp] is 270 MB, which take pip minutes to choose.
CLOUD = [
    "google-cloud-dataflow-client>=0.8.10,<0.14",
    "google-cloud-storage>=2.18.2,<4",
    "gcp-storage-emulator>=2024.8",
]
LINT = ["ruff>=0.8,<0.18", "mypy>=1.11,<3", "types-protobuf"]
VERSION = re.search(
    r'^__version__ = "(.+)"',
    Path(__file__).with_name("beam_datasets").joinpath("__init__.py").read_text(encoding="utf-8"),
    re.MULTILINE,
)
README = Path(__file__).with_name("README.md")

# The fast paths. Optional: without a compiler the package is installed all the same, and does the same in Python.
LIMITED_API = sys.version_info >= (3, 11)  # the first whose limited API has the buffer protocol
C_FILES = (
    "module",
    "arguments",
    "crc32c",
    "records",
    "chunks",
    "block",
    "shards",
    "files",
    "example",
    "gather",
    "md5",
    "iterator",
    "schema",
    "lists",
    "decode",
    "examples",
    "png",
    "deflate",
    "values",
    "encode",
    "glance",
    "runs",
)
NATIVE = Extension(
    "beam_datasets.native._core",
    sources=[f"beam_datasets/native/{name}.c" for name in C_FILES],
    depends=[f"beam_datasets/native/{name}.h" for name in ("native", "chunk", "decode", "encode", "known")],
    define_macros=[("Py_LIMITED_API", "0x030B0000")] if LIMITED_API else [],
    py_limited_api=LIMITED_API,
    extra_compile_args=[]
    if sys.platform == "win32"
    else ["-O3", "-std=c11", "-Wall", "-Wextra", "-fvisibility=hidden"],
    optional=True,
)


class BuildWherePossible(build_ext):
    """Builds the extension where there is a compiler."""

    def run(self):
        """Builds it; a wheel that is made without it is one for every machine, and says so."""
        super().run()
        wheel = self.distribution.get_command_obj("bdist_wheel", create=False)
        if wheel and not self.inplace and not any(map(os.path.exists, self.get_outputs())):
            wheel.root_is_pure = True
            self.distribution.ext_modules = []

    def build_extension(self, ext):
        """Builds one; where it cannot be built, the one that an earlier build left is of other sources, and goes."""
        try:
            super().build_extension(ext)
        except Exception:
            Path(self.get_ext_fullpath(ext.name)).unlink(missing_ok=True)
            raise


setup(
    name="beam_datasets",
    version=VERSION[1],
    description="Deterministically shuffled, versioned datasets: generated with Apache Beam, read without it",
    long_description=README.read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    python_requires=">=3.10",
    packages=find_packages(include=["beam_datasets*"]),
    package_data={"beam_datasets": ["py.typed"], "beam_datasets.native": ["*.pyi"]},
    ext_modules=[NATIVE],
    cmdclass={"build_ext": BuildWherePossible},
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if LIMITED_API else {},
    install_requires=["numpy>=1.24", "protobuf>=4.21", "crc32c>=2.3"],
    extras_require={
        "beam": BEAM,
        "image": IMAGE,
        "remote": REMOTE,
        "files": FILES,
        "export": EXPORT,
        "sklearn": SKLEARN,
        "gcp": ["apache-beam[gcp]>=2.77,<3"],
        "torch": ["torch"],
        "tf": ["tensorflow"],
        "grain": ["grain"],
        "dev": [*BEAM, *IMAGE, *REMOTE, *FILES, *EXPORT, *SKLEARN, *TEST, *STORES, *CLOUD, *LINT, "duckdb>=1"],
        "adapters": [*IMAGE, *EXPORT, *TEST, "torch>=2.4", "torchdata>=0.10", "grain>=0.2.3", "jax", "datasets>=3"],
        "interop": [*BEAM, *IMAGE, *EXPORT, *SKLEARN, *TEST, "tensorflow-cpu>=2.16", "tensorflow-datasets>=4.9.6"],
    },
    entry_points={"console_scripts": ["beam-datasets = beam_datasets.cli:main"]},
)
