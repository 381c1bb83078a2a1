"""What the loss of a part costs a training on a cluster: a worker, a machine, the server, the driver. Linux alone.

    pip install "a3c-arcade[ray]"
    python -m benchmarks.faults    # about 15 minutes; other work beside it does no harm

Three workers train CartPole on two simulated nodes of two cores. Once there is a checkpoint, one part is killed: the
process of a worker or of the server by SIGKILL, a node with all on it, the driver by SIGKILL and by Ctrl-C. A run that
goes on is then ended by Ctrl-C. Checkpoints are written every 5 seconds instead of every minute, to save time.
"""

import logging
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
from benchmarks.results import machine, save
from tests.processes import command, descendants, wait_until
from training.log import read_log

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
    on_seconds: float | None
    """Until all workers were there and made updates; None where the run was to end."""
    lost_steps: int | None
    """What the run had done beyond the checkpoint that it goes on from; None where it goes on from where it was."""
    left: int
    """Processes of the run, LEFT_AFTER seconds after its driver had ended."""
    whole: bool
    """Whether log and checkpoint can be read."""


def actors(kind: str) -> list[int]:
    """The processes of the actors of a class."""
    return [pid for pid in descendants(os.getpid()) if command(pid).split(".")[0] == f"ray::{kind}"]


def last_steps(directory: Path) -> int:
    """Of the log."""
    log = read_log(directory)
    return log[-1].steps if log else 0


@contextmanager
def driver_of(directory: Path, address: str, said: Path) -> Iterator[subprocess.Popen]:
    """A training that has made updates and has written a checkpoint of them."""
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


def fault(part: Part, nodes: "Cluster", scratch: Path) -> Fault:
    """Kills a part of a new run, and looks what becomes of it."""
    directory, said = scratch / "run", scratch / "said.txt"
    told_seconds = on_seconds = lost_steps = None
    with driver_of(directory, nodes.address, said) as driver:
        before = last_steps(directory)
        if part == "worker":
            os.kill(actors("Worker")[0], signal.SIGKILL)
        elif part == "machine":
            nodes.remove_node(*nodes.worker_nodes, allow_graceful=False)
        elif part == "server":
            os.kill(actors("Server")[0], signal.SIGKILL)
        else:
            os.killpg(driver.pid, signal.SIGKILL if part.endswith("SIGKILL") else signal.SIGINT)
        if part in TOLD:
            told_seconds = until(lambda: TOLD[part] in said.read_text())
        if not part.startswith("driver"):
            if part == "machine":
                nodes.add_node(num_cpus=2)
            reached = last_steps(directory)
            on_seconds = until(lambda: len(actors("Worker")) == 3 and last_steps(directory) > reached)
            os.killpg(driver.pid, signal.SIGINT)
        driver.wait(PATIENCE)
    sentence = next((line.strip() for line in said.read_text().splitlines() if TOLD.get(part, "\0") in line), "")
    if part == "server":
        lost_steps = max(0, before - int(sentence.partition(TOLD[part])[2].split()[0]))
    elif part.startswith("driver"):
        lost_steps = last_steps(directory) - steps_of(directory)
    wait_until(lambda: not actors("Worker") and not actors("Server"), LEFT_AFTER)
    left = len(actors("Worker")) + len(actors("Server"))
    try:
        whole = bool(load_agent(directory)) and begun(directory)
    except CheckpointError:
        whole = False
    return Fault(part, told_seconds, sentence, on_seconds, lost_steps, left, whole)


def main(times: int = 5, keep: bool = True) -> None:
    """Kill each part, and write results/faults.json and docs/scaling.md.

    Args:
        times: how often.
        keep: write the result; --no-keep only prints it.
    """
    import ray
    from ray.cluster_utils import Cluster

    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
    nodes.add_node(num_cpus=2)
    ray.init(address=nodes.address, log_to_driver=False, logging_level=logging.ERROR)
    faults = []
    try:
        for _ in range(times):
            for part in get_args(Part):
                with tempfile.TemporaryDirectory() as scratch:
                    faults.append(fault(part, nodes, Path(scratch)))
                print(faults[-1], flush=True)
    finally:
        ray.shutdown()
        nodes.shutdown()
    if keep:
        save("faults", {"machine": machine("torch", "ray"), "faults": [each._asdict() for each in faults]})


def drive(address: str, directory: str) -> None:
    """The training, in a process of its own."""
    from training import __main__ as program
    from training import run

    run.CHECKPOINT_SECONDS = CHECKPOINT_SECONDS
    options = f"train cartpole --steps 1000000000 --workers 3 --cluster {address} --out {directory}"
    program.main(options.split())


if __name__ == "__main__":
    if sys.argv[1:2] == ["driver"]:
        drive(*sys.argv[2:])
    else:
        tyro.cli(main)
