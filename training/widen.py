"""An agent that has outgrown its network goes on with a wider one that plays alike (Net2Net: Chen et al. 2016)."""

import shutil
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from a3c_core.agent import Agent
from a3c_core.checkpoint import RECIPE, SNAPSHOTS, CheckpointError, load_agent, save_agent
from training.log import LOG
from training.schedule import saved_run, with_phase


@torch.no_grad()
def widen(agent: Agent) -> Agent:
    """The agent with twice the filters and twice the units behind them: the same policy and value whatever it sees.

    New filters are fresh, and nothing that was trained reads them yet. Each unit of the fully connected layer gets a
    twin, so that the layer norm stays as it is, and who read the unit reads both, in random shares that sum to what the
    weight was: their gradients differ, and the twins grow apart.

    Raises ValueError unless the encoder is the paper's, a3c.
    """
    if agent.recipe.encoder != "a3c":
        raise ValueError(f"only the encoder a3c has a wider one, not {agent.recipe.encoder}")
    wide = Agent.untrained(replace(agent.recipe, encoder="a3c_wide"))._replace(steps=agent.steps)
    for old, new in zip(agent.model.encoder, wide.model.encoder, strict=True):
        if isinstance(old, nn.Conv2d):
            filters, channels, _, _ = old.weight.shape
            new.weight[:filters, :channels] = old.weight
            new.weight[:filters, channels:] = 0.0
            new.bias[:filters] = old.bias
        elif isinstance(old, nn.Linear):
            seen = old.weight.unflatten(1, (filters, -1))
            once = torch.cat([seen, torch.zeros_like(seen)], 1).flatten(1)
            new.weight.copy_(once.repeat(2, 1))
            new.bias.copy_(old.bias.repeat(2))
        elif isinstance(old, nn.LayerNorm):
            new.weight.copy_(old.weight.repeat(2))
            new.bias.copy_(old.bias.repeat(2))
    generator = torch.Generator().manual_seed(agent.recipe.seed)
    readers = [
        [*model.core.parameters(), *model.policy.parameters(), *model.value.parameters()]
        for model in (agent.model, wide.model)
    ]
    for old, new in zip(*readers, strict=True):
        if old.shape == new.shape:
            new.copy_(old)
        else:
            share = torch.rand(old.shape, generator=generator)
            new.copy_(torch.cat([share * old, (1.0 - share) * old], 1))
    return wide


def widen_run(run: Path, out: Path) -> None:
    """Writes the widened agent of a run to another directory, where its training can go on with a fresh optimizer.

    Raises CheckpointError where the run is broken or the directory taken, ValueError where there is no wider network.
    """
    if (out / RECIPE).exists():
        raise CheckpointError(f"{out} holds a run already: choose another directory.")
    wide, saved = widen(load_agent(run)), saved_run(run)
    later = saved.recipe.schedule[saved.phase :]
    whole = with_phase(saved.recipe, saved.steps, replace(wide.recipe, schedule=later), fresh_optimizer=True)
    out.mkdir(parents=True, exist_ok=True)
    if (run / LOG).exists():
        shutil.copyfile(run / LOG, out / LOG)
    if (run / SNAPSHOTS).exists():
        shutil.copytree(run / SNAPSHOTS, out / SNAPSHOTS, dirs_exist_ok=True)
    save_agent(out, wide, run=whole, phase=whole.phases_begun(saved.steps))
