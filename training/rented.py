"""What a rented machine does, started by `training.submit`: the first one trains, the others lend it their cores.

    python -m training.rented lead PORT         the run's files from the Hub, if there are any -> train -> to the Hub
    python -m training.rented join HOST:PORT    a node of the Ray cluster of the first, as long as that is there

A machine may be taken away at any moment and its job be started anew: all that a run knows is on the Hub.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, TypeAdapter
from pydantic.dataclasses import dataclass

from a3c_core.checkpoint import RECIPE, CheckpointError, steps_of, write_atomically
from a3c_core.recipe import Recipe
from training.diagnostics import Diagnostics
from training.engine import Cluster, Compression, WorkerDied
from training.log import Progress, read_log, words, write_events
from training.run import train
from zoo import hub, jobs

ORDER, BEGAN = "A3C_ORDER", "A3C_BEGAN"
"""Environment variables: what to train, as JSON, and when the machine began to be paid for, in seconds since 1970."""
SAVE_SECONDS = 600.0
"""How much of a run is lost at most where its machine goes without warning."""
SAY_SECONDS = 30.0
MARGIN_SECONDS = 180.0
"""How long before its time is up a run ends, to bring its files to the Hub."""
JOIN_SECONDS = 900.0
"""How long the machines of a cluster wait for each other: each installs this package first."""
FINISH_SECONDS, AGAIN_SECONDS = 600.0, 20.0
"""How long the last files are offered to a Hub that does not take them, and how often."""
RUN_FILE = re.compile(r"(?:[\w-]+/){0,3}[\w-][\w.-]*\.(?:safetensors|json|jsonl)", re.ASCII)


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class Order:
    """A training on rented machines, as it travels to them."""

    owner: str
    """Whose jobs the machines are."""
    repo: str
    """The repository with the files of the run."""
    run: Annotated[str, Field(pattern=r"^[\w-][\w.-]{0,99}$")]
    """The directory of the run, there and here."""
    recipe: Recipe
    machines: Annotated[int, Field(ge=1, le=1000)]
    hours: Annotated[float, Field(ge=0.1, le=1000, allow_inf_nan=False)]
    """After which each machine is taken away."""
    stop_at: int | None = None
    evaluate_every: int | None = None
    evaluate_actions: Literal["greedy", "sampled"] = "greedy"
    compression: Compression = "float32"
    max_staleness: int | None = None

    def written(self) -> str:
        """As JSON, which `read` reads."""
        return TypeAdapter(Order).dump_json(self).decode()

    @staticmethod
    def read(text: str) -> "Order":
        """Raises ValueError."""
        return TypeAdapter(Order).validate_json(text)


def fetch_run(repo: str, run: str, directory: Path) -> bool:
    """Brings a run's files from the Hub into `directory`; returns whether there are any.

    Raises HubError or CheckpointError, this also where the run has gone further in `directory`, which is left alone.
    """
    commit, paths = hub.files_in(repo, run)
    names = [name for path in paths if RUN_FILE.fullmatch(name := path.removeprefix(f"{run}/"))]
    if RECIPE not in names:
        return False
    wanted = [f"{run}/{name}" for name in names]
    found = hub.fetch(repo, wanted, commit, seconds=hub.PUBLISH_SECONDS, most=hub.MOST_BYTES_OF_RUN)
    there = steps_of(found[f"{run}/{RECIPE}"].parent)
    if (directory / RECIPE).exists() and (here := steps_of(directory)) > there:
        raise CheckpointError(f"{directory} has gone on to {here:,} steps, the Hub's copy has {there:,}: it was kept.")
    for name in sorted(names, key=lambda name: name == RECIPE):  # that one last, since it says how far the run is
        write_atomically(directory / name, partial(shutil.copyfile, found[f"{run}/{name}"]))
    for old in directory.glob("events.out.*"):
        old.unlink()
    write_events(directory, read_log(directory))
    return True


def steps_there(repo: str, run: str) -> int:
    """Steps behind the copy of a run on the Hub; 0 where there is none. Raises HubError or CheckpointError."""
    commit, paths = hub.files_in(repo, run)
    if f"{run}/{RECIPE}" not in paths:
        return 0
    (record,) = hub.fetch(repo, [f"{run}/{RECIPE}"], commit).values()
    return steps_of(record.parent)


def put_run(repo: str, run: str, directory: Path) -> None:
    """Brings a run's files to the Hub. Raises HubError."""
    hub.put(directory, repo, run, message=f"{run}: {steps_of(directory):,} steps")


class Saver:
    """Brings the files of a run to the Hub while it goes on, one upload at a time."""

    def __init__(self, order: Order, directory: Path) -> None:
        self.order, self.directory = order, directory
        self._uploads = ThreadPoolExecutor(1)
        self._last: Future[None] | None = None
        self._due = 0.0

    def save_if_due(self) -> None:
        """The first time at once, or the training would be for nothing: raises HubError. Later ones only tell it."""
        if time.monotonic() < self._due or (self._last and not self._last.done()):
            return
        self._due = time.monotonic() + SAVE_SECONDS
        first, self._last = self._last is None, self._uploads.submit(self._put, self._copy())
        if first:
            self._last.result()
        else:
            self._last.add_done_callback(_tell)

    def finish(self) -> None:
        """Saves what the run has come to, which is worth some patience. Raises HubError."""
        until = time.monotonic() + FINISH_SECONDS
        while True:
            try:
                return self._uploads.submit(self._put, self._copy()).result()
            except hub.HubError:
                if time.monotonic() > until:
                    raise
                time.sleep(AGAIN_SECONDS)

    def close(self) -> None:
        """Waits for what is under way."""
        self._uploads.shutdown()

    def _copy(self) -> tempfile.TemporaryDirectory:
        """The files of one moment: only this process writes them, and it does nothing else meanwhile."""
        scratch = tempfile.TemporaryDirectory()
        shutil.copytree(self.directory, scratch.name, dirs_exist_ok=True)
        return scratch

    def _put(self, scratch: tempfile.TemporaryDirectory) -> None:
        with scratch:
            put_run(self.order.repo, self.order.run, Path(scratch.name))


def _tell(upload: Future[None]) -> None:
    if error := upload.exception():
        print(f"WARNING: {error} It is tried again in {SAVE_SECONDS / 60:.0f} minutes.", flush=True)


def lead(order: Order, port: int) -> None:
    """Trains, from where the run on the Hub is. Raises what `train` raises, and HubError."""
    stopped, ends = threading.Event(), float(os.environ[BEGAN]) + 3600 * order.hours - MARGIN_SECONDS
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())  # the machine is taken away, or the job cancelled
    directory = Path(order.run)
    resumes = fetch_run(order.repo, order.run, directory)
    print(f"{'going on with' if resumes else 'training'} {order.recipe.env} as {order.run}", flush=True)
    with ExitStack() as stack:
        cluster = None
        if order.machines > 1:
            node = stack.enter_context(_node("--head", f"--port={port}", "--include-dashboard=false"))
            _wait_for("127.0.0.1", port, unless=lambda: node.poll() is not None)
            options = {"compression": order.compression, "max_staleness": order.max_staleness}
            cluster = Cluster(address=f"127.0.0.1:{port}", room_seconds=JOIN_SECONDS, **options)
        moments = train(
            order.recipe,
            directory,
            resume=resumes,
            stop=lambda: stopped.is_set() or time.time() > ends,
            stop_at=order.stop_at,
            evaluate_every=order.evaluate_every,
            evaluate_greedy=order.evaluate_actions == "greedy",
            cluster=cluster,
        )
        stack.callback(moments.close)
        _draw(moments, stack.enter_context(closing(Saver(order, directory))))
        if order.machines > 1 and not stopped.is_set():
            _release(order)
    if stopped.is_set():
        raise SystemExit(128 + signal.SIGTERM)  # where the machine was taken away, the job is started anew
    if time.time() > ends:
        print(f"the {order.hours:g} hours are over: go on with submit --resume {order.run}", flush=True)


def _release(order: Order) -> None:
    """Ends the jobs of the other machines, which would notice by themselves, but later and for money."""
    try:
        me = jobs.look(os.environ["JOB_ID"], order.owner)
        jobs.cancel(me.owner, me.group, sparing=me.id)
    except hub.HubError as error:
        print(f"WARNING: {error}", flush=True)


def _draw(moments: Iterator[Progress], saver: Saver) -> None:
    """Has the run go on to its end, telling and saving how far it is."""
    signs, say_at, progress = Diagnostics(), 0.0, None
    for progress in moments:
        for ailment in signs.check(progress):
            print(f"WARNING: {ailment}", flush=True)
        if time.monotonic() >= say_at:
            say_at = time.monotonic() + SAY_SECONDS
            print(_line(progress), flush=True)
        saver.save_if_due()
    saver.finish()
    if progress:
        print(_line(progress), flush=True)


def _line(progress: Progress) -> str:
    speed = f"{progress.steps_per_second:,.0f} steps/s"
    return f"{progress.steps:,} steps after {progress.seconds:,.0f} s, {speed}, {words(progress.mean_return)}"


def join(address: str) -> None:
    """Lends this machine to the cluster at HOST:PORT, again where that was restarted, until it stays away."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    host, _, port = address.rpartition(":")
    with suppress(TimeoutError):
        while True:
            _wait_for(host, int(port))
            with _node(f"--address={address}") as node:
                print(f"this machine has joined {address}", flush=True)
                node.wait()


@contextmanager
def _node(*options: str) -> Iterator[subprocess.Popen]:
    """This machine as a node of a Ray cluster, while it is open."""
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats", *options]
    node = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield node
    finally:
        node.terminate()  # which ends all that belongs to the node
        node.wait()


def _wait_for(host: str, port: int, *, unless: Callable[[], bool] = lambda: False) -> None:
    """Returns once somebody listens there. Raises TimeoutError where nobody does within JOIN_SECONDS, or ever will."""
    until = time.monotonic() + JOIN_SECONDS
    while True:
        with suppress(OSError), socket.create_connection((host, port), 5.0):
            return
        if unless() or time.monotonic() > until:
            raise TimeoutError(f"no machine of the cluster answers at {host}:{port}: submit the training again")
        time.sleep(1.0)


def main(role: str, where: str) -> None:
    """Does what a machine is rented for; known errors end in one sentence."""
    try:
        if role == "join":
            join(where)
        else:
            lead(Order.read(os.environ[ORDER]), int(where))
    except (ValueError, OSError, ImportError, WorkerDied) as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main(*sys.argv[1:])
