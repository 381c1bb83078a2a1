"""A worker hands over the gradient of each of its updates, whole and once."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from a3c_core import worker
from a3c_core.loss import a3c_loss
from a3c_core.model import build_model
from a3c_core.worker import Shared, clip, gradient_of, work
from tests import toy
from training.run import _CONTEXT


def shared_with_sgd(weights, **changes):
    """A Shared whose optimizer steps by the gradient itself, so that theta's moves show what it received."""
    recipe = toy.recipe(**{"learning_rate": 1.0, "learning_rate_decay": "none"} | changes)
    shared = Shared(recipe, weights, _CONTEXT)
    shared.optimizers = [torch.optim.SGD([shared.theta], lr=1.0)]
    return shared


@pytest.mark.parametrize("true", [[1.0, 1.0, 1.0, 1.0], [1.0, 2.0, 3.0, 4.0]])
def test_the_optimizer_receives_each_gradient_as_it_is(true):
    model = nn.Linear(1, 2, bias=False)
    shared = shared_with_sgd(torch.zeros(2))
    weights = parameters_to_vector(model.parameters()).detach()
    vector_to_parameters(weights, model.parameters())
    received = []
    for slope in true:
        shared.pull(weights)
        before = shared.theta.detach().clone()
        shared.push(gradient_of(slope * model(torch.ones(1, 1)).sum(), model), rank=0, steps=1)
        received.append((before - shared.theta.detach()).tolist())
    assert received == [[slope, slope] for slope in true]


@pytest.mark.parametrize("core", ["none", "lstm"])
def test_every_update_of_the_loop_hands_over_the_gradient_of_its_own_rollout_at_the_newest_weights(core, monkeypatch):
    recipe = toy.recipe(core=core, steps=100, max_gradient_norm=None, learning_rate=0.1)
    spaces = toy.spaces(box=False)
    shared = Shared(recipe, parameters_to_vector(build_model(recipe, spaces).parameters()).detach(), _CONTEXT)
    rollouts, thetas, pushed, reports = [], [], [], []
    push = shared.push

    def keep_rollout(model, rollout, recipe):
        rollouts.append(rollout)
        return a3c_loss(model, rollout, recipe)

    def keep_gradient(gradient, **rest):
        thetas.append(shared.theta.detach().clone())
        pushed.append(gradient.clone())
        return push(gradient, **rest)

    monkeypatch.setattr(worker, "a3c_loss", keep_rollout)
    monkeypatch.setattr(shared, "push", keep_gradient)
    work(0, recipe, spaces, shared, reports.append, toy.make_cue)

    reference = build_model(recipe, spaces)
    assert len(pushed) == len(reports) == 5
    for rollout, theta, gradient, report in zip(rollouts, thetas, pushed, reports, strict=True):
        vector_to_parameters(theta, reference.parameters())
        reference.zero_grad(set_to_none=True)
        a3c_loss(reference, rollout, recipe).total.backward()
        expected = torch.cat([parameter.grad.flatten() for parameter in reference.parameters()])
        torch.testing.assert_close(gradient, expected)
        assert report.gradient_norm == pytest.approx(expected.norm().item(), rel=1e-5)
    assert not torch.equal(thetas[0], thetas[-1])


def test_the_loop_reports_every_episode_and_ends_with_the_runs_steps():
    recipe = toy.recipe(steps=100)
    spaces, reports = toy.spaces(box=True), []
    shared = Shared(recipe, parameters_to_vector(build_model(recipe, spaces).parameters()).detach(), _CONTEXT)
    work(0, recipe, spaces, shared, reports.append, lambda recipe, count: toy.Cue(count, box=True, memory=False))
    assert shared.steps == 100
    assert sum(len(report.returns) for report in reports) == 24  # 4 environments of 25 steps, 4 to an episode
    assert {report.rank for report in reports} == {0}
    assert [report.staleness for report in reports] == [0] * 5
    assert all(math.isfinite(number) for report in reports for number in report[2:])


@pytest.mark.parametrize(
    ("max_norm", "expected"), [(1.0, [0.6, -0.8]), (5.0, [3.0, -4.0]), (9.0, [3.0, -4.0]), (None, [3.0, -4.0])]
)
def test_only_longer_gradients_are_scaled_down(max_norm, expected):
    gradient, norm = clip(torch.tensor([3.0, -4.0]), max_norm)
    assert norm == 5.0
    assert gradient.tolist() == pytest.approx(expected)


def test_pull_copies_the_weights_of_that_moment():
    shared = shared_with_sgd(torch.tensor([1.0, 2.0]))
    weights = torch.zeros(2)
    assert shared.pull(weights) == 0
    shared.push(torch.tensor([1.0, 1.0]), rank=0, steps=1)
    assert weights.tolist() == [1.0, 2.0]
    assert shared.pull(weights) == 1
    assert weights.tolist() == [0.0, 1.0]


def test_push_counts_steps_and_tells_how_many_updates_came_before():
    shared = shared_with_sgd(torch.zeros(2))
    assert [shared.push(torch.ones(2), rank=rank, steps=20) for rank in (0, 1, 0)] == [0, 1, 2]
    assert shared.steps == 60


def test_the_weights_handed_to_shared_are_copied():
    weights = torch.zeros(2)
    shared_with_sgd(weights).push(torch.ones(2), rank=0, steps=1)
    assert weights.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(("decay", "moves"), [("none", [0.5, 0.5, 0.5]), ("linear", [0.5, 0.25, 0.125])])
def test_an_update_is_made_at_the_learning_rate_of_its_moment(decay, moves):
    shared = shared_with_sgd(torch.zeros(1), steps=400, learning_rate=0.5, learning_rate_decay=decay)
    made = []
    for steps in (200, 100, 100):
        before = shared.theta.item()
        shared.push(torch.ones(1), rank=0, steps=steps)
        made.append(before - shared.theta.item())
    assert made == pytest.approx(moves)


def test_workers_go_on_until_the_steps_are_done():
    shared = shared_with_sgd(torch.zeros(1), steps=400)
    assert shared.go_on()
    shared.start_at(399)
    assert shared.go_on()
    shared.start_at(400)
    assert not shared.go_on()


def test_workers_go_on_until_they_are_asked_to_stop():
    shared = shared_with_sgd(torch.zeros(1))
    shared.stop()
    assert not shared.go_on()


def push_often(shared, rank):
    """What the worker processes of the next test do."""
    torch.set_num_threads(1)
    weights = torch.zeros(1000)
    for _ in range(200):
        shared.pull(weights)
        shared.push(torch.ones(1000), rank=rank, steps=3)


@pytest.mark.parametrize("lock_free", [True, False])
def test_two_processes_push_without_losing_a_count(lock_free):
    recipe = toy.recipe(lock_free=lock_free, workers=2, steps=10**6)
    shared = Shared(recipe, torch.zeros(1000), _CONTEXT)
    workers = [_CONTEXT.Process(target=push_often, args=(shared, rank), daemon=True) for rank in range(2)]
    for process in workers:
        process.start()
    for process in workers:
        process.join(60.0)
    assert [process.exitcode for process in workers] == [0, 0]
    assert shared.steps == 2 * 200 * 3
    assert shared.push(torch.ones(1000), rank=0, steps=3) == 400
    np.testing.assert_array_less(shared.theta.detach(), 0.0)
    if not lock_free:  # without the lock an update may be overwritten: that is Hogwild's bargain
        assert shared.optimizers[0].state[shared.theta]["step"].item() == 401
        assert shared.theta.unique().numel() == 1
