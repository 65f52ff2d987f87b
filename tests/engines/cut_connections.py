"""A connection to an engine that can be cut, and what a launcher then says."""

import contextlib
import re
import socket
import threading


class Proxy:
    """Forwards TCP connections to a port of this machine until `cut()`."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._sockets: list[socket.socket] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Ends all connections, and refuses new ones."""
        for each in (self._listening, *self._sockets):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                ours = socket.create_connection(("127.0.0.1", self._target))
                self._sockets += [client, ours]
                for source, sink in ((client, ours), (ours, client)):
                    threading.Thread(target=self._forward, args=(source, sink), daemon=True).start()

    @staticmethod
    def _forward(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)


def check_message(output: str, job: str) -> None:
    """Checks that a launcher says of a job that it may still run, and what was kept."""
    assert "Traceback" not in output, output
    message = output.splitlines()[-1]
    assert re.search(rf"job {job}: expected its state, got .*It may still be running", message), message
    assert "its intermediate data was kept" in message
    assert "beam-datasets gc" in message
