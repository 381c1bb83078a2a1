"""The shared optimizers are the textbook ones, in memory that all processes see."""

import numpy as np
import pytest
import torch

from a3c_core.optim import SharedAdam, SharedRMSprop, build_optimizers
from a3c_core.shared import SharedParameters
from tests import toy
from training.local import CONTEXT

OPTIMIZERS = ["adam", "amsgrad", "rmsprop"]
START = torch.tensor([1.0, -2.0, 3.0])
GRADIENTS = torch.tensor([[0.1, -3.0, 0.0], [0.2, 2.0, 1e-4], [-5.0, 0.0, 1e-3], [0.1, 0.1, 0.1], [1.0, 2.0, 3.0]])


def after_each_step(optimizer, theta):
    """theta after each of the GRADIENTS."""
    path = []
    for gradient in GRADIENTS:
        theta.grad = gradient.clone()
        optimizer.step()
        path.append(theta.detach().clone())
    return torch.stack(path)


def parameter():
    return torch.nn.Parameter(START.clone().share_memory_())


@pytest.mark.parametrize("amsgrad", [False, True])
def test_shared_adam_is_torchs_adam(amsgrad):
    theta, reference = parameter(), parameter()
    ours = after_each_step(SharedAdam(theta, lr=0.1, betas=(0.9, 0.99), eps=1e-3, amsgrad=amsgrad), theta)
    torchs = torch.optim.Adam([reference], lr=0.1, betas=(0.9, 0.99), eps=1e-3, amsgrad=amsgrad, foreach=False)
    torch.testing.assert_close(ours, after_each_step(torchs, reference))


def test_amsgrad_makes_a_difference():
    theta, other = parameter(), parameter()
    plain = after_each_step(SharedAdam(theta, lr=0.1, betas=(0.9, 0.5), eps=1e-3), theta)
    amsgrad = after_each_step(SharedAdam(other, lr=0.1, betas=(0.9, 0.5), eps=1e-3, amsgrad=True), other)
    assert (plain - amsgrad).abs().max() > 1e-3


def test_shared_rmsprop_has_epsilon_inside_the_root():
    theta, alpha, epsilon, rate = parameter(), 0.9, 0.1, 0.05
    ours = after_each_step(SharedRMSprop(theta, lr=rate, alpha=alpha, eps=epsilon), theta)
    expected, g = START.double().numpy(), np.zeros(3)
    for step, gradient in enumerate(gradient.double().numpy() for gradient in GRADIENTS):
        g = alpha * g + (1 - alpha) * gradient**2
        expected = expected - rate * gradient / np.sqrt(g + epsilon)
        np.testing.assert_allclose(ours[step], expected, rtol=1e-5)


def test_shared_rmsprop_is_not_torchs():
    theta, reference = parameter(), parameter()
    ours = after_each_step(SharedRMSprop(theta, lr=0.05, alpha=0.9, eps=0.1), theta)
    torchs = after_each_step(torch.optim.RMSprop([reference], lr=0.05, alpha=0.9, eps=0.1), reference)
    assert (ours - torchs).abs().max() > 0.01


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_state_is_shared_before_the_first_step_and_after_it(name):
    theta = parameter()
    (optimizer,) = build_optimizers(theta, toy.recipe(optimizer=name))
    before = dict(optimizer.state[theta])
    after_each_step(optimizer, theta)
    assert all(tensor.is_shared() for tensor in before.values())
    assert {key: tensor.data_ptr() for key, tensor in optimizer.state[theta].items()} == {
        key: tensor.data_ptr() for key, tensor in before.items()
    }


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_recipes_numbers_reach_the_optimizer(name):
    recipe = toy.recipe(optimizer=name, learning_rate=0.3, adam_betas=(0.8, 0.7), rmsprop_alpha=0.6, epsilon=0.02)
    (optimizer,) = build_optimizers(parameter(), recipe)
    (group,) = optimizer.param_groups
    assert (group["lr"], group["eps"]) == (0.3, 0.02)
    expected = {"rmsprop": {"alpha": 0.6}}.get(name, {"betas": (0.8, 0.7), "amsgrad": name == "amsgrad"})
    assert {key: group[key] for key in expected} == expected


def push_all(shared):
    """What a worker process does in the next test."""
    torch.set_num_threads(1)
    for gradient in GRADIENTS:
        shared.push(gradient.clone(), rank=0, steps=10)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_updates_made_in_another_process_are_seen_here(name):
    recipe = toy.recipe(optimizer=name, learning_rate=0.1, learning_rate_decay="none")
    theta = parameter()
    (optimizer,) = build_optimizers(theta, recipe)
    expected = after_each_step(optimizer, theta)[-1]
    shared = SharedParameters(recipe, toy.Weights(START), CONTEXT)
    worker = CONTEXT.Process(target=push_all, args=(shared,), daemon=True)
    worker.start()
    worker.join(60.0)
    assert worker.exitcode == 0
    torch.testing.assert_close(shared.server.theta.detach(), expected)
    torch.testing.assert_close(shared.server.optimizers[0].state[shared.server.theta], optimizer.state[theta])
    assert shared.steps == 50


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_each_worker_has_its_own_statistics_where_they_are_not_shared(name):
    recipe = toy.recipe(optimizer=name, share_statistics=False, workers=3, learning_rate_decay="none")
    shared = SharedParameters(recipe, toy.Weights(START), CONTEXT)
    assert len(shared.server.optimizers) == 3
    for gradient in GRADIENTS:
        shared.push(gradient, rank=1, steps=1)
    states = [optimizer.state[shared.server.theta] for optimizer in shared.server.optimizers]
    assert [any(tensor.any() for tensor in state.values()) for state in states] == [False, True, False]
    before = shared.server.theta.detach().clone()
    shared.push(GRADIENTS[0], rank=2, steps=1)
    assert not torch.equal(shared.server.theta.detach(), before)
