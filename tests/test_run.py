"""Whole runs with real worker processes: they learn, end, resume exactly, and leave nobody behind."""

import errno
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.nn.utils import parameters_to_vector

from a3c_core.agent import Agent
from a3c_core.checkpoint import (
    AVERAGE,
    MODEL,
    RECIPE,
    RESUME,
    SNAPSHOTS,
    CheckpointError,
    load_agent,
    load_tensors,
    save_agent,
    saved_in,
)
from a3c_core.devices import encoder_dtype
from a3c_core.envs import SameStepCartPole
from a3c_core.model import build_model
from a3c_core.recipe import Phase, Recipe
from tests import toy
from tests.processes import alive, descendants, wait_until
from training import local, run
from training.engine import WorkerDied
from training.log import LOG, Log, Metrics, read_log
from training.recipes import RECIPES
from training.run import train

ENDLESS = Recipe(steps=10**9, workers=2, envs_per_worker=4, head_layers=(8,))
"""CartPole for ever."""


def worker_ids():
    """The worker processes of this process's runs."""
    return [child.pid for child in multiprocessing.active_children() if child.name.startswith("a3c-worker")]


def draw_until(moments, condition):
    """Draws from a run until a moment fulfils `condition`; returns that moment."""
    return next(moment for moment in moments if condition(moment))


@pytest.fixture(autouse=True)
def nobody_left():
    """Every test here ends without a worker process."""
    yield
    assert worker_ids() == []


def learned_model(recipe, directory, *, box):
    model = build_model(recipe, toy.spaces(box=box))
    model.load_state_dict(load_tensors(directory / MODEL, model.state_dict()))
    return model


WORKERS = pytest.mark.parametrize("workers", [1, 2])
CORE = pytest.mark.parametrize("core", ["none", "lstm"])
BOX = pytest.mark.parametrize("box", [False, True], ids=["discrete", "box"])


@WORKERS
@CORE
@BOX
def test_a_short_run_moves_the_weights_counts_its_steps_and_ends(tmp_path, monkeypatch, box, core, workers):
    ranks = set()

    class Listening(Metrics):
        def add(self, report):
            ranks.add(report.rank)
            super().add(report)

    monkeypatch.setattr(run, "Metrics", Listening)
    recipe = toy.recipe(core=core, workers=workers)
    barrier = local.CONTEXT.Barrier(workers)
    moments = list(train(recipe, tmp_path, make=partial(toy.make_cue, box=box, barrier=barrier)))
    assert ranks == set(range(workers))
    assert 400 <= moments[-1].steps <= 400 + 20 * (workers - 1)
    assert sum(moment.updates for moment in moments) == moments[-1].steps // 20
    assert moments[-1].episodes > 80
    before, after = build_model(recipe, toy.spaces(box=box)), learned_model(recipe, tmp_path, box=box)
    moved = [not torch.equal(a, b) for a, b in zip(before.parameters(), after.parameters(), strict=True)]
    assert all(moved)


def solve(directory, *, box, core, workers, memory):
    """Greedy return after a run that is long enough for a cue environment; the best is LENGTH = 4."""
    changes = {"n_steps": (8,), "envs_per_worker": 8, "learning_rate": 0.01, "entropy_cost": 0.0 if box else 0.01}
    recipe = toy.recipe(core=core, workers=workers, steps=40_000, **changes)
    for _ in train(recipe, directory, make=partial(toy.make_cue, box=box, memory=memory)):
        pass
    return toy.greedy_return(learned_model(recipe, directory, box=box), box=box, memory=memory)


@pytest.mark.slow
@WORKERS
@CORE
@BOX
def test_a_run_learns_to_answer_the_cue_it_sees(tmp_path, box, core, workers):
    assert solve(tmp_path, box=box, core=core, workers=workers, memory=False) > 3.6


@pytest.mark.slow
@WORKERS
@BOX
def test_an_lstm_learns_to_answer_the_cue_it_saw(tmp_path, box, workers):
    assert solve(tmp_path, box=box, core="lstm", workers=workers, memory=True) > 3.6


@pytest.mark.slow
@BOX
def test_without_memory_nobody_answers_a_cue_that_is_gone(tmp_path, box):
    assert 2.2 < solve(tmp_path, box=box, core="none", workers=1, memory=True) < 2.8


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"workers": 2, "share_statistics": False},
        {"workers": 2, "handover": "lock"},
        {"workers": 2, "handover": "queue"},
        {"workers": 2, "handover": "synchronous"},
        {"optimizer": "amsgrad"},
        {"optimizer": "rmsprop", "learning_rate": 3e-3, "epsilon": 0.01},
        {"gae_lambda": 1.0, "normalize_advantages": False, "envs_per_worker": 1, "workers": 2},
        {"workers": 2, "n_steps": (4, 16)},
    ],
    ids=[
        "own statistics",
        "lock",
        "queue",
        "synchronous",
        "amsgrad",
        "rmsprop",
        "as in the paper",
        "distributed step size",
    ],
)
def test_every_mode_of_the_run_learns(tmp_path, changes):
    recipe = toy.recipe(**{"steps": 40_000, "envs_per_worker": 8, "n_steps": (8,), "learning_rate": 0.01} | changes)
    for _ in train(recipe, tmp_path, make=toy.make_cue):
        pass
    assert toy.greedy_return(learned_model(recipe, tmp_path, box=False), box=False, memory=False) > 3.6


def trained_weights(directory, **changes):
    for _ in train(toy.recipe(steps=1000, **changes), directory, make=toy.make_cue):
        pass
    return load_file(directory / RESUME)["theta"]


@pytest.mark.parametrize("core", ["none", "lstm"])
def test_one_worker_with_the_same_seed_ends_with_the_same_weights(tmp_path, core):
    weights = trained_weights(tmp_path / "a", core=core, seed=1)
    assert torch.equal(trained_weights(tmp_path / "b", core=core, seed=1), weights)
    assert not torch.equal(trained_weights(tmp_path / "c", core=core, seed=2), weights)


def files_in(directory):
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def state_of(directory):
    """Everything that a resumed run goes on with, but the clock."""
    state = load_file(directory / RESUME)
    state["seconds"].zero_()
    return state


@pytest.mark.parametrize(
    "changes",
    [{}, {"optimizer": "amsgrad"}, {"optimizer": "rmsprop"}, {"workers": 2, "share_statistics": False}],
    ids=["adam", "amsgrad", "rmsprop", "own statistics"],
)
def test_resuming_restores_weights_optimizer_counters_and_recent_returns(tmp_path, changes):
    recipe = toy.recipe(**changes)
    last = [*train(recipe, tmp_path, make=toy.make_cue)][-1]
    before = state_of(tmp_path)
    assert before["steps"].item() >= 400
    assert before["episodes"].item() == last.episodes
    assert (~before["recent_returns"].isnan()).sum().item() == min(100, last.episodes)
    again = [*train(recipe, tmp_path, make=toy.make_cue, resume=True)][-1]
    torch.testing.assert_close(state_of(tmp_path), before, rtol=0, atol=0, equal_nan=True)
    assert (again.steps, again.episodes, again.mean_return) == (last.steps, last.episodes, last.mean_return)
    assert again.seconds > last.seconds


def test_a_resumed_run_goes_on_from_where_it_stopped(tmp_path):
    first = [*train(toy.recipe(), tmp_path, make=toy.make_cue)][-1]
    weights = load_file(tmp_path / RESUME)["theta"]
    last = [*train(toy.recipe(steps=1000), tmp_path, make=toy.make_cue, resume=True)][-1]
    state = load_file(tmp_path / RESUME)
    assert (first.steps, last.steps, state["steps"].item()) == (400, 1000, 1000)
    assert state["optimizer.0.step"].item() == 1000 / 20
    assert last.episodes > first.episodes
    assert not torch.equal(state["theta"], weights)
    assert [moment.steps for moment in read_log(tmp_path)][-1] == 1000


def test_weights_alone_go_on_with_a_fresh_optimizer(tmp_path):
    first = [*train(toy.recipe(), tmp_path, make=toy.make_cue)][-1]
    weights = load_file(tmp_path / RESUME)["theta"]
    (tmp_path / RESUME).unlink()
    moments = train(toy.recipe(steps=1000), tmp_path, make=toy.make_cue, resume=True)
    next(moments)
    moments.close()
    state = load_file(tmp_path / RESUME)
    assert state["optimizer.0.step"].item() == (state["steps"].item() - 400) / 20
    assert state["episodes"].item() >= first.episodes
    assert state["seconds"].item() > first.seconds
    assert (state["theta"] - weights).abs().max() < 0.1
    assert saved_in(tmp_path).recipe.schedule == (Phase(at=400, changes={"steps": 1000}, fresh_optimizer=True),)


PHASES = (
    Phase(at=200, changes={"steps": 800, "learning_rate": 0.004, "n_steps": (10,)}),
    Phase(at=400, changes={"workers": 2, "handover": "lock", "gamma": 0.9}, fresh_optimizer=True),
)  # under a lock, since two lock-free workers may count one update for both


def test_a_run_goes_through_its_phases_by_itself(tmp_path):
    whole = toy.recipe(schedule=PHASES, learning_rate=0.01)
    rates = {}
    for moment in train(whole, tmp_path, make=toy.make_cue):
        rates.setdefault(moment.steps, moment.learning_rate)  # the next phase may report too before its first update
    assert rates[200] == pytest.approx(0.01 * (1 - 200 / 400))
    assert rates[400] == pytest.approx(0.004 * (1 - 400 / 800))
    assert saved_in(tmp_path) == (whole, max(rates), 2)
    assert saved_in(tmp_path).in_force == whole.phase(2) == replace(whole.at(400), schedule=())
    updates = load_file(tmp_path / RESUME)["optimizer.0.step"].item()
    assert updates == (max(rates) - 400) / 40 >= 10  # of the last phase alone


def test_a_run_that_is_stopped_at_a_phase_goes_on_with_it(tmp_path):
    whole = toy.recipe(schedule=PHASES)
    assert [*train(whole, tmp_path, make=toy.make_cue, stop_at=200)][-1].steps == 200
    assert saved_in(tmp_path)[::2] == (whole, 0)  # the next phase begins when the run goes on
    assert [*train(whole, tmp_path, make=toy.make_cue, resume=True, stop_at=300)][-1].steps == 320
    assert saved_in(tmp_path)[::2] == (whole, 1)
    changed = replace(saved_in(tmp_path).in_force, gamma=0.5, schedule=PHASES[1:])
    assert [*train(changed, tmp_path, make=toy.make_cue, resume=True)][-1].steps >= 800
    here = Phase(at=320, changes={"gamma": 0.5})
    assert saved_in(tmp_path)[::2] == (replace(whole, schedule=(PHASES[0], here, PHASES[1])), 3)


def test_a_run_that_is_closed_does_not_begin_its_next_phase(tmp_path):
    moments = train(toy.recipe(schedule=PHASES), tmp_path, make=toy.make_cue)
    draw_until(moments, lambda moment: moment.steps == 200)
    moments.close()
    assert saved_in(tmp_path).phase == 0


def test_a_phase_can_widen_the_network(tmp_path):
    short = replace(RECIPES["pong"], steps=32, workers=1, envs_per_worker=2, n_steps=(8,))
    whole = replace(short, schedule=(Phase(at=32, changes={"encoder": "a3c_wide", "steps": 64}),))
    assert [*train(whole, tmp_path)][-1].steps == 64
    assert load_agent(tmp_path).recipe == replace(short, encoder="a3c_wide", steps=64)
    assert load_file(tmp_path / RESUME)["optimizer.0.step"].item() == 2


def test_a_phase_can_begin_the_average_of_the_weights(tmp_path):
    whole = toy.recipe(schedule=(Phase(at=200, changes={"average_decay": 1 - 1e-9}),))
    [*train(whole, tmp_path, make=toy.make_cue, stop_at=200)]
    assert not (tmp_path / AVERAGE).exists()
    begins = load_file(tmp_path / RESUME)["theta"]
    [*train(whole, tmp_path, make=toy.make_cue, resume=True)]
    ends = load_file(tmp_path / RESUME)
    assert (ends["average"] - begins).abs().max() < 1e-6 < 1e-3 < (ends["theta"] - begins).abs().max()
    assert saved_in(tmp_path / AVERAGE) == (whole, 400, 1)


def test_weights_of_another_network_do_not_go_on(tmp_path):
    save_agent(tmp_path, toy.balancer())
    before = files_in(tmp_path)
    with pytest.raises(CheckpointError, match="A resumed run keeps its network"):
        next(train(Recipe(head_layers=(8,)), tmp_path, resume=True))
    assert files_in(tmp_path) == before


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"optimizer": "rmsprop"}, "a run keeps its optimizer"),
        ({"share_statistics": False, "workers": 2}, "a run keeps its share_statistics"),
        ({"head_layers": (4,)}, "a run keeps its head_layers"),
        ({"encoder": "nature"}, "only a3c can become a3c_wide"),
    ],
)
def test_a_run_of_another_shape_is_not_resumed_and_stays_as_it_was(tmp_path, changes, says):
    for _ in train(toy.recipe(), tmp_path, make=toy.make_cue):
        pass
    before = files_in(tmp_path)
    with pytest.raises(CheckpointError, match=says):
        next(train(toy.recipe(**changes), tmp_path, make=toy.make_cue, resume=True))
    assert files_in(tmp_path) == before


def test_a_run_is_not_overwritten(tmp_path):
    for _ in train(toy.recipe(), tmp_path, make=toy.make_cue):
        pass
    before = (tmp_path / MODEL).read_bytes()
    with pytest.raises(CheckpointError, match=r"holds a run already: resume it, or choose another directory"):
        next(train(toy.recipe(), tmp_path, make=toy.make_cue))
    assert (tmp_path / MODEL).read_bytes() == before


def test_nothing_cannot_be_resumed(tmp_path):
    with pytest.raises(CheckpointError, match=r"holds no run to resume: it has no recipe\.json"):
        next(train(ENDLESS, tmp_path / "nothing", resume=True))
    assert not (tmp_path / "nothing").exists()


def test_a_damaged_run_is_not_resumed(tmp_path):
    for _ in train(toy.recipe(), tmp_path, make=toy.make_cue):
        pass
    (tmp_path / RESUME).write_bytes((tmp_path / RESUME).read_bytes()[:-8])
    with pytest.raises(CheckpointError, match=rf"cannot read .*{RESUME}"):
        next(train(toy.recipe(), tmp_path, make=toy.make_cue, resume=True))


def test_closing_a_run_early_stops_its_workers_and_keeps_a_checkpoint(tmp_path):
    moments = train(ENDLESS, tmp_path)
    moment = draw_until(moments, lambda m: m.updates > 0)
    workers = worker_ids()
    assert len(workers) == 2
    closed = time.monotonic()
    moments.close()
    assert time.monotonic() - closed < 5.0
    assert [pid for pid in workers if alive(pid)] == []
    assert load_agent(tmp_path).steps >= moment.steps > 0
    state = load_file(tmp_path / RESUME)
    assert state["steps"].item() == load_agent(tmp_path).steps
    assert torch.equal(state["theta"], parameters_to_vector(load_agent(tmp_path).model.parameters()))


def test_a_run_that_is_asked_to_stop_ends_with_a_last_moment(tmp_path):
    asked = []
    moments = []
    for moment in train(ENDLESS, tmp_path, stop=lambda: bool(asked)):
        moments.append(moment)
        if moment.updates:
            asked.append(True)
    assert len(moments) >= 2
    assert load_agent(tmp_path).steps >= moments[-1].steps > 0


def test_ctrl_c_waits_until_the_log_has_its_line(tmp_path, monkeypatch):
    write = Log.write
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def interrupted(log, progress):
        signal.raise_signal(signal.SIGINT)
        write(log, progress)

    monkeypatch.setattr(Log, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        list(train(ENDLESS, tmp_path))
    assert len(read_log(tmp_path)) == 1
    assert load_agent(tmp_path).steps >= read_log(tmp_path)[0].steps


def test_an_exception_in_the_loop_that_draws_from_a_run_stops_it(tmp_path):
    workers = []

    def fail():
        for moment in train(ENDLESS, tmp_path):
            workers.extend(worker_ids())
            raise ZeroDivisionError(moment)

    with pytest.raises(ZeroDivisionError):
        fail()
    assert len(workers) == 2
    assert wait_until(lambda: not any(map(alive, workers)), 5.0)
    assert load_agent(tmp_path).recipe == ENDLESS


@pytest.mark.parametrize("handover", ["lock-free", "queue", "synchronous"])
def test_a_killed_worker_ends_the_run_within_seconds_and_the_checkpoint_is_kept(tmp_path, handover):
    recipe = replace(ENDLESS, handover=handover)
    moments = train(recipe, tmp_path)
    draw_until(moments, lambda m: m.updates > 0)
    workers = worker_ids()
    killed = time.monotonic()
    os.kill(workers[1], signal.SIGKILL)
    with pytest.raises(WorkerDied, match=r"a3c-worker-\d was killed by signal 9.*can be resumed"):
        draw_until(moments, lambda m: False)
    assert time.monotonic() - killed < 5.0
    assert [pid for pid in workers if alive(pid)] == []
    assert load_agent(tmp_path).steps > 0
    resumed = train(recipe, tmp_path, resume=True)
    assert draw_until(resumed, lambda m: m.updates > 0).steps > load_agent(tmp_path).steps
    resumed.close()


def test_a_worker_that_raises_ends_the_run_with_its_traceback(tmp_path):
    with pytest.raises(WorkerDied, match=r"(?s)worker [01] failed.*code 1.*:\nTraceback.*the pole fell off"):
        list(train(toy.recipe(steps=10**9, workers=2), tmp_path, make=toy.make_broken))
    assert load_file(tmp_path / RESUME)["theta"].isfinite().all()


def test_a_worker_that_answers_no_more_is_killed_when_the_run_is_closed(tmp_path, monkeypatch):
    monkeypatch.setattr(local, "STOP_SECONDS", 0.5)
    moments = train(toy.recipe(), tmp_path, make=toy.make_stuck)
    assert next(moments).steps == 0
    (worker,) = worker_ids()
    moments.close()
    assert not alive(worker)


def test_a_full_disk_ends_the_run_in_a_sentence_with_the_old_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "CHECKPOINT_SECONDS", 0.0)
    moments = train(ENDLESS, tmp_path)
    draw_until(moments, lambda m: m.updates > 0)
    draw_until(moments, lambda m: True)
    workers, before = worker_ids(), load_agent(tmp_path)

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(CheckpointError, match="No space left on device"):
            draw_until(moments, lambda m: False)
    assert [pid for pid in workers if alive(pid)] == []
    assert load_agent(tmp_path).steps == before.steps > 0
    assert not list(tmp_path.glob(".*"))


def test_no_process_outlives_a_parent_that_is_killed(tmp_path):
    directory = tmp_path / "run"
    command = [sys.executable, "-m", "training", "train", "cartpole", "--steps", "100000000", "--out", str(directory)]
    parent = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        assert wait_until(lambda: any(moment.updates for moment in read_log(directory)), 60.0)
        below = descendants(parent.pid)
        workers = {pid for child in below for pid in descendants(child)}  # a fork server's children
        assert len(workers) >= 2
    finally:
        parent.kill()
        parent.wait()
    assert wait_until(lambda: not any(map(alive, workers)), 2.0)
    assert wait_until(lambda: not any(map(alive, below)), 20.0)
    assert load_agent(directory).recipe.steps == 100_000_000


def test_a_run_is_logged_as_json_lines_and_tensorboard_events(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "LOG_SECONDS", 0.05)
    moments = train(replace(ENDLESS, workers=1), tmp_path)
    drawn = [draw_until(moments, lambda m: m.updates > 0) for _ in range(3)]
    moments.close()
    lines = [json.loads(line) for line in (tmp_path / LOG).read_text().splitlines()]
    assert [line for line in lines if line["updates"]][:3] == [asdict(moment) for moment in drawn]
    steps = [line["steps"] for line in lines]
    assert steps == sorted(steps)
    assert steps[-1] > steps[0]
    assert [moment.steps for moment in read_log(tmp_path)] == steps

    events = EventAccumulator(str(tmp_path)).Reload()
    last = max((line for line in lines if line["updates"]), key=lambda line: line["steps"])
    for name in ("entropy", "gradient_norm", "learning_rate", "steps_per_second"):
        scalar = events.Scalars(f"train/{name}")[-1]
        assert scalar.step == last["steps"]
        assert scalar.value == pytest.approx(last[name], rel=1e-5)


def test_a_log_line_that_a_crash_cut_short_is_left_out(tmp_path):
    for _ in train(toy.recipe(), tmp_path, make=toy.make_cue):
        pass
    whole = read_log(tmp_path)
    with (tmp_path / LOG).open("a") as log:
        log.write('{"steps": 500, "seco')
    assert read_log(tmp_path) == whole
    assert whole[-1].steps == 400


def test_a_resumed_run_forgets_what_was_logged_after_its_checkpoint(tmp_path):
    for _ in train(toy.recipe(), tmp_path, make=toy.make_cue):
        pass
    whole = read_log(tmp_path)
    later = replace(whole[-1], steps=480)  # it went on, and was killed before the next checkpoint
    with (tmp_path / LOG).open("a") as log:
        log.write(json.dumps(asdict(later)) + '\n{"steps": 500, "seco')
    for _ in train(replace(toy.recipe(), steps=600), tmp_path, make=toy.make_cue, resume=True):
        pass
    resumed = read_log(tmp_path)
    assert resumed[: len(whole)] == whole
    assert [moment.steps for moment in resumed] == sorted(moment.steps for moment in resumed)
    assert len((tmp_path / LOG).read_text().splitlines()) == len(resumed)
    assert later not in resumed


def test_the_checkpoint_is_there_from_the_first_moment_on(tmp_path):
    moments = train(ENDLESS, tmp_path)
    next(moments)
    assert sorted(path.name for path in tmp_path.glob("*.[js]*")) == [LOG, MODEL, RECIPE, RESUME]
    assert load_agent(tmp_path).steps == 0
    moments.close()


GROWING = Recipe(steps=2000, workers=1, envs_per_worker=4, n_steps=(5,), head_layers=(8,))
"""CartPole, with snapshots after 20, 100 and 500 steps."""


class Patient(SameStepCartPole):
    """CartPole that waits, after the steps that are keys of `until`, for the file there: the run is watched slowly."""

    def __init__(self, count, until, taken):
        super().__init__(count, max_episode_steps=500)
        self.until, self.taken = until, taken

    def step(self, action):
        if self.taken in self.until:
            assert wait_until(self.until[self.taken].exists, 60.0)
        self.taken += self.num_envs
        return super().step(action)


def make_patient(recipe, count, *, until, taken=0):
    return Patient(count, until, taken)


def snapshots_in(directory):
    return {int(path.name): load_agent(path) for path in (directory / SNAPSHOTS).glob("*")}


def watched_run(directory):
    """A run of CartPole that goes on only after each of its snapshots is kept."""
    until = {GROWING.steps * percent // 100: directory / SNAPSHOTS / str(percent) / MODEL for percent in (1, 5, 25)}
    return list(train(GROWING, directory, make=partial(make_patient, until=until)))


@pytest.fixture(scope="module")
def grown(tmp_path_factory):
    """The directory of such a run."""
    directory = tmp_path_factory.mktemp("runs") / "grown"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "LOG_SECONDS", 0.02)
        watched_run(directory)
    return directory


def test_a_run_keeps_snapshots_of_its_agent_as_it_grows(grown):
    snapshots = snapshots_in(grown)
    assert {percent: agent.steps for percent, agent in snapshots.items()} == {1: 20, 5: 100, 25: 500}
    assert {agent.recipe for agent in snapshots.values()} == {GROWING}
    ages = [Agent.untrained(GROWING), *(snapshots[percent] for percent in (1, 5, 25)), load_agent(grown)]
    weights = [parameters_to_vector(agent.model.parameters()) for agent in ages]
    far = [(vector - weights[0]).norm().item() for vector in weights]
    assert far == sorted(far)  # further and further from the weights before training
    assert len(set(far)) == 5
    for percent in snapshots:
        stored = load_file(grown / SNAPSHOTS / str(percent) / MODEL)
        assert {tensor.dtype for tensor in stored.values()} == {torch.bfloat16}


def test_a_snapshot_is_kept_once(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "LOG_SECONDS", 0.02)
    until = {500: tmp_path / SNAPSHOTS / "25" / MODEL, 600: tmp_path / "go on"}
    moments = train(GROWING, tmp_path, make=partial(make_patient, until=until))
    for _ in range(2):  # by the second, the run has looked at itself after 600 steps
        draw_until(moments, lambda moment: moment.steps == 600)
    (tmp_path / "go on").touch()
    list(moments)
    before = files_in(tmp_path / SNAPSHOTS)
    assert snapshots_in(tmp_path)[25].steps == 500
    list(train(GROWING, tmp_path, resume=True))
    assert files_in(tmp_path / SNAPSHOTS) == before


def test_a_run_keeps_its_snapshots_however_seldom_it_is_logged(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "LOG_SECONDS", 60.0)
    looks, look = [], run._Run._snapshots
    monkeypatch.setattr(run._Run, "_snapshots", lambda self: looks.append(self) or look(self))
    watched_run(tmp_path)
    assert len(looks) == 1  # at the disk: reports come many times a second
    assert {percent: agent.steps for percent, agent in snapshots_in(tmp_path).items()} == {1: 20, 5: 100, 25: 500}


def test_a_run_that_is_past_twice_a_share_keeps_no_snapshot_by_that_name(tmp_path, monkeypatch):
    list(train(replace(GROWING, steps=400, n_steps=(100,)), tmp_path))  # in one update
    assert snapshots_in(tmp_path) == {}
    monkeypatch.setattr(run, "LOG_SECONDS", 0.02)
    until = {500: tmp_path / SNAPSHOTS / "25" / MODEL}
    list(train(GROWING, tmp_path, resume=True, make=partial(make_patient, until=until, taken=400)))
    assert {percent: agent.steps for percent, agent in snapshots_in(tmp_path).items()} == {25: 500}


@pytest.mark.parametrize(
    ("steps", "shares"),
    [
        (1800, {1: 20, 5: 100, 27: 500}),
        (2600, {1: 20}),  # 0.8, 3.8 and 19.2 %
        (4000, {}),  # 0.5, 2.5 and 12.5 %
    ],
)
def test_a_snapshot_is_named_after_its_share_of_the_run_whatever_its_length_becomes(
    tmp_path, monkeypatch, grown, steps, shares
):
    monkeypatch.setattr(run, "LOG_SECONDS", 0.02)
    copy = Path(shutil.copytree(grown, tmp_path / "copy"))
    list(train(replace(GROWING, steps=steps), copy, resume=True))
    assert {percent: agent.steps for percent, agent in snapshots_in(copy).items()} == shares


PONG = replace(RECIPES["pong"], steps=600, workers=2, envs_per_worker=2, n_steps=(8,))


def test_a_small_run_of_pong_logs_its_diagnostics_and_resumes_exactly(tmp_path):
    moments = train(PONG, tmp_path)
    moment = draw_until(moments, lambda m: m.updates > 0)
    moments.close()
    assert len(moment.active) == 3
    assert all(0.0 < share <= 1.0 for share in moment.active)
    assert moment.encoder == str(encoder_dtype(PONG)).removeprefix("torch.")
    assert [line.active is None for line in read_log(tmp_path)] == [line.updates == 0 for line in read_log(tmp_path)]

    before = state_of(tmp_path)
    assert 0 < moment.steps <= before["steps"].item() == load_agent(tmp_path).steps
    list(train(replace(PONG, steps=1), tmp_path, resume=True))  # there is nothing left to do
    torch.testing.assert_close(state_of(tmp_path), before, rtol=0, atol=0, equal_nan=True)

    *_, last = train(PONG, tmp_path, resume=True)
    assert 600 <= last.steps <= 600 + 16 * 2
    assert last.steps == load_agent(tmp_path).steps
    assert load_file(tmp_path / RESUME)["theta"].isfinite().all()


def test_the_shipped_recipe_learns_within_seconds(tmp_path):
    *_, last = train(replace(RECIPES["cartpole"], steps=80_000), tmp_path / "run")
    assert last.mean_return > 60.0  # by chance about 22
