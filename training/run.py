"""A run's parent process: starts the workers, logs, checkpoints, resumes, and notices the dead."""

import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path

import torch
from torch import multiprocessing as mp
from torch.nn.utils import vector_to_parameters

from a3c_core.agent import Agent
from a3c_core.checkpoint import (
    AVERAGE,
    MODEL,
    RECIPE,
    RESUME,
    SNAPSHOTS,
    CheckpointError,
    load_tensors,
    load_weights,
    save_agent,
    save_tensors,
    steps_of,
)
from a3c_core.envs import Spaces, make_envs
from a3c_core.handover import share_model
from a3c_core.model import build_model
from a3c_core.recipe import Recipe
from a3c_core.shared import device_of
from a3c_core.worker import Extensions, Failure, MakeEnvs, Report, encoder_dtype, worker_process
from training.evaluations import Evaluator
from training.log import Log, Metrics, Progress, read_log
from training.schedule import saved_run, with_phase
from training.widen import widen

CHECKPOINT_SECONDS = 60.0
LOG_SECONDS = 0.25
LOG_SHARE = 0.005
"""Long runs log less often: once per this share of the run's seconds, up to every LOG_SECONDS_MOST."""
LOG_SECONDS_MOST = 10.0
STOP_SECONDS = 5.0
SNAPSHOT_PERCENTS = (1, 5, 25)
"""Shares of the run after which the agent is kept as it is then, to show how it learnt."""

# A fork server is a fresh process without threads: as safe as `spawn` (forking a threaded parent, such as a web
# server, can deadlock), but it imports torch once, where every spawned worker would take its 1.3 s again.
_METHOD = "forkserver" if "forkserver" in mp.get_all_start_methods() else "spawn"
_CONTEXT = mp.get_context(_METHOD)
if _METHOD == "forkserver":
    # An optimizer imports dynamo at its first use, which takes each worker another second.
    _CONTEXT.set_forkserver_preload(["a3c_core.worker", "torch._dynamo"])


def warm_up() -> None:
    """Starts the process that workers are forked from, so that the next run need not wait while it imports torch."""
    if _METHOD == "forkserver":
        resource_tracker.ensure_running()  # it would unblock what is blocked next
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # inherited: Ctrl-C is for the parent alone
        forkserver.ensure_running()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _undisturbed() -> Iterator[None]:
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


class WorkerDied(RuntimeError):
    """A worker raised or was killed; the message holds its traceback or exit code."""


def train(
    recipe: Recipe,
    directory: Path,
    *,
    resume: bool = False,
    make: MakeEnvs = make_envs,
    stop: Callable[[], bool] = lambda: False,
    stop_at: int | None = None,
    evaluate_every: int | None = None,
    evaluate_greedy: bool = True,
    watch: Callable[[Report, int, float], object] | None = None,
) -> Iterator[Progress]:
    """Trains in `directory`, yielding a Progress every fraction of a second and when the run ends.

    The directory is a checkpoint from the first moment on. Closing the iterator, or an exception inside the loop that
    draws from it, ends the run early: the workers are stopped and the checkpoint is of that moment.

    Where a phase of the recipe's schedule begins, the workers are stopped, a checkpoint is written, and the run resumes
    by the next phase's recipe.

    Args:
        recipe: what to train. A resumed run may change numbers and `steps`, not the network or the optimizer; what it
            changes becomes a phase in the schedule of its own recipe.
        directory: where the checkpoint, log.jsonl and TensorBoard events go.
        resume: continue the run that `directory` holds, else `directory` must not hold one. A checkpoint that tells
            nothing of its optimizer, as a published one, goes on with a fresh one.
        make: makes each worker's environments.
        stop: asked several times a second; True ends the run early, with a last Progress.
        stop_at: steps at which to end the run early; the learning rate falls as if it went on, and resuming goes on.
        evaluate_every: after each so many steps the agent plays 20 games in another process, as evaluations.jsonl
            tells; the best checkpoint is kept in best/, a checkpoint of its own.
        evaluate_greedy: whether it takes its likeliest actions there, or draws them. Choose what it will be scored by.
        watch: called with each worker's report of each update, and the run's steps and seconds by then.

    Raises:
        CheckpointError: the directory holds a run already, or none to resume, or one of another shape, or is full.
        ValueError: the recipe asks for a device that is not there, or its encoder can't read the environment.
        WorkerDied: a worker raised or was killed. The checkpoint is kept.
    """
    while True:
        evaluations = {"evaluate_every": evaluate_every, "evaluate_greedy": evaluate_greedy}
        run = _Run(recipe, directory, resume=resume, make=make, stop_at=stop_at, watch=watch, **evaluations)
        try:
            yield from run.progress(stop)
        finally:
            run.close()
        if not run.next_phase_is_due():
            return
        recipe, resume = run.whole, True


class _Run:
    """One phase of a run."""

    def __init__(
        self,
        recipe: Recipe,
        directory: Path,
        *,
        resume: bool,
        make: MakeEnvs,
        stop_at: int | None,
        evaluate_every: int | None,
        evaluate_greedy: bool,
        watch: Callable[[Report, int, float], object] | None,
    ) -> None:
        if not resume and (directory / RECIPE).exists():
            raise CheckpointError(f"{directory} holds a run already: resume it, or choose another directory.")
        if resume and not (directory / RECIPE).exists():
            raise CheckpointError(f"{directory} holds no run to resume: it has no {RECIPE}. Train without resuming.")
        self.metrics = Metrics()  # the clock starts here
        self.watch = watch or (lambda report, steps, seconds: None)
        self.directory = directory
        self.whole, self.phase, fresh = _continued(recipe, directory) if resume else (recipe, 0, False)
        """The recipe of the whole run, and how many of its phases have begun."""
        recipe = self.recipe = self.whole.phase(self.phase)
        device_of(recipe.device)
        warm_up()
        self.spaces = _spaces(recipe, make)
        self.model = build_model(recipe, self.spaces)
        self.shared = share_model(recipe, self.model, _CONTEXT)
        self.server = self.shared.server
        if resume and not fresh:
            self._restore()
        elif resume:
            self._take_over()
        phases = self.whole.schedule[self.phase :]
        self.end = min(self.whole.last_step, stop_at or self.whole.last_step)
        """Steps at which the run ends, in whatever phase that is."""
        self.shared.goal = min(stop_at or phases[0].at, phases[0].at) if phases else self.end
        self.kept = {_passed(share) for share in self._snapshots()}
        """Which of SNAPSHOT_PERCENTS have their snapshot: looked up once, since reports come many times a second."""
        self._checkpoint()
        self.evaluator = None
        if evaluate_every:
            self.evaluator = Evaluator(
                directory, _CONTEXT, every=evaluate_every, steps=self.shared.steps, greedy=evaluate_greedy
            )
        self.log = Log(directory, after=self.shared.steps)
        self.workers, self.reports = [], []
        self.stopped = False
        try:
            self.shared.begin()
            for rank in range(recipe.workers):
                self._start(rank, make)
        except BaseException:
            self.close()
            raise

    def next_phase_is_due(self) -> bool:
        """Whether this phase has ended where the next one begins."""
        phases = self.whole.schedule[self.phase :]
        return bool(phases) and not self.stopped and phases[0].at <= self.shared.steps < self.end

    def _start(self, rank: int, make: MakeEnvs) -> None:
        ours, theirs = _CONTEXT.Pipe(duplex=False)
        worker = _CONTEXT.Process(
            target=worker_process,
            args=(rank, self.recipe, self.spaces, self.shared, theirs, make, Extensions.registered()),
            name=f"a3c-worker-{rank}",
            daemon=True,
        )
        with _undisturbed():  # or a worker that has just started would be forgotten
            worker.start()
            self.workers.append(worker)
            self.reports.append(ours)
        theirs.close()

    def progress(self, stop: Callable[[], bool]) -> Iterator[Progress]:
        """Progress after Progress until every worker has ended or `stop` says so."""
        logged = saved = time.monotonic()
        stopped = False
        while self.reports and not (stopped := stop()):
            self._listen(timeout=LOG_SECONDS)
            now = time.monotonic()
            if now - logged >= min(max(LOG_SECONDS, LOG_SHARE * self.metrics.seconds), LOG_SECONDS_MOST):
                logged = now
                yield self._log_progress()
            if now - saved >= CHECKPOINT_SECONDS:
                saved = now
                self._checkpoint()
            if self.evaluator:
                self._evaluate(last=False)
        self.stopped = stopped
        self._end_workers()
        yield self._log_progress()
        while self.evaluator and not stop() and not self._evaluate(last=True):
            pass

    def _listen(self, timeout: float) -> None:
        """Takes in what the workers report, for `timeout` seconds at most, and notices who ended."""
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
                self.metrics.add(message)
                self.watch(message, self.shared.steps, self.metrics.seconds)
                self._snapshot()

    def _ended(self, connection: Connection) -> None:
        """A worker closed its pipe: fine at the run's end, else WorkerDied."""
        worker = next(w for w, r in zip(self.workers, [*self.reports], strict=True) if r is connection)
        worker.join(STOP_SECONDS)
        if worker.exitcode != 0:
            how = f"was killed by signal {-worker.exitcode}" if (worker.exitcode or 0) < 0 else "stopped answering"
            raise WorkerDied(f"{worker.name} {how} (exit code {worker.exitcode}). The run can be resumed.")
        self.workers.remove(worker)
        self.reports.remove(connection)

    def _log_progress(self) -> Progress:
        steps = self.shared.steps
        rate = self.recipe.learning_rate_at(steps)
        encoder = str(encoder_dtype(self.recipe)).removeprefix("torch.")
        progress = self.metrics.progress(steps, goal=self.end, learning_rate=rate, encoder=encoder)
        with _undisturbed():  # or TensorBoard's queue might keep for ever the lock that it had just taken
            self.log.write(progress)
        return progress

    def close(self) -> None:
        """Stops the workers, keeps a checkpoint of the moment, frees everything."""
        try:
            if self.evaluator:
                self.evaluator.stop()
            self._end_workers()
        finally:
            try:
                self._checkpoint()
            finally:
                self.log.close()

    def _end_workers(self) -> None:
        """Asks the workers to end, hears their last reports, and kills those that don't end."""
        self.shared.stop()
        until = time.monotonic() + STOP_SECONDS
        with suppress(WorkerDied):
            while self.reports and time.monotonic() < until:
                self._listen(timeout=0.1)
        for worker in self.workers:
            worker.kill()
            worker.join()
        for connection in self.reports:
            connection.close()
        self.workers, self.reports = [], []
        self.shared.finish()

    def _evaluate(self, *, last: bool) -> bool:
        """Begins an evaluation if one is due and notes one that has ended; returns whether the last one has.

        At the end of the whole run the agent is evaluated in any case, if its weights are numbers.
        """
        steps = self.shared.steps
        ended = self.evaluator.collect(LOG_SECONDS if last else 0.0)
        final = last and steps >= self.end and self.evaluator.evaluated < steps
        if not ended or not (final or (not last and self.evaluator.is_due(steps))):
            return ended
        theta = self.server.theta.detach().clone()
        if not theta.isfinite().all():
            return True
        self.evaluator.start(self._agent(theta, steps), run=self.whole, phase=self.phase)
        return False

    def _checkpoint(self) -> None:
        """Writes what the run resumes from, all of one moment: the workers pause while it is copied."""
        with self.shared.paused():
            state = {name: tensor.detach().clone() for name, tensor in self._state().items()}
            steps = self.shared.steps
        if not state["theta"].isfinite().all():
            return  # the last sound checkpoint is worth more
        counters = {
            "steps": torch.tensor(steps),
            "episodes": torch.tensor(self.metrics.episodes),
            "seconds": torch.tensor(self.metrics.seconds, dtype=torch.float64),
            "recent_returns": torch.full((100,), torch.nan, dtype=torch.float64),
        }
        recent = list(self.metrics.recent)
        counters["recent_returns"][: len(recent)] = torch.tensor(recent, dtype=torch.float64)
        save_tensors(self.directory / RESUME, {**state, **counters})
        save_agent(self.directory, self._agent(state["theta"], steps), run=self.whole, phase=self.phase)
        if "average" in state:
            agent = self._agent(state["average"], steps)
            save_agent(self.directory / AVERAGE, agent, run=self.whole, phase=self.phase)

    def _agent(self, theta: torch.Tensor, steps: int) -> Agent:
        """The agent with those weights and the statistics of this moment."""
        vector_to_parameters(theta.cpu(), self.model.parameters())
        self.shared.normalize(self.model)
        return Agent(self.recipe, self.model, steps)

    def _snapshot(self) -> None:
        """Keeps the agent as it is now if one of SNAPSHOT_PERCENTS has just gone by."""
        share = self._share(steps := self.shared.steps)
        begun = 100 * steps >= self.recipe.steps
        if begun and (passed := _passed(share)) and passed not in self.kept:
            theta = self.server.theta.detach().clone()
            if theta.isfinite().all():
                save_agent(self.directory / SNAPSHOTS / str(share), self._agent(theta, steps), dtype=torch.bfloat16)
                self.kept.add(passed)

    def _share(self, steps: int) -> int:
        """How much of the run these steps are, in whole percent; more than half of the first counts as one."""
        return 100 * steps // self.recipe.steps or round(100 * steps / self.recipe.steps)

    def _snapshots(self) -> dict[int, Path]:
        """The snapshots that are kept, by the share that they are named after."""
        return {int(place.parent.name): place.parent for place in (self.directory / SNAPSHOTS).glob(f"*/{MODEL}")}

    def _rename_snapshots(self) -> None:
        """Names each after its share of the run, which may have another length now; those far from any share go."""
        places = self._snapshots()
        shares = {named: self._share(steps_of(place)) for named, place in places.items()}
        shorter = any(share > named for named, share in shares.items())
        for named, share in sorted(shares.items(), reverse=shorter):  # so that each new name is free
            if not _passed(share):
                shutil.rmtree(places[named])
            elif share != named:
                places[named].rename(places[named].with_name(str(share)))

    def _state(self) -> dict[str, torch.Tensor]:
        """Every tensor that the workers change, by name; they are the shared ones themselves."""
        optimizers = {
            f"optimizer.{number}.{name}": tensor
            for number, optimizer in enumerate(self.server.optimizers)
            for state in optimizer.state.values()
            for name, tensor in state.items()
        }
        statistics = {
            f"statistics.{number}.{name}": tensor
            for number, part in enumerate(self.server.statistics)
            for name, tensor in part.named_buffers()
        }
        average = {} if self.server.average is None else {"average": self.server.average}
        return {"theta": self.server.theta, **optimizers, **statistics, **average}

    def _restore(self) -> None:
        path = self.directory / RESUME
        state = self._state()
        like = {
            "steps": torch.tensor(0),
            "episodes": torch.tensor(0),
            "seconds": torch.tensor(0.0, dtype=torch.float64),
            "recent_returns": torch.zeros(100, dtype=torch.float64),
            **state,
        }
        try:
            saved = load_tensors(path, like)
        except CheckpointError as error:
            raise CheckpointError(f"{error} A resumed run keeps its network and its optimizer.") from None
        if not saved["theta"].isfinite().all():
            raise CheckpointError(f"{path} holds weights that are not numbers: train anew, with a lower learning rate.")
        with torch.no_grad():
            for name, tensor in state.items():
                tensor.copy_(saved[name])
        self._start_at(int(saved["steps"]), seconds=saved["seconds"].item(), episodes=int(saved["episodes"]))
        recent = saved["recent_returns"]
        self.metrics.recent.extend(recent[~recent.isnan()].tolist())

    def _take_over(self) -> None:
        """Goes on from weights without an optimizer's state; what the log tells of time and episodes still counts."""
        steps = steps_of(self.directory)
        before = saved_run(self.directory).in_force
        agent = Agent(before, build_model(before, self.spaces), steps)
        try:
            load_weights(agent, self.directory / MODEL)
            if before.encoder != self.recipe.encoder:
                agent = widen(agent)
            self.model.load_state_dict(agent.model.state_dict())
        except (CheckpointError, RuntimeError) as error:
            raise CheckpointError(f"{error} A resumed run keeps its network.") from None
        told = next((each for each in reversed(read_log(self.directory)) if each.steps <= steps), None)
        seconds, episodes = (told.seconds, told.episodes) if told else (0.0, 0)
        self.server.start_from(self.model)
        self._start_at(steps, seconds=seconds, episodes=episodes)

    def _start_at(self, steps: int, *, seconds: float, episodes: int) -> None:
        self.shared.start_at(steps)
        self._rename_snapshots()
        self.metrics = Metrics(seconds=seconds, episodes=episodes, steps=steps)


def _continued(recipe: Recipe, directory: Path) -> tuple[Recipe, int, bool]:
    """The recipe of the whole run in `directory` if it goes on by `recipe`, how many of its phases have begun, and
    whether it goes on without the optimizer's state. Raises CheckpointError."""
    saved, missing = saved_run(directory), not (directory / RESUME).exists()
    try:
        whole = with_phase(saved.recipe, saved.steps, recipe, fresh_optimizer=missing)
    except ValueError as error:
        raise CheckpointError(f"{directory}: {error}. A resumed run keeps its network and its optimizer.") from None
    phase = whole.phases_begun(saved.steps)
    begun = whole.schedule[saved.phase : phase]
    wider = whole.phase(phase).encoder != saved.in_force.encoder
    return whole, phase, missing or wider or any(each.fresh_optimizer for each in begun)


def _passed(share: int) -> int | None:
    """Which of SNAPSHOT_PERCENTS has gone by just before, at less than half of that share."""
    return next((percent for percent in SNAPSHOT_PERCENTS if percent <= share < 2 * percent), None)


def _spaces(recipe: Recipe, make: MakeEnvs) -> Spaces:
    envs = make(recipe, 1)
    envs.close()
    return Spaces(envs.single_observation_space, envs.single_action_space)
