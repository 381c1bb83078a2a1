"""What the loss of a part costs a training on a cluster: a worker, a machine, the server, the driver. Linux alone.

    pip install "a3c-arcade[ray]"
    python -m benchmarks.faults    # about 15 minutes; other work beside it does no harm

Three workers train CartPole on two simulated nodes of two cores. Once there is a checkpoint, one part is killed: the
process of a worker or of the server by SIGKILL, a node with all on it, the driver by SIGKILL and by Ctrl-C. A run whose
driver has gone is resumed. At last each is ended by Ctrl-C. Checkpoints are written every 5 seconds instead of every
minute, to save time.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import tyro

from a3c_core.checkpoint import CheckpointError, load_agent, steps_of
from benchmarks.cluster import simulated
from benchmarks.results import machine, save
from tests.processes import actors, alive, wait_until
from training.log import LOG, read_log

if TYPE_CHECKING:
    from ray.cluster_utils import Cluster

Part = Literal["worker", "machine", "server", "driver, SIGKILL", "driver, Ctrl-C"]
TOLD: dict[Part, str] = {
    "worker": "another replaces it",
    "machine": "another replaces it as soon as the cluster has room for it",
    "server": "the run goes on from its checkpoint at",
    "driver, Ctrl-C": "continue with --resume",
}
"""What a run says; one that is killed says nothing."""
CHECKPOINT_SECONDS = 5.0
PATIENCE = 120.0
LEFT_AFTER = 5.0
"""Seconds after the driver's end in which its processes have to end too."""


class Fault(NamedTuple):
    """One part that was killed."""

    part: Part
    told_seconds: float | None
    """Until the run said so; None for a run that was killed itself."""
    said: str
    on_seconds: float
    """Until all workers were there and made updates; where the driver was killed, from the command that resumes."""
    lost_steps: int | None
    """What the run had done beyond the checkpoint that it goes on from; None where it goes on from where it was."""
    left: int
    """Processes of the run's actors, LEFT_AFTER seconds after its driver had ended."""
    whole: bool
    """Whether the checkpoint and every line of the log can be read at the end."""


def last_steps(directory: Path) -> int:
    """Of the log."""
    log = read_log(directory)
    return log[-1].steps if log else 0


@contextmanager
def driver_of(directory: Path, address: str, said: Path) -> Iterator[subprocess.Popen]:
    """A training that has made updates and has written a checkpoint of them; the one in `directory` goes on."""
    arguments = [sys.executable, "-m", "benchmarks.faults", "driver", address, str(directory)]
    with said.open("w") as errors, subprocess.Popen(arguments, stderr=errors, start_new_session=True) as driver:
        try:
            until(lambda: len(actors("Worker")) == 3 and begun(directory))
            yield driver
        finally:
            driver.kill()


def begun(directory: Path) -> bool:
    """Whether there is a checkpoint after the first."""
    try:
        return steps_of(directory) > 0
    except CheckpointError:
        return False


def until(condition: Callable[[], object]) -> float:
    """Seconds until it holds. Raises TimeoutError."""
    started = time.monotonic()
    if not wait_until(condition, PATIENCE):
        raise TimeoutError(f"not within {PATIENCE:.0f} s")
    return time.monotonic() - started


def fault(part: Part, nodes: "Cluster", scratch: Path, wait: float) -> Fault:
    """Kills a part of a new run, `wait` seconds after a checkpoint, and looks what becomes of it."""
    directory, said = scratch / "run", scratch / "said.txt"
    told_seconds = lost_steps = None
    with driver_of(directory, nodes.address, said) as driver:
        time.sleep(wait)
        before, workers, server = last_steps(directory), actors("Worker"), actors("Server")
        if part == "worker":
            os.kill(min(workers), signal.SIGKILL)
        elif part == "machine":
            nodes.remove_node(*nodes.worker_nodes, allow_graceful=False)
        elif part == "server":
            os.kill(*server, signal.SIGKILL)
        else:
            os.killpg(driver.pid, signal.SIGKILL if part.endswith("SIGKILL") else signal.SIGINT)
        if part in TOLD:
            told_seconds = until(lambda: TOLD[part] in said.read_text())
        if part.startswith("driver"):
            driver.wait(PATIENCE)
            lost_steps = max(0, last_steps(directory) - steps_of(directory))
        else:
            if part == "machine":
                nodes.add_node(num_cpus=2)
            # the log is rewound before a lost server's workers are replaced, and all of them are
            gone, reached = (workers, steps_of(directory)) if part == "server" else (set(), last_steps(directory))
            on_seconds = until(lambda: len(actors("Worker") - gone) == 3 and last_steps(directory) > reached)
            end(driver)
    lines = said.read_text().replace(str(directory), "RUN").splitlines()
    sentence = next((line.strip() for line in lines if TOLD.get(part, "\0") in line), "")
    if part == "server":
        lost_steps = max(0, before - int(sentence.partition(TOLD[part])[2].split()[0]))
    processes = workers | server | actors("Worker") | actors("Server")  # those of a lost node are nobody's children
    wait_until(lambda: not any(map(alive, processes)), LEFT_AFTER)
    left = sum(map(alive, processes))
    if part.startswith("driver"):
        on_seconds = resumed(directory, nodes.address, said)
    return Fault(part, told_seconds, sentence, on_seconds, lost_steps, left, whole(directory))


def end(driver: subprocess.Popen) -> None:
    """Ends a run as Ctrl-C does."""
    os.killpg(driver.pid, signal.SIGINT)
    driver.wait(PATIENCE)


def resumed(directory: Path, address: str, said: Path) -> float:
    """Seconds until a run that has ended makes updates again, from the command on."""
    kept, started = steps_of(directory), time.monotonic()
    with driver_of(directory, address, said) as driver:
        until(lambda: last_steps(directory) > kept)
        seconds = time.monotonic() - started
        end(driver)
    return seconds


def whole(directory: Path) -> bool:
    """Whether the checkpoint and every line of the log can be read."""
    try:
        load_agent(directory)
    except CheckpointError:
        return False
    return begun(directory) and len(read_log(directory)) == len((directory / LOG).read_text().splitlines())


def main(times: int = 5, keep: bool = True) -> None:
    """Kill each part, and write results/faults.json and docs/scaling.md.

    Args:
        times: how often.
        keep: write the result; --no-keep only prints it.
    """
    faults = []
    with simulated(4, 2) as nodes:
        for number in range(times):
            wait = CHECKPOINT_SECONDS * number / times  # or what is lost would always be little
            for part in get_args(Part):
                with tempfile.TemporaryDirectory() as scratch:
                    faults.append(fault(part, nodes, Path(scratch), wait))
                print(faults[-1], flush=True)
    if keep:
        save("faults", {"machine": machine("torch", "ray"), "faults": [each._asdict() for each in faults]})


def drive(address: str, directory: str) -> None:
    """The training, in a process of its own."""
    from training import __main__ as program
    from training import run

    run.CHECKPOINT_SECONDS = CHECKPOINT_SECONDS
    new = f"cartpole --steps 1000000000 --workers 3 --out {directory}"
    options = f"--resume {directory}" if begun(Path(directory)) else new
    program.main(["train", *options.split(), "--cluster", address])


if __name__ == "__main__":
    if sys.argv[1:2] == ["driver"]:
        drive(*sys.argv[2:])
    else:
        tyro.cli(main)
