"""The commands of a page about an engine, which tests run with the paths and ports of their cluster."""

import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import pages
from tests.engines.jobs import JOB_SECONDS, ROOT
from tests.servers import free_port, served


def free_ports(*ports: int) -> dict[str, str]:
    """Returns replacements of a page's ports by free ones, where they are ports: after ':', '=' and '--port '."""
    free = {port: free_port() for port in ports}
    return {f"{before}{port}": f"{before}{free[port]}" for port in ports for before in (":", "=", "--port ")}


@dataclass(frozen=True)
class PageCommands:
    """The commands of a page.

    Attributes:
        page: path of the page.
        replacements: {text of the page: text that stands for it in the test}, in the order of their application.
        folder: directory in which the commands run.
    """

    page: Path
    replacements: Mapping[str, str]
    folder: Path

    def block(self, word: str) -> str:
        """Returns the commands of the only block that has this text."""
        [block] = [block for block in pages.blocks(self.page) if word in block.text]
        return self.replaced(block.text)

    def replaced(self, text: str) -> str:
        """Returns a text of the page as it is in the test."""
        for before, after in self.replacements.items():
            text = text.replace(before, after)
        return text

    def bash(self, text: str) -> list[str]:
        """Returns a command that runs these commands in the folder."""
        python = f"{sys.executable} -m beam_datasets.cli"
        text = re.sub(r"^beam-datasets ", f"{python} ", text, flags=re.MULTILINE)
        return ["bash", "-euc", f"cd {self.folder}; export PYTHONPATH={ROOT}; {text}"]

    def serve(self, text: str, port: int, **options: Any) -> AbstractContextManager[subprocess.Popen[bytes]]:
        """Runs commands, the last of which is a server on this port of the page."""
        *before, last = text.strip().splitlines()
        command = self.bash("\n".join([*before, f"exec {last}"]))
        here = int(self.replaced(f":{port}").removeprefix(":"))
        return served(command, here, self.folder / f"server-{port}.log", **options)

    def run(self, text: str) -> str:
        """Runs commands that must succeed, and returns their output."""
        done = subprocess.run(self.bash(text), capture_output=True, text=True, timeout=JOB_SECONDS, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr
