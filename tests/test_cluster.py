"""Runs on a Ray cluster of two nodes, simulated on this machine: they learn the same, and survive the loss of parts."""

import logging
import os
import re
import signal
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import training.__main__ as cli
from a3c_core.checkpoint import RESUME
from a3c_core.envs import make_envs
from a3c_core.model import build_model
from a3c_core.recipe import Recipe
from a3c_core.shared import ParameterServer
from benchmarks import cluster_memory
from tests import toy
from tests.processes import actors, alive, command, descendants, wait_until
from training.engine import Cluster, WorkerDied
from training.log import read_log
from training.run import train

ray = pytest.importorskip("ray", reason='Ray is not installed: pip install "a3c-arcade[ray]"')
from ray.cluster_utils import Cluster as SimulatedCluster  # noqa: E402

from training import cluster  # noqa: E402

ROOT = Path(__file__).parents[1]
HERE = Cluster(address="auto")
ENDLESS = Recipe(steps=10**9, workers=2, envs_per_worker=4, head_layers=(8,))
"""CartPole for ever."""


@pytest.fixture(scope="module")
def two_nodes():
    """A cluster of two nodes with two cores each: room for two workers on either."""
    quick = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 300, "health_check_failure_threshold": 5}
    head = {"num_cpus": 2, "_system_config": quick}  # as a node that is lost is noticed after 15 s by default
    simulated = SimulatedCluster(initialize_head=True, head_node_args=head)
    simulated.add_node(num_cpus=2)
    ray.init(address=simulated.address, log_to_driver=False, logging_level=logging.ERROR)
    yield simulated
    ray.shutdown()
    simulated.shutdown()


clustered = pytest.mark.cluster


def draw_until(moments, condition):
    return next(moment for moment in moments if condition(moment))


def all_actors_end():
    """Whether no actor's process is left 5 s after Ray's own 5 s between SIGTERM and SIGKILL."""
    return wait_until(lambda: not actors("Worker") and not actors("Server"), 10.0)


def weights_of(directory, *, to, start="local", end="local"):
    """The state after a run of one worker in two segments, each by its own engine."""
    places = {"local": None, "cluster": HERE}
    recipe = toy.recipe(steps=400, seed=1, normalize_observations=True, average_decay=0.9)
    for _ in train(recipe, directory, make=toy.make_cue, cluster=places[start]):
        pass
    for _ in train(replace(recipe, steps=to), directory, make=toy.make_cue, resume=True, cluster=places[end]):
        pass
    return {name: part for name, part in load_file(directory / RESUME).items() if name != "seconds"}


@clustered
def test_one_worker_ends_with_the_weights_of_a_local_run_also_when_either_is_resumed_by_the_other(tmp_path, two_nodes):
    local = weights_of(tmp_path / "local", to=800)
    for start, end in (("cluster", "local"), ("local", "cluster")):
        there = weights_of(tmp_path / f"{start}-{end}", to=800, start=start, end=end)
        torch.testing.assert_close(there, local, rtol=0, atol=0, equal_nan=True)
    told = [line for line in read_log(tmp_path / "local-cluster") if line.messages is not None]
    updates = 400 // 20
    assert sum(line.messages for line in told) == 2 * updates + 2  # pushes, statistics, and the first of both
    weights = 4 * local["theta"].numel()
    assert sum(line.megabytes for line in told) == pytest.approx((2 * updates + 1) * weights / 1e6)
    assert sum(line.dropped for line in told) == 0


@clustered
def test_the_loss_of_workers_and_of_a_node_is_told_and_the_run_goes_on(tmp_path, two_nodes, caplog):
    recipe = replace(ENDLESS, workers=3)  # at least one on either node
    moments = train(recipe, tmp_path, cluster=HERE)
    draw_until(moments, lambda moment: moment.updates and len(actors("Worker")) == 3)
    os.kill(actors("Worker").pop(), signal.SIGKILL)
    draw_until(moments, lambda _: "was lost: its process or its machine has gone; another replaces it" in caplog.text)
    caplog.clear()
    draw_until(moments, lambda moment: moment.updates and len(actors("Worker")) == 3)
    two_nodes.remove_node(*two_nodes.worker_nodes, allow_graceful=False)
    draw_until(moments, lambda _: "as soon as the cluster has room for it" in caplog.text)
    before = next(moments).steps
    draw_until(moments, lambda moment: moment.steps > before + 1000)
    caplog.clear()
    two_nodes.add_node(num_cpus=2)
    draw_until(moments, lambda _: len(actors("Worker")) == 3)
    moments.close()
    assert load_file(tmp_path / RESUME)["steps"].item() > before
    assert all_actors_end()


@clustered
def test_a_lost_server_resumes_from_the_last_checkpoint(tmp_path, two_nodes, caplog, monkeypatch):
    monkeypatch.setattr("training.run.CHECKPOINT_SECONDS", 0.0)
    moments = train(ENDLESS, tmp_path, cluster=HERE)
    draw_until(moments, lambda moment: moment.updates)
    (server,) = actors("Server")
    os.kill(server, signal.SIGKILL)
    draw_until(moments, lambda _: "the run goes on from its checkpoint at" in caplog.text)
    kept = int(caplog.text.split("checkpoint at ")[1].split()[0])
    last = draw_until(moments, lambda moment: moment.updates)
    (server,) = actors("Server")
    os.kill(server, signal.SIGKILL)
    moments.close()  # before the loss is noticed
    assert 0 < kept < last.steps
    state = load_file(tmp_path / RESUME)
    assert state["steps"] == state["optimizer.0.step"] * 4 * 32 >= kept
    steps = [line.steps for line in read_log(tmp_path)]
    assert steps == sorted(steps)
    assert all_actors_end()


@clustered
def test_a_cluster_without_room_says_what_it_lacks(tmp_path, two_nodes):
    says = r"64 workers take a core each, and of the cluster's 4 cores (\d) are free: add machines with (\d+) more"
    with pytest.raises(ValueError, match=says) as raised:
        next(train(replace(ENDLESS, workers=64), tmp_path / "run", cluster=replace(HERE, room_seconds=0.0)))
    assert sum(map(int, re.search(says, str(raised.value)).groups())) == 64
    assert not (tmp_path / "run").exists()


@clustered
def test_the_readmes_commands_train_on_a_cluster(tmp_path, two_nodes):
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("## On more machines")[1].split("\n## ")[0]
    commands = re.findall(r"^python -m training (train [^#\n]+)", section, re.MULTILINE)
    assert len(commands) == 3
    for number, line in enumerate(commands):  # connected already, so that all addresses are this cluster
        run = tmp_path / str(number)
        cli.main([*line.split(), *f"--workers 1 --envs-per-worker 2 --n-steps 4 --steps 16 --out {run}".split()])
        log = read_log(run)
        assert log[-1].steps == 16
        vector = load_file(run / RESUME)["theta"].numel() * (2 if "bfloat16" in line else 4)
        vectors = round(sum(moment.megabytes for moment in log) * 1e6 / vector)
        assert vectors == 1 + 2 * sum(moment.updates for moment in log)  # the first pull, then there and back


def crash(recipe, count):
    """Environments whose first step fails in a worker, but not where the run looks at their spaces."""
    envs = make_envs(recipe, count)
    if count > 1:
        envs.step = lambda actions: (_ for _ in ()).throw(RuntimeError("the pole fell off"))
    return envs


@clustered
def test_an_error_in_a_worker_ends_the_run_with_its_traceback(tmp_path, two_nodes):
    with pytest.raises(WorkerDied, match=r"(?s)worker [01] failed:\nTraceback.*the pole fell off"):
        list(train(ENDLESS, tmp_path, make=crash, cluster=HERE))


def driver_of(directory, address):
    """A training from the command line that has made updates on a cluster."""
    options = f"train cartpole --steps 1000000000 --workers 2 --cluster {address} --out {directory}"
    command_line = [sys.executable, "-m", "training", *options.split()]
    driver = subprocess.Popen(command_line, stderr=subprocess.PIPE, text=True, start_new_session=True)
    if not wait_until(lambda: any(line.updates for line in read_log(directory)), 60.0):
        driver.kill()
        raise AssertionError(driver.communicate()[1])
    return driver


@clustered
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "SIGKILL"])
def test_no_actor_outlives_the_driver_in_a_cluster_that_goes_on(tmp_path, two_nodes, number):
    driver = driver_of(tmp_path, two_nodes.address)
    assert (len(actors("Worker")), len(actors("Server"))) == (2, 1)
    os.killpg(driver.pid, number)
    assert all_actors_end()
    assert number == signal.SIGKILL or f"continue with --resume {tmp_path}" in driver.communicate()[1]


@clustered
def test_no_process_outlives_a_killed_driver_that_started_ray(tmp_path):
    driver = driver_of(tmp_path, "local")
    started = descendants(driver.pid)
    assert len([pid for pid in started if command(pid).split(".")[0] == "ray::Worker"]) == 2
    driver.kill()
    assert wait_until(lambda: not any(map(alive, started)), 5.0)


@clustered
def test_the_memory_of_the_server_is_measured_while_it_trains(two_nodes, monkeypatch, capsys):
    monkeypatch.setattr(cluster_memory, "simulated", lambda cores, machines: nullcontext(two_nodes))
    cluster_memory.main(minutes=0.0, workers=2, delay=0.0, keep=False)
    (told,) = capsys.readouterr().out.splitlines()
    _, messages, own, _ = map(float, told.split())
    assert messages > 0
    assert 10 < own < 1000


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.0.0.1", "nowhere"])
def test_an_address_without_a_cluster_is_told(tmp_path, monkeypatch, address):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(ConnectionError, match=f"no Ray cluster at '{address}': run `ray start --head`"):
        next(train(ENDLESS, tmp_path / "run", cluster=Cluster(address=address)))
    assert not (tmp_path / "run").exists()


def server(**options):
    recipe = toy.recipe()
    model = build_model(recipe, toy.spaces(box=False))
    state = ParameterServer(recipe, model)
    return cluster.Server(recipe, state, Cluster(address="local", **options), first_step=0, goal=100)


def test_a_gradient_that_is_too_stale_is_dropped_and_counted_but_its_steps_are_not_lost():
    bounded = server(max_staleness=1)
    gradient = np.ones(bounded.server.theta.numel(), dtype=np.float32)
    sent = (bounded.push(gradient, rank, 20, 0, []) for rank in range(3))
    answers = [answer._replace(weights=answer.weights.copy()) for answer in sent]  # as Ray copies each when it is sent
    assert [(answer.before, answer.updates) for answer in answers] == [(0, 1), (1, 2), (2, 2)]
    assert not np.array_equal(answers[0].weights, answers[1].weights)
    assert np.array_equal(answers[1].weights, answers[2].weights)
    news = bounded.news()
    assert (news.steps, news.messages, news.dropped) == (60, 3, 1)
    assert bounded.news()[2:] == (0, 0, 0)


@pytest.mark.parametrize(("compression", "error"), [("float32", 0.0), ("float16", 2**-11), ("bfloat16", 2**-8)])
def test_compressed_numbers_are_those_of_their_type_at_its_size(compression, error):
    numbers = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    packed = cluster.pack(numbers, compression)
    packed.flags.writeable = False  # as it comes out of the object store
    assert packed.nbytes == 1000 * (4 if compression == "float32" else 2)
    torch.testing.assert_close(cluster.unpack(packed, compression), numbers, rtol=error, atol=1e-7 * bool(error))


def test_a_number_too_large_for_float16_is_told():
    with pytest.raises(FloatingPointError, match="--compression bfloat16"):
        cluster.pack(torch.tensor([1e5]), "float16")
