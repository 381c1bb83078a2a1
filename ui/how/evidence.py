"""The figures, tables and numbers of the page How it works, worked out from records, logs and the zoo."""

import math
from collections.abc import Callable, Sequence
from functools import cache

import torch

import zoo
from a3c_core.agent import Agent
from a3c_core.loss import advantages
from a3c_core.recipe import Recipe
from training.log import Progress, read_log
from ui.asynchrony.figures import measured
from ui.figures import Goal, curve, number
from ui.how.records import RecordedGame, Training, records
from ui.how.timeline import timeline
from ui.status import duration

STEPS_PER_SECOND = 15
"""Of Pong: an action holds for four of 60 frames a second."""


def recipe() -> Recipe:
    """How the zoo's Pong agent was made."""
    return zoo.entries()["pong"].recipe


def estimates(game: RecordedGame, gae_lambda: float) -> list[float]:
    """The advantages of a game's steps, but for the last, by the learner's own function."""
    rewards, values = torch.tensor(game.rewards[:-1])[:, None], torch.tensor(game.values)[:, None]
    discounts = torch.full_like(rewards, recipe().gamma)
    return advantages(rewards, values, discounts, gae_lambda=gae_lambda)[:, 0].tolist()


def returns(game: RecordedGame) -> list[float]:
    """The discounted return from each step on; past the end of the record stands the last value."""
    return [a + value for a, value in zip(estimates(game, 1.0), game.values, strict=False)]


def points(game: RecordedGame) -> list[int]:
    """The steps that won or lost a point."""
    return [step for step, reward in enumerate(game.rewards) if reward]


def game_curves() -> str:
    """What the trained agent was given, what that came to, and what it had expected."""
    game = records().trained
    lines = {
        "Reward": game.rewards[:-1],
        "Return: the discounted sum of what followed": returns(game),
        "Value: what the network expected": game.values[:-1],
    }
    ends = ("0", f"{len(game.values) / STEPS_PER_SECOND:.0f} seconds")
    return "".join(
        curve(range(len(line)), line, label=label, game="ALE/Pong-v5", ends=ends) for label, line in lines.items()
    )


def lost_points() -> tuple[int, int]:
    """The lost points of the young agent's game that it expected most and least."""
    game = records().young
    lost = sorted((step for step in points(game) if game.rewards[step] < 0), key=lambda step: game.values[step])
    return lost[0], lost[-1]


def surprise(step: int, words: str) -> str:
    """The steps around a lost point: reward, value, one-step surprise and advantage, as a table."""
    game, gamma = records().young, recipe().gamma
    advantage = estimates(game, recipe().gae_lambda)
    rows = []
    for t in range(step - 5, step + 2):
        delta = game.rewards[t] + gamma * game.values[t + 1] - game.values[t]
        numbers = [signed(x) for x in (game.values[t], delta, advantage[t])]
        rows.append((str(t), number(game.rewards[t]), *numbers))
    head = ("step", "<i>r</i>", "<i>V</i>", "<i>δ</i>", "<i>A</i>")
    return table(head, rows, words, marked=5)


def foreseen() -> str:
    return surprise(lost_points()[0], "A point lost as expected")


def unforeseen() -> str:
    return surprise(lost_points()[1], "A point lost by surprise")


def example() -> str:
    """One advantage of the second table, put together from its parts."""
    game, step = records().young, lost_points()[1] - 1
    advantage, decay = estimates(game, recipe().gae_lambda), recipe().gamma * recipe().gae_lambda
    delta = advantage[step] - decay * advantage[step + 1]
    sum_of = f"{signed(delta)} + {decay:.2f} × ({signed(advantage[step + 1])}) = {signed(advantage[step])}"
    return f"<i>A</i><sub>{step}</sub> = {sum_of}"


def networks() -> str:
    """The weights in each part of two agents' networks."""
    agents = [Agent.untrained(zoo.entries()[name].recipe) for name in ("cartpole", "pong")]
    parts = {"encoder": "Encoder", "core": "Core", "policy": "Policy head", "value": "Value head"}
    counts = [{part: weights_of(getattr(agent.model, part)) for part in parts} for agent in agents]
    rows = [(words, *(f"{count[part]:,}" for count in counts)) for part, words in parts.items()]
    rows.append(("Together", *(f"{sum(count.values()):,}" for count in counts)))
    return table(("Part", "CartPole", "Pong"), rows, "Weights of the zoo's agents")


def weights_of(module: torch.nn.Module) -> int:
    """How many numbers a part of a network has learnt."""
    return sum(parameter.numel() for parameter in module.parameters())


def trace() -> str:
    """The timeline of two workers."""
    return timeline(records().trace)


def staleness() -> str:
    """How stale gradients are with few workers and with more."""
    counts = records().staleness
    most = 6
    names = [*map(str, range(most)), f"{most} or more"]
    rows = []
    for place, name in enumerate(names):
        shares = []
        for found in counts.values():
            here = sum(n for stale, n in found.items() if (stale if stale < most else most) == place)
            shares.append(f"{100 * here / sum(found.values()):.0f} %")
        rows.append((name, *shares))
    rows.append(("Mean", *(f"{mean_staleness(found):.2f}" for found in counts.values())))
    return table(("Staleness", *(f"{n} workers" for n in counts)), rows, "Share of the updates, CartPole, two cores")


def mean_staleness(found: dict[int, int]) -> float:
    """The mean of what was counted."""
    return sum(stale * n for stale, n in found.items()) / sum(found.values())


def training_curves(of: Callable[[Training], list[float]], label: str, goal: Goal) -> str:
    """One line for the recipe's run and one for that whose rate is too high; the goal gives both the same axis."""
    names = ("the recipe", "ten times its learning rate")
    return "".join(
        curve(
            run.steps,
            of(run),
            label=f"{label}, {name}",
            game="CartPole-v1",
            ends=("0", f"{run.steps[-1]:,} steps"),
            goal=goal,
        )
        for name, run in zip(names, records().trainings, strict=True)
    )


def return_curves() -> str:
    return training_curves(lambda run: run.returns, "Mean return", Goal(500.0, "the maximum"))


def entropy_curves() -> str:
    return training_curves(lambda run: run.entropy, "Entropy", Goal(math.log(2), "both actions equally likely"))


@cache
def pong_log() -> list[Progress]:
    """The moments of the run that made the zoo's Pong agent in which something was learnt."""
    return [moment for moment in read_log(zoo.entries()["pong"].directory) if moment.updates and moment.active]


def diagnostics() -> str:
    """What the run that made the zoo's Pong agent told besides the score."""
    log = pong_log()
    lines: dict[str, Sequence[float]] = {
        "Mean return of the last 100 games": [m.mean_return or -21.0 for m in log],
        "Explained variance of the value (below 0 drawn as 0)": [max(0.0, m.explained_variance or 0.0) for m in log],
        "Entropy of the policy, in nats": [m.entropy or 0.0 for m in log],
        "Share of active units, least active layer": [min(m.active or (0.0,)) for m in log],
    }
    steps, ends = [m.steps for m in log], ("0", f"{log[-1].steps:,} steps")
    return "".join(curve(steps, line, label=label, game="ALE/Pong-v5", ends=ends) for label, line in lines.items())


def frames() -> str:
    """One observation: four pictures, oldest first."""
    pictures = "".join(
        f'<img src="data:image/png;base64,{picture.png}" width="84" height="84" alt="Pong, step {picture.step}">'
        for picture in records().frames
    )
    words = "One observation of Pong, oldest picture first"
    return f'<figure class="frames">{pictures}<figcaption>{words}</figcaption></figure>'


def numbers() -> dict[str, str]:
    """The numbers in the text."""
    pong, cartpole = zoo.entries()["pong"], zoo.entries()["cartpole"]
    half = math.log(0.5) / math.log(pong.recipe.gamma)
    blame = pong.recipe.gamma * pong.recipe.gae_lambda
    learnt = [m.staleness for m in pong_log() if m.staleness is not None]
    return {
        "gamma": f"{pong.recipe.gamma:g}",
        "half_steps": f"{half:.0f}",
        "half_seconds": f"{half / STEPS_PER_SECOND:.1f}",
        "points": str(len(points(records().trained))),
        "blame": f"{blame:.2f}",
        "blame_half": f"{math.log(0.5) / math.log(blame):.0f}",
        "value_cost": f"{pong.recipe.value_cost:g}",
        "entropy_cost": f"{pong.recipe.entropy_cost:g}",
        "entropy_cost_cartpole": f"{cartpole.recipe.entropy_cost:g}",
        "n_steps": str(pong.recipe.n_steps[0]),
        "envs": str(pong.recipe.envs_per_worker),
        "pong_staleness": f"{sum(learnt) / len(learnt):.2f}",
        "example": example(),
        "updates": str(len(records().trace)),
        "milliseconds": f"{max(update.done for update in records().trace):,.0f}",
        "pong_time": duration(pong.hours * 3600),
        "cartpole_time": duration(cartpole.hours * 3600),
        "pong_weights": f"{pong.parameters:,}",
        "cartpole_weights": f"{cartpole.parameters:,}",
        "pong_steps": f"{pong.score.steps:,}",
    }


FIGURES: dict[str, Callable[[], str]] = {
    figure.__name__: figure
    for figure in (
        game_curves,
        networks,
        foreseen,
        unforeseen,
        trace,
        staleness,
        return_curves,
        entropy_curves,
        measured,
        diagnostics,
        frames,
    )
}
"""By the names that the text has for them."""


def table(head: Sequence[str], rows: Sequence[Sequence[str]], words: str, *, marked: int = -1) -> str:
    """A table of numbers; the first column names the row. The marked row stands out."""
    cells = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    body = "".join(
        f"<tr{' class=marked' if i == marked else ''}><th scope=row>{row[0]}</th>"
        + "".join(f"<td>{cell}</td>" for cell in row[1:])
        + "</tr>"
        for i, row in enumerate(rows)
    )
    return (
        f'<div class="table"><table><caption>{words}</caption><thead><tr>{cells}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def signed(value: float) -> str:
    """A number with two decimals, and with a true minus sign."""
    return f"{value:.2f}".replace("-0.00", "0.00").replace("-", "−")
