"""Looking at processes through /proc."""

import os
import time
from collections.abc import Callable
from pathlib import Path


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits to be reaped does not."""
    try:
        return _stat(pid)[0] not in "ZX"
    except OSError:
        return False


def children(pid: int) -> set[int]:
    """The running processes that `pid` has started itself."""
    return {child for child, parent in _parents().items() if parent == pid}


def descendants(pid: int) -> set[int]:
    """All running processes below `pid`: its children, theirs (a fork server's are the workers), and so on."""
    parents = _parents()
    found, new = set(), {pid}
    while new:
        new = {child for child, parent in parents.items() if parent in new}
        found |= new
    return found


def memory(pid: int) -> int:
    """Resident memory of a process and all below it, in MB; what they share counts once for each."""
    sizes = (Path(f"/proc/{each}/statm").read_text().split()[1] for each in {pid, *descendants(pid)})
    return sum(int(pages) for pages in sizes) * os.sysconf("SC_PAGE_SIZE") // 2**20


def command(pid: int) -> str:
    """The command line of a process; empty for one that has gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def actors(kind: str) -> set[int]:
    """The processes of the Ray actors of a class, below this process; their title tells the method that they are in."""
    return {pid for pid in descendants(os.getpid()) if command(pid).split(".")[0] == f"ray::{kind}"}


def wait_until(condition: Callable[[], object], seconds: float) -> bool:
    """Waits until `condition` holds, for `seconds` at most; returns whether it did."""
    until = time.monotonic() + seconds
    while not (holds := bool(condition())) and time.monotonic() < until:
        time.sleep(0.02)
    return holds


def _parents() -> dict[int, int]:
    """The parent of every running process."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, parent = _stat(int(entry.name))
            except OSError:
                continue
            if state not in "ZX":
                parents[int(entry.name)] = int(parent)
    return parents


def _stat(pid: int) -> tuple[str, str]:
    """State and parent of a process; they follow its name, which ends at the last parenthesis."""
    state, parent, *_ = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return state, parent
