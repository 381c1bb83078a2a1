"""The workers as actors of a Ray cluster, and the shared weights as one more: a parameter server (Li et al. 2014,
"Scaling Distributed Machine Learning with the Parameter Server").

    worker:   push(gradient) --one message-->  Server: a step of the optimizer  --its answer-->  the next pull
    driver:   reports, steps and traffic several times a second; the whole state for each checkpoint

A worker waits for the answer to its push, so it has one message under way and no queue can grow.
"""

import logging
import os
import socket
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import NamedTuple

import numpy as np
import ray
import torch
from ray.actor import ActorHandle, ActorMethod
from ray.exceptions import GetTimeoutError, RayActorError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from torch import Tensor

from a3c_core.envs import Spaces, training_seed
from a3c_core.model import ActorCritic
from a3c_core.normalization import Moments
from a3c_core.recipe import Recipe
from a3c_core.shared import ParameterServer
from a3c_core.worker import MakeEnvs, Report, work
from training.allocator import keep_freed_memory
from training.engine import Cluster, Compression, Engine, Extensions, Failure, ServerLost, WorkerDied
from training.local import undisturbed

CONNECT_SECONDS = 5.0
START_SECONDS = 120.0
"""How long all workers may wait for a place, or the server for its answer, before the run is given up."""
STOP_SECONDS = 10.0
"""How long workers may take to end the rollout that they are in."""
LOST_AT_MOST = 5
"""Times in a row that a worker may be lost before it reports anything."""

_LOG = logging.getLogger(__name__)


class Answer(NamedTuple):
    """What a worker gets back for each message."""

    before: int
    """Updates that were made before this message's."""
    updates: int
    """Updates that the weights have seen."""
    weights: np.ndarray
    """[size] packed."""
    go: bool
    """Whether there are steps left and nobody asked to stop."""


class News(NamedTuple):
    """What the driver learns each time it asks."""

    steps: int
    reports: list[Report]
    messages: int
    bytes: int
    dropped: int


def pack(numbers: Tensor, compression: Compression) -> np.ndarray:
    """A vector as it travels; bfloat16, which NumPy does not know, as int16. Ray copies it when it is sent: until then
    it may be the memory of `numbers`. Raises FloatingPointError where float16 has no number that is large enough."""
    packed = numbers.detach().cpu().to(getattr(torch, compression))
    if compression == "float16" and not packed.isfinite().all():
        raise FloatingPointError("a gradient or weight is too large for float16: use --compression bfloat16")
    return (packed.view(torch.int16) if compression == "bfloat16" else packed).numpy()


def unpack(packed: np.ndarray, compression: Compression) -> Tensor:
    """The vector that was packed, as float32, to be read alone: it may be memory of Ray's object store."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        numbers = torch.from_numpy(packed)
    return (numbers.view(torch.bfloat16) if compression == "bfloat16" else numbers).float()


class Server:
    """The actor that holds the shared state. It answers one message at a time."""

    def __init__(self, recipe: Recipe, server: ParameterServer, cluster: Cluster, first_step: int, goal: int) -> None:
        torch.set_num_threads(1)
        self.recipe, self.server, self.cluster = recipe, server, cluster
        self.steps, self.goal, self.updates, self.stopped = first_step, goal, 0, False
        self._forget()

    def _forget(self) -> None:
        self._reports: list[Report] = []
        self._messages = self._bytes = self._dropped = 0

    def pull(self) -> Answer:
        """The newest weights."""
        return self._answer(self.updates)

    def push(self, gradient: np.ndarray, rank: int, steps: int, seen: int, reports: list[Report]) -> Answer:
        """An update with the gradient [size], unless more than the bound lie between it and the weights that were
        `seen`. Returns the newest weights."""
        before, bound = self.updates, self.cluster.max_staleness
        if bound is not None and before - seen > bound:
            self._dropped += 1
        else:
            rate = self.recipe.learning_rate_at(self.steps)
            self.server.step(unpack(gradient, self.cluster.compression), rank=rank, learning_rate=rate)
            self.updates += 1
            self.server.follow(before)
        self.steps += steps
        self._reports += reports
        self._bytes += gradient.nbytes
        return self._answer(before)

    def _answer(self, before: int) -> Answer:
        weights = pack(self.server.theta, self.cluster.compression)
        self._messages += 1
        self._bytes += weights.nbytes
        return Answer(before, self.updates, weights, self.steps < self.goal and not self.stopped)

    def normalize(self, moments: Sequence[Moments]) -> list[dict[str, Tensor]]:
        """Adds the moments of a rollout to the running statistics; returns these."""
        self._messages += 1
        self.server.normalizer.add(moments)
        return [dict(part.state_dict()) for part in self.server.normalizer.running()]

    def take(self, reports: list[Report]) -> None:
        """Takes in the last reports of a worker."""
        self._reports += reports

    def stop(self) -> None:
        """Asks all workers to end after the rollout that they are in."""
        self.stopped = True

    def news(self) -> News:
        """What has happened since the last call."""
        news = News(self.steps, self._reports, self._messages, self._bytes, self._dropped)
        self._forget()
        return news

    def state(self) -> tuple[int, dict[str, Tensor]]:
        """The steps and every tensor that the workers change, of one moment."""
        return self.steps, {name: tensor.detach() for name, tensor in self.server.tensors().items()}


class RemoteParameters:
    """The `Parameters` of a worker whose server is an actor. A push brings the weights that the next pull takes."""

    def __init__(self, server: ActorHandle, cluster: Cluster, first_step: int) -> None:
        self.first_step = first_step
        self._server, self._cluster = server, cluster
        self._newest: Answer | None = None
        self._go: bool | None = None
        self._seen = 0
        self._reports: list[Report] = []

    def should_continue(self) -> bool:
        if self._go is None:
            self._pull()
        return self._go

    def pull(self, weights: list[Tensor]) -> int:
        if self._newest is None:
            self._pull()
        newest, self._newest = self._newest, None
        parts = unpack(newest.weights, self._cluster.compression).split([len(part) for part in weights])
        for part, new in zip(weights, parts, strict=True):
            part.copy_(new)
        self._seen = newest.updates
        return newest.updates

    def push(self, gradient: Tensor, *, rank: int, steps: int) -> int:
        reports, self._reports = self._reports, []
        packed = pack(gradient, self._cluster.compression)
        self._newest = self._ask(self._server.push, packed, rank, steps, self._seen, reports)
        self._go = self._newest.go
        return self._newest.before

    def normalize(self, model: ActorCritic, moments: Sequence[Moments] = ()) -> None:
        parts = list(model.normalizer.running())
        if parts:
            for part, state in zip(parts, self._ask(self._server.normalize, list(moments)), strict=True):
                part.load_state_dict(state)

    def report(self, report: Report) -> None:
        """Keeps a report until the next push, which takes it along."""
        self._reports.append(report)

    def close(self) -> None:
        """Hands over the last reports."""
        self._ask(self._server.take, self._reports)

    def _pull(self) -> None:
        self._newest = self._ask(self._server.pull)
        self._go = self._newest.go

    def _ask(self, method: ActorMethod, *arguments: object) -> object:
        """One round trip, with half of the delay each way."""
        time.sleep(self._cluster.delay / 2)
        answer = ray.get(method.remote(*arguments))
        time.sleep(self._cluster.delay / 2)
        return answer


class Worker:
    """The actor that runs the loop of one worker."""

    def ready(self) -> None:
        """Answers once the actor has a place and runs."""

    def work(
        self,
        rank: int,
        recipe: Recipe,
        spaces: Spaces,
        parameters: RemoteParameters,
        make: MakeEnvs,
        extensions: Extensions,
    ) -> Failure | ServerLost | None:
        """As `training.local.worker_process`; returns why it ended, None at the run's end."""
        torch.set_num_threads(1)
        keep_freed_memory()
        torch.manual_seed(training_seed(recipe, rank, parameters.first_step))
        try:
            extensions.install()
            work(rank, recipe, spaces, parameters, parameters.report, make)
            parameters.close()
        except RayActorError as error:  # it knows of one actor, the server
            return _server_lost(error)
        except Exception:
            return Failure(rank, traceback.format_exc())
        return None


class RayEngine:
    """An `Engine` of Ray actors. `server` is a copy of the state that lives in the server's actor."""

    def __init__(self, cluster: Cluster, recipe: Recipe, model: ActorCritic) -> None:
        if "cuda" in (recipe.device, recipe.shared_device):
            raise ValueError("--cluster trains on processors: train with --device cpu --shared-device cpu")
        if recipe.handover == "synchronous":
            raise ValueError("--cluster is asynchronous: train with another --handover, such as lock")
        check_room(recipe.workers, cluster.room_seconds)
        self.server = ParameterServer(recipe, model)
        self.recipe, self.cluster = recipe, cluster
        self.steps, self.goal = 0, recipe.steps
        self._first_step = self._copied_steps = 0
        self._actor: ActorHandle | None = None
        self._workers: dict[int, ActorHandle] = {}
        self._work: dict[ray.ObjectRef, int] = {}
        """The rank of each worker that has not ended, by what it will return."""
        self._ready: dict[ray.ObjectRef, int] = {}
        """The rank of each worker that has no place yet, by what will tell."""
        self._waiting_since = time.monotonic()
        self._lost_in_a_row: dict[int, int] = {}
        self._traffic = News(0, [], 0, 0, 0)
        self._ending = False

    @property
    def running(self) -> bool:
        return bool(self._work)

    def start_at(self, steps: int) -> None:
        self.steps = self._first_step = self._copied_steps = steps

    def normalize(self, model: ActorCritic) -> None:
        self.server.normalize(model)

    def start(self, spaces: Spaces, make: MakeEnvs) -> None:
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
        server = ray.remote(num_cpus=0, scheduling_strategy=here)(Server)
        self._waiting_since = time.monotonic()
        self._actor = server.remote(self.recipe, self.server, self.cluster, self._first_step, self.goal)
        self._spaces, self._make = spaces, make
        for rank in range(self.recipe.workers):
            self._start(rank)

    def _start(self, rank: int) -> None:
        parameters = RemoteParameters(self._actor, self.cluster, self.steps)
        worker = self._workers[rank] = ray.remote(num_cpus=1)(Worker).remote()
        self._ready[worker.ready.remote()] = rank
        task = worker.work.remote(rank, self.recipe, self._spaces, parameters, self._make, Extensions.registered())
        self._work[task] = rank

    def listen(self, timeout: float) -> Iterator[Report]:
        ended = ray.wait(list(self._work), num_returns=1, timeout=timeout)[0] if self._work else []
        for task in ended:
            self._ended(task)
        self._find_places()
        news = self._ask("news")
        self.steps = news.steps
        so_far = self._traffic
        self._traffic = News(news.steps, [], *(a + b for a, b in zip(so_far[2:], news[2:], strict=True)))
        for report in news.reports:
            self._lost_in_a_row.pop(report.rank, None)
            yield report

    def _ended(self, task: ray.ObjectRef) -> None:
        rank = self._work.pop(task)
        try:
            result = ray.get(task)
        except RayActorError:
            self._replace(rank)
            return
        except RayTaskError as error:
            raise WorkerDied(f"worker {rank} failed:\n{error}") from None
        if isinstance(result, ServerLost):
            raise result
        if isinstance(result, Failure):
            raise WorkerDied(f"worker {rank} failed:\n{result.traceback}")

    def _replace(self, rank: int) -> None:
        """Has another worker take the place of one whose process or machine has gone."""
        if self._ending:
            return
        self._lost_in_a_row[rank] = self._lost_in_a_row.get(rank, 0) + 1
        if self._lost_in_a_row[rank] == LOST_AT_MOST:
            raise WorkerDied(f"worker {rank} was lost {LOST_AT_MOST} times in a row. The run can be resumed.")
        self._ready = {ready: other for ready, other in self._ready.items() if other != rank}
        room = ray.cluster_resources().get("CPU", 0) >= self.recipe.workers
        when = "" if room else " as soon as the cluster has room for it"
        _LOG.warning("worker %d was lost: its process or its machine has gone; another replaces it%s", rank, when)
        self._start(rank)

    def _find_places(self) -> None:
        """Notes which workers have a place. Raises WorkerDied where none has had one for long."""
        if not self._ready:
            return
        placed, waiting = ray.wait(list(self._ready), num_returns=len(self._ready), timeout=0)
        for ready in placed:
            del self._ready[ready]
        if len(waiting) < len(self._work):
            self._waiting_since = time.monotonic()
        elif waiting and time.monotonic() - self._waiting_since > START_SECONDS:
            raise WorkerDied(f"no worker has found a free core for {START_SECONDS:.0f} s. The run can be resumed.")

    def _ask(self, method: str) -> object:
        try:
            return ray.get(getattr(self._actor, method).remote(), timeout=START_SECONDS)
        except (RayActorError, GetTimeoutError) as error:
            raise _server_lost(error) from None

    def refresh(self) -> None:
        if self._actor is None:
            return
        self.steps, state = self._ask("state")
        self._copied_steps = self.steps
        with torch.no_grad():
            for name, tensor in self.server.tensors().items():
                tensor.copy_(state[name])

    @contextmanager
    def paused(self) -> Iterator[None]:
        """`server` and `steps` are of one moment while it is open, since they are a copy."""
        self.refresh()
        yield

    def end(self) -> Iterator[Report]:
        if self._actor is None:
            return
        self._ending = True
        try:
            self._ask("stop")
            until = time.monotonic() + STOP_SECONDS
            with suppress(WorkerDied):
                while self._work and time.monotonic() < until:
                    yield from self.listen(timeout=0.1)
            yield from self.listen(timeout=0)
            self.refresh()
        finally:
            self.steps = self._copied_steps  # of one moment with `server`, also where the actor was lost
            with undisturbed():
                for actor in (*self._workers.values(), self._actor):
                    ray.kill(actor)
                self._actor, self._workers, self._work, self._ready = None, {}, {}, {}

    def traffic(self) -> dict[str, float]:
        told, self._traffic = self._traffic, News(0, [], 0, 0, 0)
        return {"messages": told.messages, "megabytes": told.bytes / 1e6, "dropped": told.dropped}


def _server_lost(error: Exception) -> ServerLost:
    """A sentence for the loss of the server's actor."""
    slow = isinstance(error, GetTimeoutError)
    how = f"has not answered for {START_SECONDS:.0f} s" if slow else "was lost: its process has gone"
    return ServerLost(f"the server of the shared weights {how}")


def check_room(workers: int, seconds: float) -> None:
    """Returns once the cluster has a free core for each worker. Raises ValueError where it has none in `seconds`."""
    until = time.monotonic() + seconds
    while (free := int(ray.available_resources().get("CPU", 0))) < workers:
        if time.monotonic() > until:
            total = int(ray.cluster_resources().get("CPU", 0))
            raise ValueError(
                f"{workers} workers take a core each, and of the cluster's {total} cores {free} are free: "
                f"add machines with {workers - free} more, or give --workers {max(free, 1)}"
            )
        time.sleep(0.2)


@contextmanager
def engines(cluster: Cluster) -> Iterator[Callable[[Recipe, ActorCritic], Engine]]:
    """What makes the engines of a run, connected to a cluster. Raises ConnectionError where there is none.

    A process that is connected already stays so.
    """
    if ray.is_initialized():
        yield partial(RayEngine, cluster)
        return
    with _reaper() if cluster.address == "local" else nullcontext():
        _connect(cluster.address)
        try:
            yield partial(RayEngine, cluster)
        finally:
            with undisturbed():
                ray.shutdown()


@contextmanager
def _reaper() -> Iterator[None]:
    """Has `training.reaper` end what Ray would leave behind when this process ends, however it does."""
    if not hasattr(os, "pidfd_open"):  # on Linux alone
        yield
        return
    command = [sys.executable, "-m", "training.reaper", str(os.getpid())]
    home = {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True, env=os.environ | home):
        yield


def _connect(address: str) -> None:
    quiet = {"logging_level": logging.ERROR, "log_to_driver": False}
    try:
        if address not in ("local", "auto"):  # or Ray would try for two minutes
            host, _, port = address.rpartition(":")
            socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
        with undisturbed():  # and with the handlers of signals that were there before
            ray.init(address=address, **quiet, **({"include_dashboard": False} if address == "local" else {}))
    except (ConnectionError, ValueError, RuntimeError, OSError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ConnectionError(
            f"no Ray cluster at {address!r}: run `ray start --head` on one machine and `ray start --address=HOST:6379` "
            f"on the others, this one too; or give --cluster local ({reason})"
        ) from None
