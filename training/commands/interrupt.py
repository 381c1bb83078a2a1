"""Ctrl-C and a polite kill: the first one ends a command in an orderly way."""

import signal
import threading

interrupted = threading.Event()
"""Set by a Ctrl-C, since the exception gets lost where Python happens to be in a finalizer."""


def interrupt(*_: object) -> None:
    """The first Ctrl-C or polite kill ends a run; the next ones would only spoil the checkpoint that it writes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    interrupted.set()
    raise KeyboardInterrupt


def handle_signals() -> None:
    """Makes Ctrl-C and a polite kill set `interrupted` from now on, and raise KeyboardInterrupt."""
    interrupted.clear()
    for polite in (signal.SIGINT, signal.SIGTERM):
        signal.signal(polite, interrupt)
