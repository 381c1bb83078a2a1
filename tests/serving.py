"""The app as its visitors meet it: `python app.py` in a process of its own, with no network beyond this machine."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.error import URLError
from urllib.request import urlopen

from tests.processes import children, descendants, wait_until

ROOT = Path(__file__).parent.parent
PYTHON_APP = (sys.executable, "app.py")

_NO_NETWORK = '''
"""Python imports this first: the process can reach this machine alone, and writes down what else it tried."""
import os, socket

def guard(real, host_of):
    def guarded(*args, **kwargs):
        host = host_of(args)
        if isinstance(host, (str, bytes)) and str(host) not in ("", "127.0.0.1", "::1", "localhost", "0.0.0.0"):
            with open(os.environ["ASKED"], "a") as file:
                print(host, file=file)
            raise OSError(f"no network in tests: {host}")
        return real(*args, **kwargs)
    return guarded

def address(args):
    return args[1][0] if isinstance(args[1], tuple) else None

socket.socket.connect = guard(socket.socket.connect, address)
socket.socket.connect_ex = guard(socket.socket.connect_ex, address)
socket.getaddrinfo = guard(socket.getaddrinfo, lambda args: args[0])
'''


class App(NamedTuple):
    """A running app."""

    url: str
    pid: int
    started: float
    """When it was, by `time.monotonic`."""
    seconds: float
    """From then to its first answer."""
    asked: Path
    """A line per host that it tried to reach."""
    output: Path
    """What it has written to its terminal."""

    def workers(self) -> set[int]:
        """The processes that train: its fork server's. It starts that one itself, as it does helpers and encoders."""
        return descendants(self.pid) - children(self.pid)


def free_port() -> int:
    """A port of this machine that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def serve(
    directory: Path, *, root: Path = ROOT, command: Sequence[str | Path] = PYTHON_APP, **environment: str
) -> Iterator[App]:
    """Starts the app in `root` on a free port; `directory` takes its files and is on its path."""
    (directory / "sitecustomize.py").write_text(_NO_NETWORK)
    (directory / "tmp").mkdir()
    asked = directory / "asked"
    asked.touch()
    port = free_port()
    environment |= {
        "GRADIO_SERVER_PORT": str(port),
        "PYTHONPATH": str(directory),
        "ASKED": str(asked),
        "TMPDIR": str(directory / "tmp"),
    }
    output = directory / "output"
    started = time.monotonic()
    with output.open("w") as file:
        process = subprocess.Popen(
            command, cwd=root, env=os.environ | environment, stdout=file, stderr=subprocess.STDOUT
        )
    try:
        url = f"http://127.0.0.1:{port}/"
        assert wait_until(lambda: process.poll() is not None or _answers(url), 120), "the app does not answer"
        assert process.poll() is None, output.read_text()
        seconds = time.monotonic() - started
        yield App(url, process.pid, started, seconds, asked, output)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)
    assert process.returncode == 0, output.read_text()
    left = [path.name for path in (directory / "tmp").iterdir() if not path.name.startswith("torchinductor")]
    assert left == [], f"the app leaves files behind: {left}"


@contextmanager
def served_files(directory: Path) -> Iterator[str]:
    """The address of plain files, as `python -m http.server` serves them."""
    port = free_port()
    command = [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1", "--directory", directory]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        if not wait_until(lambda: _listens(port), 30):
            raise ConnectionError("python -m http.server does not answer")
        yield f"http://127.0.0.1:{port}/"
    finally:
        process.terminate()
        process.wait()


def _listens(port: int) -> bool:
    """Whether something listens there."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def text_of(html: str) -> str:
    """What a reader sees of `html`."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html)).strip()


def _answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=5) as response:
            return response.status == 200
    except (URLError, OSError):
        return False
