"""A widened agent plays as it did, has room to learn, and can be trained on."""

from dataclasses import replace

import pytest
import torch

from a3c_core.agent import Agent
from a3c_core.checkpoint import RECIPE, SNAPSHOTS, CheckpointError, load_agent, save_agent, saved_in
from a3c_core.recipe import Recipe
from tests import toy
from training.log import read_log
from training.run import train
from training.widen import widen, widen_run

FRAMES = torch.randint(0, 256, (3, 2, 4, 84, 84), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
RESET = torch.tensor([[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]])


def grown_up(**changes):
    """An agent of Pong whose weights are all different, as after training."""
    recipe = Recipe(**{"env": "ALE/Pong-v5", "encoder": "a3c", "head_layers": (), "core_size": 8, **changes})
    agent = Agent.untrained(recipe)._replace(steps=700)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in agent.model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.02)
    return agent


@pytest.mark.parametrize("changes", [{}, {"layer_norm": True}, {"core": "lstm"}, {"head_layers": (16,)}])
@torch.no_grad()
def test_the_wider_network_has_the_same_policy_and_value(changes):
    agent = grown_up(**changes)
    wide = widen(agent)
    assert wide.steps == 700
    assert wide.recipe == replace(agent.recipe, encoder="a3c_wide")
    memory = tuple(torch.full((2, 8), 0.5) for _ in agent.model.initial_memory(2))
    (policy, value, _), (as_wide, value_as_wide, _) = (each.model(FRAMES, RESET, memory) for each in (agent, wide))
    assert policy.parameters().std(dim=(0, 1)).max() > 0.001
    torch.testing.assert_close(as_wide.parameters(), policy.parameters(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(value_as_wide, value, rtol=1e-4, atol=1e-4)


def test_twins_learn_different_things_and_what_nobody_reads_can_be_read():
    wide = widen(grown_up())
    policy, value, _ = wide.model(FRAMES, RESET, ())
    loss = policy.log_prob(torch.zeros(3, 2, dtype=torch.int64)).mean() + value.square().mean()
    layer = wide.model.encoder[5]
    (gradient,) = torch.autograd.grad(loss, [layer.weight])
    twins = layer.weight.detach().chunk(2)
    assert torch.equal(*twins)
    one, other = gradient.chunk(2)
    assert (one - other).norm() > 0.1 * one.norm()
    _, unread = twins[0].unflatten(1, (64, -1)).chunk(2, dim=1)
    assert not unread.any()
    assert gradient.unflatten(1, (64, -1))[:, 32:].abs().sum() > 0.1 * gradient.abs().sum()


@pytest.mark.parametrize("encoder", ["a3c_wide", "nature"])
def test_no_other_network_has_a_wider_one(encoder):
    with pytest.raises(ValueError, match=f"only the encoder a3c has a wider one, not {encoder}"):
        widen(grown_up(encoder=encoder))


def test_a_widened_run_keeps_its_past_and_goes_on(tmp_path):
    agent = grown_up(workers=1, envs_per_worker=2, n_steps=(5,), steps=1000)
    run, out = toy.run_of(tmp_path / "run", agent), tmp_path / "wide"
    save_agent(run / SNAPSHOTS / "5", agent._replace(steps=50))
    widen_run(run, out)
    (last,) = train(replace(load_agent(out).recipe, steps=701), out, resume=True, stop=lambda: True)
    assert last.seconds > 1800.0
    assert load_agent(out).recipe.encoder == "a3c_wide"
    assert load_agent(out).steps == 700
    assert load_agent(out / SNAPSHOTS / "7").recipe.encoder == "a3c"
    whole = saved_in(out).recipe
    assert (whole.encoder, whole.phase(1).encoder, whole.schedule[0].fresh_optimizer) == ("a3c", "a3c_wide", True)
    assert next(moment.steps for moment in read_log(out)) == 700


def test_no_run_is_overwritten(tmp_path):
    run = toy.run_of(tmp_path / "run", grown_up())
    before = (run / RECIPE).read_bytes()
    with pytest.raises(CheckpointError, match="holds a run already"):
        widen_run(run, run)
    assert (run / RECIPE).read_bytes() == before
