"""Ends what Ray leaves running for a minute where the process that started it is killed: the agents of its node.

python -m training.reaper PID    # PID: who started Ray, and holds the other end of this program's input
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from select import select

LOOK_SECONDS = 1.0


def below(pid: int) -> Iterator[int]:
    """All running processes that `pid` has started, those that these have started, and so on."""
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (thread / "children").read_text().split()):
                yield child
                yield from below(child)


def title(pid: int) -> str:
    """The command line of a process, which Ray's set themselves; empty for one that has gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    return ""


def main(driver: int) -> None:
    """Looks which processes of Ray's are below `driver` until the input is closed, then kills those that are left."""
    seen: dict[int, int] = {}
    while not select([sys.stdin], [], [], LOOK_SECONDS)[0]:
        for pid in set(below(driver)) - seen.keys():
            if title(pid).startswith("ray::"):
                with suppress(ProcessLookupError):
                    seen[pid] = os.pidfd_open(pid)  # names this process even if its number is used again
    for process in seen.values():
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, signal.SIGKILL)


if __name__ == "__main__":
    main(int(sys.argv[1]))
