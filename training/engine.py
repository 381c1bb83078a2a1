"""What a run needs of the machinery that runs its workers: `training.local` is one machine's processes,
`training.cluster` a Ray cluster."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from a3c_core.envs import REGISTERED, Registration, Spaces, install
from a3c_core.model import REGISTERED_ENCODERS, ActorCritic, MakeEncoder
from a3c_core.shared import ParameterServer
from a3c_core.worker import MakeEnvs, Report

Compression = Literal["float32", "float16", "bfloat16"]


class WorkerDied(RuntimeError):
    """A worker raised or was killed; the message holds its traceback or exit code."""


class ServerLost(WorkerDied):
    """The process with the shared weights has gone. The run can go on from its checkpoint."""


class Failure(NamedTuple):
    """A worker's last words."""

    rank: int
    traceback: str


class Extensions(NamedTuple):
    """What the user registered in the parent process, for a worker to know too."""

    envs: tuple[Registration, ...]
    encoders: dict[str, MakeEncoder]

    @classmethod
    def registered(cls) -> "Extensions":
        """All that is registered in this process."""
        return cls(tuple(REGISTERED.values()), dict(REGISTERED_ENCODERS))

    def install(self) -> None:
        """Registers all of it in this process."""
        REGISTERED_ENCODERS.update(self.encoders)
        for registration in self.envs:
            install(registration)


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Where a run's workers are, if not in processes of this machine, and how they talk to the shared weights."""

    address: str
    """local starts Ray on this machine, auto finds the cluster that it belongs to, HOST:PORT names one."""
    compression: Compression = "float32"
    """Type in which gradients and weights travel; the shared weights stay float32."""
    max_staleness: int | None = None
    """Gradients that are more updates behind than this are dropped; their steps count."""
    delay: float = 0.0
    """Seconds that each round trip of a worker takes longer, to try what a slow link costs."""
    room_seconds: float = 10.0
    """How long the cluster may take to show the free cores that a run needs: those of a run before come free with
    delay, and machines may still be joining."""

    def __post_init__(self) -> None:
        if self.max_staleness is not None and self.max_staleness < 0:
            raise ValueError("--max-staleness must be at least 0 updates")


class Engine(Protocol):
    """Runs the workers of one phase of a run."""

    server: ParameterServer
    """The shared state: itself, or a copy as of the last `refresh`."""
    goal: int
    """Steps at which the workers end; to be set before they are started."""

    @property
    def steps(self) -> int:
        """Steps of all workers together, in the whole run."""

    @property
    def running(self) -> bool:
        """Whether there are workers that have not ended."""

    def start_at(self, steps: int) -> None:
        """Makes this the continuation of a run that has `steps` steps behind it."""

    def start(self, spaces: Spaces, make: MakeEnvs) -> None:
        """Starts all workers."""

    def listen(self, timeout: float) -> Iterator[Report]:
        """What the workers report in at most `timeout` seconds. Raises WorkerDied."""

    def end(self) -> Iterator[Report]:
        """Asks the workers to end, gives their last reports, and kills those that don't end."""

    def refresh(self) -> None:
        """Brings `server` up to now."""

    def paused(self) -> AbstractContextManager[None]:
        """While it is open, `server` and `steps` are of one moment."""

    def normalize(self, model: ActorCritic) -> None:
        """Copies the running statistics into a model."""

    def traffic(self) -> dict[str, float]:
        """Messages of the workers since the last call, by the names of Progress's fields; empty on one machine."""
