"""A run's parent process: has an engine run the workers, logs, checkpoints, resumes."""

import logging
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path

import torch
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
from a3c_core.devices import device_of, encoder_dtype
from a3c_core.envs import Spaces, make_envs
from a3c_core.model import ActorCritic, build_model
from a3c_core.recipe import Recipe
from a3c_core.worker import MakeEnvs, Report
from training.engine import Cluster, Engine, ServerLost
from training.evaluations import Evaluator
from training.local import CONTEXT, LocalEngine, undisturbed
from training.log import Log, Metrics, Progress, read_log
from training.schedule import saved_run, with_phase
from training.widen import widen

MakeEngine = Callable[[Recipe, ActorCritic], Engine]

CHECKPOINT_SECONDS = 60.0
LOG_SECONDS = 0.25
LOG_SHARE = 0.005
"""Long runs log less often: once per this share of the run's seconds, up to every LOG_SECONDS_MOST."""
LOG_SECONDS_MOST = 10.0
SNAPSHOT_PERCENTS = (1, 5, 25)
"""Shares of the run after which the agent is kept as it is then, to show how it learnt."""
LOST_AT_MOST = 3
"""Times in a row that a server may be lost before any step is made with it."""


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
    cluster: Cluster | None = None,
) -> Iterator[Progress]:
    """Trains in `directory`, yielding a Progress every fraction of a second and when the run ends.

    The directory is a checkpoint from the first moment on. Closing the iterator, or an exception inside the loop that
    draws from it, ends the run early: the workers are stopped and the checkpoint is of that moment.

    Where a phase of the recipe's schedule begins, the workers are stopped, a checkpoint is written, and the run resumes
    by the next phase's recipe. Where the server of a cluster is lost, the run resumes from its last checkpoint.

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
        cluster: where the workers run; by default they are processes of this machine.

    Raises:
        CheckpointError: the directory holds a run already, or none to resume, or one of another shape, or is full.
        ValueError: the recipe asks for a device that is not there, or its encoder can't read the environment, or the
            cluster has no room for the workers.
        ConnectionError: there is no such cluster.
        WorkerDied: a worker raised or was killed; a cluster's is replaced where there is room. The checkpoint is kept.
    """
    lost_in_a_row = 0
    with _engines(cluster) as make_engine:
        while True:
            evaluations = {"evaluate_every": evaluate_every, "evaluate_greedy": evaluate_greedy}
            engine = {"make": make, "make_engine": make_engine}
            run = _Run(recipe, directory, resume=resume, stop_at=stop_at, watch=watch, **engine, **evaluations)
            lost = None
            try:
                yield from run.progress(stop)
            except ServerLost as error:
                lost, lost_in_a_row = error, 1 if run.engine.steps > run.first_step else lost_in_a_row + 1
                if lost_in_a_row == LOST_AT_MOST:
                    raise
            finally:
                run.close(keep=lost is None)
            if lost:
                steps = steps_of(directory)
                logging.getLogger(__name__).warning("%s; the run goes on from its checkpoint at %d steps", lost, steps)
            elif not run.next_phase_is_due():
                return
            recipe, resume = run.whole, True


def _engines(cluster: Cluster | None) -> AbstractContextManager[MakeEngine]:
    """What makes a run's engines, for as long as it is open."""
    if cluster is None:
        return nullcontext(LocalEngine)
    try:
        from training.cluster import engines
    except ModuleNotFoundError as error:
        if error.name != "ray":
            raise
        raise ValueError('--cluster needs Ray: pip install "a3c-arcade[ray]"') from None
    return engines(cluster)


class _Run:
    """One phase of a run."""

    def __init__(
        self,
        recipe: Recipe,
        directory: Path,
        *,
        resume: bool,
        make: MakeEnvs,
        make_engine: MakeEngine,
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
        for phase in map(self.whole.phase, range(self.phase, len(self.whole.schedule) + 1)):
            for device in (phase.device, phase.shared_device):
                device_of(device)  # a GPU of a later phase is missed now, not hours later
        self.spaces = _spaces(recipe, make)
        self.model = build_model(recipe, self.spaces)
        self.engine = make_engine(recipe, self.model)
        self.server = self.engine.server
        if resume and not fresh:
            self._restore()
        elif resume:
            self._take_over()
        phases = self.whole.schedule[self.phase :]
        self.end = min(self.whole.last_step, stop_at or self.whole.last_step)
        """Steps at which the run ends, in whatever phase that is."""
        self.engine.goal = min(stop_at or phases[0].at, phases[0].at) if phases else self.end
        self.kept = {_passed(share) for share in self._snapshots()}
        """Which of SNAPSHOT_PERCENTS have their snapshot: looked up once, since reports come many times a second."""
        self._checkpoint()
        self.evaluator = None
        if evaluate_every:
            self.evaluator = Evaluator(
                directory, CONTEXT, every=evaluate_every, steps=self.engine.steps, greedy=evaluate_greedy
            )
        self.first_step = self.engine.steps
        self.log = Log(directory, after=self.engine.steps)
        self.stopped = False
        try:
            self.engine.start(self.spaces, make)
        except BaseException:
            self.close()
            raise

    def next_phase_is_due(self) -> bool:
        """Whether this phase has ended where the next one begins."""
        phases = self.whole.schedule[self.phase :]
        return bool(phases) and not self.stopped and phases[0].at <= self.engine.steps < self.end

    def progress(self, stop: Callable[[], bool]) -> Iterator[Progress]:
        """Progress after Progress until every worker has ended or `stop` says so."""
        logged = saved = time.monotonic()
        stopped = False
        while self.engine.running and not (stopped := stop()):
            self._take_in(self.engine.listen(timeout=LOG_SECONDS))
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
        self._take_in(self.engine.end())
        yield self._log_progress()
        while self.evaluator and not stop() and not self._evaluate(last=True):
            pass

    def _take_in(self, reports: Iterable[Report]) -> None:
        for report in reports:
            self.metrics.add(report)
            self.watch(report, self.engine.steps, self.metrics.seconds)
            self._snapshot()

    def _log_progress(self) -> Progress:
        steps = self.engine.steps
        rate = self.recipe.learning_rate_at(steps)
        encoder = str(encoder_dtype(self.recipe)).removeprefix("torch.")
        traffic = self.engine.traffic()
        progress = self.metrics.progress(steps, goal=self.end, learning_rate=rate, encoder=encoder, **traffic)
        with undisturbed():  # or TensorBoard's queue might keep for ever the lock that it had just taken
            self.log.write(progress)
        return progress

    def close(self, *, keep: bool = True) -> None:
        """Stops the workers, keeps a checkpoint of the moment unless told otherwise, frees everything."""
        try:
            if self.evaluator:
                self.evaluator.stop()
            with suppress(ServerLost):  # its last state is the engine's copy
                self._take_in(self.engine.end())
        finally:
            try:
                if keep:
                    self._checkpoint()
            finally:
                self.log.close()

    def _evaluate(self, *, last: bool) -> bool:
        """Begins an evaluation if one is due and notes one that has ended; returns whether the last one has.

        At the end of the whole run the agent is evaluated in any case, if its weights are numbers.
        """
        steps = self.engine.steps
        ended = self.evaluator.collect(LOG_SECONDS if last else 0.0)
        final = last and steps >= self.end and self.evaluator.evaluated < steps
        if not ended or not (final or (not last and self.evaluator.is_due(steps))):
            return ended
        self.engine.refresh()
        theta = self.server.theta.detach().clone()
        if not theta.isfinite().all():
            return True
        self.evaluator.start(self._agent(theta, steps), run=self.whole, phase=self.phase)
        return False

    def _checkpoint(self) -> None:
        """Writes what the run resumes from, all of one moment: the workers pause while it is copied."""
        with self.engine.paused():
            state = {name: tensor.detach().clone() for name, tensor in self.server.tensors().items()}
            steps = self.engine.steps
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
        self.engine.normalize(self.model)
        return Agent(self.recipe, self.model, steps)

    def _snapshot(self) -> None:
        """Keeps the agent as it is now if one of SNAPSHOT_PERCENTS has just gone by."""
        share = self._share(steps := self.engine.steps)
        begun = 100 * steps >= self.recipe.steps
        if begun and (passed := _passed(share)) and passed not in self.kept:
            self.engine.refresh()
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

    def _restore(self) -> None:
        path = self.directory / RESUME
        state = self.server.tensors()
        like = {
            "steps": torch.tensor(0),
            "episodes": torch.tensor(0),
            "seconds": torch.tensor(0.0, dtype=torch.float64),
            "recent_returns": torch.zeros(100, dtype=torch.float64),
            **state,
        }
        try:
            saved = load_tensors(path, like, optional={"average"})
        except CheckpointError as error:
            raise CheckpointError(f"{error} A resumed run keeps its network and its optimizer.") from None
        if not saved["theta"].isfinite().all():
            raise CheckpointError(f"{path} holds weights that are not numbers: train again with a lower learning rate.")
        saved.setdefault("average", saved["theta"])  # for a phase that begins the average
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
        self.engine.start_at(steps)
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
