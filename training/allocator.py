"""Settings of glibc's memory allocator for freed memory; other C libraries ignore them."""

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # malloc.h


def keep_freed_memory() -> None:
    """Asks the C library not to give it back to the system, in a process that needs as much again at once.

    A batch of frames is tens of megabytes in float32. Fetched anew from the system for each update, page by page, it
    takes six times as long to fill.
    """
    _set({_M_TRIM_THRESHOLD: 2**30, _M_MMAP_THRESHOLD: 2**30})


def share_freed_memory() -> None:
    """Asks the C library for two stores of it at most, in a process whose threads come and go.

    Each thread would have one of its own, which keeps whatever its largest moment took.
    """
    _set({_M_ARENA_MAX: 2})


def _set(options: dict[int, int]) -> None:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    for option, value in options.items() if mallopt else ():
        mallopt(option, value)
