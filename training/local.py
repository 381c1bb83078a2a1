"""The workers as processes of this machine, with the weights in memory that they share."""

import signal
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection, wait

import torch
from torch import multiprocessing as mp

from a3c_core.envs import Spaces, make_envs, training_seed
from a3c_core.handover import share_model
from a3c_core.model import ActorCritic
from a3c_core.recipe import Recipe
from a3c_core.shared import Parameters
from a3c_core.worker import MakeEnvs, Report, work
from training.allocator import keep_freed_memory
from training.engine import Extensions, Failure, WorkerDied

STOP_SECONDS = 5.0

# A fork server is a fresh process without threads: as safe as `spawn` (forking a threaded parent, such as a web
# server, can deadlock), but it imports torch once, where every spawned worker would take its 1.3 s again.
_METHOD = "forkserver" if "forkserver" in mp.get_all_start_methods() else "spawn"
CONTEXT = mp.get_context(_METHOD)
if _METHOD == "forkserver":
    # An optimizer imports dynamo at its first use, which takes each worker another second.
    CONTEXT.set_forkserver_preload(["training.local", "torch._dynamo"])


def warm_up() -> None:
    """Starts the process that workers are forked from, so that the next run need not wait while it imports torch."""
    if _METHOD == "forkserver":
        resource_tracker.ensure_running()  # it would unblock what is blocked next
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # inherited: Ctrl-C is for the parent alone
        forkserver.ensure_running()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Holds Ctrl-C and a polite kill back until the block has ended. Only the main thread can be disturbed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    caught: list[int] = []
    before = {
        number: signal.signal(number, lambda n, _: caught.append(n)) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    for number in caught[:1]:
        signal.raise_signal(number)


def worker_process(
    rank: int,
    recipe: Recipe,
    spaces: Spaces,
    shared: Parameters,
    reports: Connection,
    make: MakeEnvs = make_envs,
    extensions: Extensions | None = None,
) -> None:
    """Entry point of a worker's process: sends Reports, or a Failure as its last word; never outlives its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=die_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    keep_freed_memory()
    torch.manual_seed(training_seed(recipe, rank, shared.first_step))
    try:
        if extensions:
            extensions.install()
        work(rank, recipe, spaces, shared, reports.send, make)
    except Exception:
        reports.send(Failure(rank, traceback.format_exc()))
        raise SystemExit(1) from None


def die_with_parent() -> None:
    """Kills this process once its parent has ended; to be run in a thread."""
    mp.parent_process().join()
    signal.raise_signal(signal.SIGKILL)


class LocalEngine:
    """An `Engine` of processes."""

    def __init__(self, recipe: Recipe, model: ActorCritic) -> None:
        warm_up()
        self.recipe = recipe
        self.shared = share_model(recipe, model, CONTEXT)
        self.server = self.shared.server
        self.start_at, self.paused, self.normalize = self.shared.start_at, self.shared.paused, self.shared.normalize
        self.workers, self.reports = [], []

    @property
    def goal(self) -> int:
        return self.shared.goal

    @goal.setter
    def goal(self, steps: int) -> None:
        self.shared.goal = steps

    @property
    def steps(self) -> int:
        return self.shared.steps

    @property
    def running(self) -> bool:
        return bool(self.reports)

    def start(self, spaces: Spaces, make: MakeEnvs) -> None:
        self.shared.begin()
        for rank in range(self.recipe.workers):
            ours, theirs = CONTEXT.Pipe(duplex=False)
            worker = CONTEXT.Process(
                target=worker_process,
                args=(rank, self.recipe, spaces, self.shared, theirs, make, Extensions.registered()),
                name=f"a3c-worker-{rank}",
                daemon=True,
            )
            with undisturbed():  # or a worker that has just started would be forgotten
                worker.start()
                self.workers.append(worker)
                self.reports.append(ours)
            theirs.close()

    def listen(self, timeout: float) -> Iterator[Report]:
        """What the workers report, for `timeout` seconds at most; notices who ended."""
        until = time.monotonic() + timeout
        while self.reports and (left := until - time.monotonic()) > 0:
            for connection in wait(self.reports, left):
                try:
                    message = connection.recv()
                except (EOFError, OSError):
                    self._ended(connection)
                    continue
                if isinstance(message, Failure):
                    raise WorkerDied(f"worker {message.rank} failed (exit code 1):\n{message.traceback}")
                yield message

    def _ended(self, connection: Connection) -> None:
        """A worker closed its pipe: fine at the run's end, else WorkerDied."""
        worker = next(w for w, r in zip(self.workers, [*self.reports], strict=True) if r is connection)
        worker.join(STOP_SECONDS)
        if worker.exitcode != 0:
            how = f"was killed by signal {-worker.exitcode}" if (worker.exitcode or 0) < 0 else "stopped answering"
            raise WorkerDied(f"{worker.name} {how} (exit code {worker.exitcode}). The run can be resumed.")
        self.workers.remove(worker)
        self.reports.remove(connection)

    def end(self) -> Iterator[Report]:
        self.shared.stop()
        until = time.monotonic() + STOP_SECONDS
        with suppress(WorkerDied):
            while self.reports and time.monotonic() < until:
                yield from self.listen(timeout=0.1)
        for worker in self.workers:
            worker.kill()
            worker.join()
        for connection in self.reports:
            connection.close()
        self.workers, self.reports = [], []
        self.shared.finish()

    def refresh(self) -> None:
        """Nothing to do: the workers write the state itself."""

    def traffic(self) -> dict[str, float]:
        return {}
