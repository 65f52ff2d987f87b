"""A server that runs `beam-datasets` commands in forks of a process that has imported Beam, which takes over a second.

`served` provides a folder with a command `beam-datasets` for PATH. It sends its arguments, environment, working
directory and standard streams to the server, `python tests/forked_commands.py SOCKET COMMAND`, and exits with the exit
code that it gets back. The server runs one command at a time.
"""

import contextlib
import io
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

_CLIENT = """\
#!{python} -ISE
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    request = json.dumps([sys.argv[1:], dict(os.environ), os.getcwd()]).encode()
    socket.send_fds(server, [b"%10d" % len(request)], [0, 1, 2])
    server.sendall(request)
    sys.exit(int(server.recv(10) or b"70"))
"""


@contextlib.contextmanager
def served(log: Path) -> Iterator[Path]:
    """Runs the server, whose own output goes to the log; provides the folder of the command."""
    from tests.processes import started

    command = str(Path(sys.executable).parent / "beam-datasets")
    with tempfile.TemporaryDirectory() as folder:  # short, as addresses of sockets must be
        address = f"{folder}/socket"
        client = Path(folder, "bin", "beam-datasets")
        client.parent.mkdir()
        client.write_text(_CLIENT.format(python=sys.executable, address=address))
        client.chmod(0o755)
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}  # as tests/pages.py starts commands
        server = [sys.executable, __file__, address, command]
        with (
            log.open("wb") as out,
            started(server, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment) as process,
        ):
            while not os.path.exists(address):
                assert process.poll() is None, log.read_text()
                time.sleep(0.02)
            yield client.parent


def serve(address: str, command: str) -> None:
    """Runs the commands that clients send, for ever; returns in the process of a command, which has become it."""
    from beam_datasets.beam import generate, materialize  # noqa: F401  # imported before the fork

    sys.path[0] = os.path.dirname(command)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{address}.new")
        listening.listen()
        os.rename(f"{address}.new", address)  # once it listens
        while True:
            connection, _ = listening.accept()
            with connection:
                size, streams, _, _ = socket.recv_fds(connection, 10, 3)
                with connection.makefile("rb") as sent:
                    words, environment, folder = json.loads(sent.read(int(size)))
                if not (pid := os.fork()):
                    _become([command, *words], environment, folder, streams)
                    return
                for stream in streams:
                    os.close(stream)
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                connection.sendall(b"%d" % code)


def _become(words: list[str], environment: dict[str, str], folder: str, streams: list[int]) -> None:
    """Gives this process the arguments, environment, working directory and standard streams of a command."""
    sys.argv[:] = words
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    # The text streams of the server remember whether they could seek.
    stdin = io.BufferedReader(io.FileIO(0, closefd=False))
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(stdin, encoding=sys.stdin.encoding, errors=sys.stdin.errors)
    for number, name in ((1, "stdout"), (2, "stderr")):
        old, raw = getattr(sys, name), io.FileIO(number, "w", closefd=False)
        new = io.TextIOWrapper(raw, encoding=old.encoding, errors=old.errors, write_through=True)
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)


if __name__ == "__main__":
    serve(*sys.argv[1:])
    from beam_datasets.cli import main  # only a fork comes here

    sys.exit(main())
