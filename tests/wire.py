"""A connection that can go silent: it says no goodbye, as a phone in a tunnel, or a proxy in front of one."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Wire:
    """A port of its own that leads to another. While it is cut, what is sent waits; mended, it arrives."""

    def __init__(self, port: int) -> None:
        self._there = ("127.0.0.1", port)
        self._whole = threading.Event()
        self._whole.set()
        self._here = socket.create_server(("127.0.0.1", 0))
        self._sockets = [self._here]
        self.port: int = self._here.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Lets nothing through any more."""
        self._whole.clear()

    def mend(self) -> None:
        """Lets everything through, and first what has waited."""
        self._whole.set()

    def close(self) -> None:
        """Ends all connections."""
        self.mend()
        for each in self._sockets:
            _end(each)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                ends = self._here.accept()[0], socket.create_connection(self._there)
                self._sockets += ends
                for one, other in (ends, ends[::-1]):
                    threading.Thread(target=self._carry, args=(one, other), daemon=True).start()

    def _carry(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while sent := one.recv(2**16):
                self._whole.wait()
                other.sendall(sent)
        self._whole.wait()
        _end(other)


def _end(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


@contextmanager
def wired(port: int) -> Iterator[Wire]:
    """A wire to a port of this machine."""
    wire = Wire(port)
    try:
        yield wire
    finally:
        wire.close()
