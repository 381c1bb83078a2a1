"""A worker hands over the gradient of each of its updates, whole and once."""

import math
import threading

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import vector_to_parameters

from a3c_core import shared as shared_module
from a3c_core import worker
from a3c_core.activity import SAMPLED, active_units
from a3c_core.devices import device_of, encoder_dtype
from a3c_core.envs import make_envs, spaces_of
from a3c_core.handover import HANDOVERS
from a3c_core.loss import a3c_loss
from a3c_core.model import build_model
from a3c_core.recipe import Phase, Recipe
from a3c_core.shared import SharedParameters
from a3c_core.worker import clip, flatten, gradient_of, work
from tests import toy
from training.local import CONTEXT
from training.run import train


def shared_with_sgd(weights, **changes):
    """A Shared whose optimizer steps by the gradient itself, so that theta's moves show what it received."""
    recipe = toy.recipe(**{"learning_rate": 1.0, "learning_rate_decay": "none"} | changes)
    shared = SharedParameters(recipe, toy.Weights(weights), CONTEXT)
    shared.server.optimizers = [torch.optim.SGD([shared.server.theta], lr=1.0)]
    return shared


@pytest.mark.parametrize("true", [[1.0, 1.0, 1.0, 1.0], [1.0, 2.0, 3.0, 4.0]])
def test_the_optimizer_receives_each_gradient_as_it_is(true):
    model = nn.Linear(1, 2, bias=False)
    shared = shared_with_sgd(torch.zeros(2))
    weights = flatten(model)
    received = []
    for slope in true:
        shared.pull(weights)
        before = shared.server.theta.detach().clone()
        shared.push(gradient_of(slope * model(torch.ones(1, 1)).sum(), model), rank=0, steps=1)
        received.append((before - shared.server.theta.detach()).tolist())
    assert received == [[slope, slope] for slope in true]


@pytest.mark.parametrize("core", ["none", "lstm"])
def test_every_update_of_the_loop_hands_over_the_gradient_of_its_own_rollout_at_the_newest_weights(core, monkeypatch):
    recipe = toy.recipe(core=core, steps=100, max_gradient_norm=None, learning_rate=0.1)
    spaces = toy.spaces(box=False)
    shared = SharedParameters(recipe, build_model(recipe, spaces), CONTEXT)
    batches, thetas, pushed, reports = [], [], [], []
    push = shared.push

    def keep_batch(model, batch, recipe):
        batches.append(batch)
        return a3c_loss(model, batch, recipe)

    def keep_gradient(gradient, **rest):
        thetas.append(shared.server.theta.detach().clone())
        pushed.append(gradient.clone())
        return push(gradient, **rest)

    monkeypatch.setattr(worker, "a3c_loss", keep_batch)
    monkeypatch.setattr(shared, "push", keep_gradient)
    work(0, recipe, spaces, shared, reports.append, toy.make_cue)

    reference = build_model(recipe, spaces)
    assert len(pushed) == len(reports) == 5
    for batch, theta, gradient, report in zip(batches, thetas, pushed, reports, strict=True):
        vector_to_parameters(theta, reference.parameters())
        reference.zero_grad(set_to_none=True)
        a3c_loss(reference, batch, recipe).total.backward()
        expected = torch.cat([parameter.grad.flatten() for parameter in reference.parameters()])
        torch.testing.assert_close(gradient, expected)
        assert report.gradient_norm == pytest.approx(expected.norm().item(), rel=1e-5)
    assert not torch.equal(thetas[0], thetas[-1])


def test_the_loop_reports_every_episode_and_ends_with_the_runs_steps():
    recipe = toy.recipe(steps=100)
    spaces, reports = toy.spaces(box=True), []
    shared = SharedParameters(recipe, build_model(recipe, spaces), CONTEXT)
    work(0, recipe, spaces, shared, reports.append, lambda recipe, count: toy.Cue(count, box=True, memory=False))
    assert shared.steps == 100
    assert sum(len(report.returns) for report in reports) == 24  # 4 environments of 25 steps, 4 to an episode
    assert {report.rank for report in reports} == {0}
    assert [report.staleness for report in reports] == [0] * 5
    assert all(math.isfinite(number) for report in reports for number in report[2:-1])


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
    assert shared.pull([weights]) == 0
    shared.push(torch.tensor([1.0, 1.0]), rank=0, steps=1)
    assert weights.tolist() == [1.0, 2.0]
    assert shared.pull([weights]) == 1
    assert weights.tolist() == [0.0, 1.0]


def test_push_counts_steps_and_tells_how_many_updates_came_before():
    shared = shared_with_sgd(torch.zeros(2))
    assert [shared.push(torch.ones(2), rank=rank, steps=20) for rank in (0, 1, 0)] == [0, 1, 2]
    assert shared.steps == 60


def test_an_update_that_is_made_during_a_pull_counts_as_unseen():
    shared = shared_with_sgd(torch.zeros(2))

    class Part(list):
        def copy_(self, new):
            shared.push(torch.ones(2), rank=1, steps=1)

    seen = shared.pull([Part([0.0, 0.0])])
    assert (seen, shared.push(torch.ones(2), rank=0, steps=1) - seen) == (0, 1)


def test_the_queued_kernels_of_a_gpu_have_ended_before_the_lock_is_released(monkeypatch):
    shared = SharedParameters(toy.recipe(handover="lock"), toy.Weights(torch.zeros(2)), CONTEXT)
    waited = []
    monkeypatch.setattr(
        shared_module, "wait_for_kernels", lambda device: waited.append(shared._lock.acquire(block=False))
    )
    weights = torch.zeros(2)
    shared.push(torch.ones(2), rank=0, steps=1)
    shared.pull([weights])
    assert waited == [False, False]  # the lock was held


@pytest.mark.parametrize("rank", [0, 1])
def test_no_worker_writes_while_a_checkpoint_is_read(rank):
    shared = shared_with_sgd(torch.zeros(2), workers=2)
    pushing = threading.Thread(target=shared.push, args=(torch.ones(2),), kwargs={"rank": rank, "steps": 5})
    with shared.paused():
        pushing.start()
        pushing.join(0.2)
        assert (shared.steps, shared.server.theta.tolist()) == (0, [0.0, 0.0])
    pushing.join(60.0)
    assert (shared.steps, shared.server.theta.tolist()) == (5, [-1.0, -1.0])


def test_the_weights_handed_to_shared_are_copied():
    weights = torch.zeros(2)
    shared_with_sgd(weights).push(torch.ones(2), rank=0, steps=1)
    assert weights.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(("decay", "moves"), [("none", [0.5, 0.5, 0.5]), ("linear", [0.5, 0.25, 0.125])])
def test_an_update_is_made_at_the_learning_rate_of_its_moment(decay, moves):
    shared = shared_with_sgd(torch.zeros(1), steps=400, learning_rate=0.5, learning_rate_decay=decay)
    made = []
    for steps in (200, 100, 100):
        before = shared.server.theta.item()
        shared.push(torch.ones(1), rank=0, steps=steps)
        made.append(before - shared.server.theta.item())
    assert made == pytest.approx(moves)


def test_workers_go_on_until_the_steps_are_done():
    shared = shared_with_sgd(torch.zeros(1), steps=400)
    assert shared.should_continue()
    shared.start_at(399)
    assert shared.should_continue()
    shared.start_at(400)
    assert not shared.should_continue()


def test_workers_go_on_until_they_are_asked_to_stop():
    shared = shared_with_sgd(torch.zeros(1))
    shared.stop()
    assert not shared.should_continue()


def push_often(shared, rank):
    """What the worker processes of the next test do."""
    torch.set_num_threads(1)
    weights = torch.zeros(1000)
    for _ in range(200):
        shared.pull([weights])
        shared.push(torch.ones(1000), rank=rank, steps=3)


GPU = pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device"))


@pytest.mark.parametrize("device", ["cpu", GPU])
@pytest.mark.parametrize("handover", HANDOVERS)
def test_two_processes_push_without_losing_a_count(handover, device):
    recipe = toy.recipe(handover=handover, workers=2, steps=10**6, shared_device=device)
    shared = HANDOVERS[handover](recipe, toy.Weights(torch.zeros(1000)), CONTEXT)
    shared.begin()
    workers = [CONTEXT.Process(target=push_often, args=(shared, rank), daemon=True) for rank in range(2)]
    for process in workers:
        process.start()
    for process in workers:
        process.join(60.0)
    shared.finish()
    assert [process.exitcode for process in workers] == [0, 0]
    assert shared.steps == 2 * 200 * 3
    updates = 200 if handover == "synchronous" else 400
    assert shared.pull([torch.zeros(1000)]) == updates
    np.testing.assert_array_less(shared.server.theta.detach().cpu(), 0.0)
    if handover != "lock-free":  # without the lock an update may be overwritten: that is Hogwild's bargain
        assert shared.server.optimizers[0].state[shared.server.theta]["step"].item() == updates
        assert shared.server.theta.unique().numel() == 1


PONG = Recipe(
    env="ALE/Pong-v5",
    encoder="a3c",
    pixel_shift=-87.0,
    head_layers=(),
    envs_per_worker=2,
    n_steps=(5,),
    steps=20,
    workers=1,
    precision="bfloat16",
)


def mixed():
    """A small model whose first layer is bfloat16, with weights that have no exact bfloat16."""
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2), nn.Linear(2, 1))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.linspace(0.1, 0.9, parameter.numel()).view_as(parameter))
    model[0].to(torch.bfloat16)
    return model


@pytest.mark.parametrize("make", [lambda: build_model(toy.recipe(core="lstm"), toy.spaces(box=True)), mixed])
def test_flattening_keeps_the_weights_and_makes_them_views_in_the_order_of_the_shared_ones(make):
    model, same = make(), make()
    same.load_state_dict(model.state_dict())
    vectors = flatten(model)
    assert torch.equal(
        torch.cat([vector.float() for vector in vectors]),
        torch.cat([parameter.detach().flatten().float() for parameter in same.parameters()]),
    )
    for vector in vectors:
        vector += 1.0
    for parameter, before in zip(model.parameters(), same.parameters(), strict=True):
        assert torch.equal(parameter, before + 1.0)


def test_one_type_of_weights_is_one_vector_and_several_are_several():
    assert [(len(vector), vector.dtype) for vector in flatten(nn.Linear(3, 4))] == [(16, torch.float32)]
    assert [(len(vector), vector.dtype) for vector in flatten(mixed())] == [(16, torch.bfloat16), (13, torch.float32)]


def test_pulled_weights_become_what_the_model_computes_with():
    model = mixed()
    theta = torch.linspace(-1.0, 1.0, 29)
    shared_with_sgd(theta).pull(flatten(model))
    weights = [parameter.detach().flatten() for parameter in model.parameters()]
    assert torch.equal(torch.cat(weights[:2]), theta[:16].bfloat16())
    assert torch.equal(torch.cat(weights[2:]), theta[16:])


def test_weights_that_do_not_fill_the_model_are_refused():
    with pytest.raises((RuntimeError, ValueError)):
        shared_with_sgd(torch.zeros(30)).pull(flatten(mixed()))


def test_the_gradient_of_mixed_types_is_one_float32_vector():
    model, inputs = mixed(), torch.tensor([[0.5, -1.0, 2.0]])
    gradient = gradient_of(model[1:](model[0](inputs.bfloat16()).float()).sum(), model)
    exact = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2), nn.Linear(2, 1))
    exact.load_state_dict({name: tensor.float() for name, tensor in model.state_dict().items()})
    assert (gradient.dtype, len(gradient)) == (torch.float32, 29)
    torch.testing.assert_close(gradient, gradient_of(exact(inputs).sum(), exact), rtol=0.05, atol=0.01)


@torch.no_grad()
def test_a_dead_unit_is_told_from_a_live_one():
    model = build_model(PONG, spaces_of(PONG))
    first, _, second, _, _, last, _ = model.encoder
    first.bias.fill_(100.0)
    second.bias.fill_(1e4)
    last.bias.fill_(1e6)
    first.bias[3] = -1e3
    second.bias[[0, 31]] = -1e6
    last.bias[200] = -1e9
    frames = torch.randint(256, (2, 3, 4, 84, 84), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    with active_units(model) as active:
        model(frames, torch.zeros(2, 3), ())
    assert [np.flatnonzero(~units).tolist() for units in active] == [[3], [0, 31], [200]]
    assert [(len(units), units.dtype) for units in active] == [(16, bool), (32, bool), (256, bool)]


def test_a_unit_is_alive_if_any_sampled_input_and_any_place_activates_it():
    seen = nn.Sequential(nn.ReLU())
    dense, picture = -torch.ones(SAMPLED + 1, 3), -torch.ones(SAMPLED + 1, 2, 3, 3)
    dense[SAMPLED, 1], dense[:, 2], picture[SAMPLED, 0, 2, 1] = 2.0, 0.0, 0.5
    for inputs, expected in ((dense, [False, True, False]), (picture, [True, False])):
        with active_units(seen) as active:
            seen(inputs)
        assert [units.tolist() for units in active] == [expected]


def test_activity_is_watched_only_while_it_is_open():
    model = nn.Sequential(nn.ReLU())
    with active_units(model) as active:
        model(torch.ones(1, 2))
    model(torch.ones(1, 2))
    assert len(active) == 1


def test_a_model_without_relus_has_no_activity():
    model = build_model(toy.recipe(), toy.spaces(box=False))
    with active_units(model) as active:
        model(torch.ones(1, 1, 2), torch.zeros(1, 1), ())
    assert active == []


def test_networks_are_on_the_cpu_where_the_recipe_says_nothing():
    assert device_of("cpu", 3) == torch.device("cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
@pytest.mark.parametrize("place", ["device", "shared_device"])
def test_a_gpu_that_is_not_there_is_missed_in_words(place, tmp_path):
    with pytest.raises(ValueError, match="no CUDA device here: train with --device cpu"):
        next(train(toy.recipe(**{place: "cuda"}), tmp_path / "run"))
    with pytest.raises(ValueError, match="no CUDA device here: train with --device cpu"):
        next(train(toy.recipe(schedule=(Phase(at=50, changes={place: "cuda"}),)), tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("precision", "has_it", "expected"),
    [
        ("bfloat16", True, torch.bfloat16),
        ("bfloat16", False, torch.float32),
        ("float32", True, torch.float32),
        ("float32", False, torch.float32),
    ],
)
def test_bfloat16_is_used_where_the_recipe_asks_for_it_and_the_processor_has_it(
    precision, has_it, expected, monkeypatch
):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: has_it)
    assert encoder_dtype(Recipe(precision=precision)) == expected


@pytest.mark.parametrize("has_bfloat16", [True, False])
def test_a_worker_learns_pong_in_whatever_numbers_the_processor_has(has_bfloat16, monkeypatch):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: has_bfloat16)
    spaces, reports = spaces_of(PONG), []
    shared = SharedParameters(PONG, build_model(PONG, spaces), CONTEXT)
    start = shared.server.theta.detach().clone()
    work(0, PONG, spaces, shared, reports.append, make_envs)
    assert shared.steps == 20
    assert [(report.rank, report.returns, report.staleness) for report in reports] == [(0, [], 0)] * 2
    for report in reports:
        assert all(math.isfinite(number) for number in report[2:-1])
        assert report.entropy == pytest.approx(math.log(6), abs=0.05)
        assert report.gradient_norm > 0.0
        assert [units.shape for units in report.active] == [(16,), (32,), (256,)]
        assert all(units.mean() > 0.2 for units in report.active)
    moved = shared.server.theta.detach() - start
    assert moved.dtype == torch.float32
    assert moved.isfinite().all()
    assert moved.ne(0).float().mean() > 0.2
