"""Builds the native module; pyproject.toml has everything else."""

import os
import zlib
from glob import glob
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

STUBS = "beam_datasets/native/_core.pyi"
INTERFACE = zlib.crc32(Path(STUBS).read_bytes()) & 0x7FFFFFFF  # beam_datasets/native/__init__.py compares it
NATIVE = Extension(
    "beam_datasets.native._core",
    sources=sorted(glob("beam_datasets/native/*.c")),
    depends=[*sorted(glob("beam_datasets/native/*.h")), STUBS],
    define_macros=[("INTERFACE", str(INTERFACE)), ("Py_LIMITED_API", "0x030B0000")],  # of Python 3.11
    py_limited_api=True,
    extra_compile_args=["-O3", "-std=c11", "-Wall", "-Wextra", "-fvisibility=hidden", "-pthread"],
    extra_link_args=["-pthread"],
    optional=True,  # without a compiler the package is installed all the same, and does the same in Python
)


class OptionalBuild(build_ext):
    """Builds the extension if there is a compiler."""

    def run(self):
        """Builds it. A wheel without it is tagged as one for every machine."""
        super().run()
        wheel = self.distribution.get_command_obj("bdist_wheel", create=False)
        if wheel and not self.inplace and not any(map(os.path.exists, self.get_outputs())):
            wheel.root_is_pure = True
            self.distribution.ext_modules = []

    def build_extension(self, ext):
        """Builds one extension. If that fails, removes what an earlier build made from other sources."""
        try:
            super().build_extension(ext)
        except Exception:
            Path(self.get_ext_fullpath(ext.name)).unlink(missing_ok=True)
            raise


setup(
    ext_modules=[NATIVE],
    cmdclass={"build_ext": OptionalBuild},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
