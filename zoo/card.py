"""How an agent is presented, from its entry alone: table row, description and model card."""

from dataclasses import asdict

import yaml

from a3c_core.envs import is_atari
from a3c_core.evaluation import Score
from a3c_core.recipe import Recipe
from zoo.entry import ZooEntry


def points(number: float) -> str:
    """A score as it is shown: one decimal."""
    return f"{number:,.1f}"


def score_words(score: Score) -> str:
    """Mean, spread and conditions in a sentence."""
    told = f"{score.conditions}{f', {distinct_words(score)}' if score.distinct else ''}"
    return f"{mean_and_spread(score)}, median {points(score.median)}, best {points(score.best)} ({told})"


def distinct_words(score: Score) -> str:
    """How many of a score's games differ in their actions."""
    return f"{score.distinct} of them distinct" if score.distinct < len(score.returns) else "all distinct"


def seeds_words(entry: ZooEntry) -> str:
    """How the seeds of its scores relate to training."""
    if not is_atari(entry.recipe.env):
        return "Training never used these seeds."
    return (
        "Training never used these seeds. Under the classic protocol a seed only chooses how many no-ops, up to 30, "
        "begin a game, and games in training began in the same ways. An agent with greedy actions therefore repeats "
        "games."
    )


def hours_words(entry: ZooEntry) -> str:
    """How long the training took, and whether that leaves branches out."""
    branch = " on the branch that was kept, without abandoned branches" if entry.whole.schedule else ""
    return f"{duration(entry.hours)}{branch}"


def method_words(recipe: Recipe) -> str:
    """How an agent was trained: how many workers, and how they learn from each rollout."""
    steps = " or ".join(map(str, recipe.n_steps))
    games = f"{recipe.envs_per_worker} environment{'s' if recipe.envs_per_worker > 1 else ''}"
    who = (
        f"{recipe.workers} asynchronous workers, each with {games}"
        if recipe.workers > 1
        else f"one worker with {games}, which is advantage actor-critic (A2C)"
    )
    passes = f"{recipe.passes} passes" if recipe.passes > 1 else "one pass"
    clipped = f", clipped at a ratio of 1 ± {recipe.clip_ratio:g}" if recipe.clip_ratio else ""
    parts = f" in {recipe.minibatches} minibatches" if recipe.minibatches > 1 else ""
    corrected = ", corrected by V-trace" if recipe.vtrace else ""
    return f"{who}; {passes} over each rollout of {steps} steps{parts}{clipped}{corrected}"


def mean_and_spread(score: Score) -> str:
    """Mean and standard deviation of a score."""
    return f"{points(score.mean)} ± {points(score.std)}"


COLUMNS = {
    "Agent": lambda e: e.name,
    "Environment": lambda e: e.recipe.env,
    "Score": lambda e: mean_and_spread(e.score),
    "Sticky": lambda e: mean_and_spread(e.sticky_score) if e.sticky_score else "",
    "Conditions": lambda e: e.score.conditions,
    "Steps": lambda e: f"{e.score.steps:,}",
    "Trained in": lambda e: duration(e.hours),
    "Weights": lambda e: f"{e.parameters:,}",
}


def duration(hours: float) -> str:
    """Hours, minutes or seconds, whichever reads best."""
    if hours >= 1:
        return f"{hours:.1f} h"
    return f"{hours * 60:.0f} min" if hours * 60 >= 2 else f"{hours * 3600:.0f} s"


def rows(entries: dict[str, ZooEntry]) -> list[list[str]]:
    """The zoo's table, a row of strings per agent under COLUMNS."""
    return [[cell(entry) for cell in COLUMNS.values()] for entry in entries.values()]


def markdown_table(entries: dict[str, ZooEntry]) -> str:
    """The zoo's table as it stands in the README."""
    lines = [list(COLUMNS), ["---"] * len(COLUMNS), *rows(entries)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def text_table(entries: dict[str, ZooEntry]) -> str:
    """The zoo's table for a terminal."""
    return aligned([list(COLUMNS), *rows(entries)])


def aligned(lines: list[list[str]]) -> str:
    """Rows of cells as text in columns."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = ([cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines)
    return "\n".join("  ".join(line).rstrip() for line in padded)


def learning_words(entry: ZooEntry) -> str:
    """Its scores at the stages of its training, with sampled actions."""
    return ", ".join(f"{points(mean)} at {min(share, entry.done)} %" for share, mean in sorted(entry.learning.items()))


def phase_words(recipe: Recipe) -> list[str]:
    """A line for each phase of a schedule."""
    return [
        f"from step {phase.at:,}: {', '.join(f'{name}={value}' for name, value in phase.changes.items())}"
        f"{', fresh optimizer' if phase.begins_optimizer else ''}"
        for phase in recipe.schedule
    ]


def description(entry: ZooEntry) -> str:
    """A full description of one agent, for a terminal."""
    numbers = ", ".join(f"{name}={value}" for name, value in asdict(entry.recipe).items() if name != "schedule")
    return "\n".join(
        [
            f"{entry.name}: {entry.summary}",
            f"  environment  {entry.recipe.env}",
            *(f"  score        {score_words(score)}" for score in (entry.score, entry.sticky_score) if score),
            f"  trained      {entry.score.steps:,} steps in {hours_words(entry)}, on {entry.machine}",
            f"  method       {method_words(entry.recipe)}",
            *([f"  limits       {entry.limits}"] if entry.limits else []),
            *([f"  learning     {learning_words(entry)}"] if entry.learning else []),
            "  made by      " + entry.command.replace("\n", "\n" + 15 * " "),
            *(f"  phase        {words}" for words in phase_words(entry.whole)),
            f"  weights      {entry.parameters:,} in {entry.directory}, licence {entry.licence}",
            f"  recipe       {numbers}",
        ]
    )


ALGORITHM, LIBRARY = "A3C", "a3c-arcade"


def metadata(entry: ZooEntry) -> dict[str, object]:
    """The front matter of a model card, with the fields that other agents on the Hub have."""
    env = entry.recipe.env
    results = [
        {
            "task": {"type": "reinforcement-learning", "name": "reinforcement-learning"},
            "dataset": {"name": env, "type": env, "config": score.protocol},
            "metrics": [
                {
                    "type": "mean_reward",
                    "name": "mean_reward",
                    "value": f"{score.mean:.2f} +/- {score.std:.2f}",
                    "verified": False,
                }
            ],
        }
        for score in entry.scores
    ]
    return {
        "library_name": LIBRARY,
        "license": entry.licence.lower(),
        "pipeline_tag": "reinforcement-learning",
        "tags": [env, "deep-reinforcement-learning", "reinforcement-learning", "a3c", "gymnasium", LIBRARY],
        "model-index": [{"name": ALGORITHM, "results": results}],
    }


USAGE = """\
import zoo

agent = zoo.load("{name}")
env = agent.make_env()
obs, info = env.reset(seed=0)
action, memory = agent.act(obs{drawn})
obs, reward, terminated, truncated, info = env.step(action)"""


def usage(name: str, *, greedy: bool) -> str:
    """The lines of Python that load an agent, by its name or repository, and take a first step as it was scored."""
    return USAGE.format(name=name, drawn="" if greedy else ", greedy=False")


CARD = """\
# {title}

{summary}

| Conditions | Mean ± std | Median | Best | Standard error | Games | Distinct games |
| --- | --- | --- | --- | --- | --- | --- |
{scores}

{seeds} `results.json` holds the games, which were played again before publishing.

## Use it

Install A3C Arcade, or work in a checkout of it after `pip install -r requirements.txt`:

```python
{usage}
```

```sh
python -m zoo play {repo} --out episode.mp4    # one game as a video
python -m zoo verify {repo}                    # checks the hashes and replays the games of its scores
```

## How it was trained

```sh
{command}
```

{steps:,} steps of the agent on {machine}, with the asynchronous advantage actor-critic of
[Mnih et al. 2016](https://arxiv.org/abs/1602.01783): {method}.{clipping} `recipe.json` holds every number of the
final recipe; `log.jsonl` and the metrics tab hold its curves. Time: {duration}.{phases}{snapshots}{learning}

## Limits

{limits}The agent was trained in one environment with one seed. Another version of `{env}`, other preprocessing or other
rules change its score.

{parameters:,} weights as safetensors, no pickle; licence {licence}.
"""


CLIPPING = (
    " The clipped objective is that of [Schulman et al. 2017](https://arxiv.org/abs/1707.06347); "
    "the paper's A3C computes one gradient from each rollout and does not clip."
)


def model_card(entry: ZooEntry, repo: str) -> str:
    """The README.md of the agent's repository `repo` on the Hub: front matter and text."""
    env, snapshots = entry.recipe.env, [str(s) for s in entry.snapshots if 0 < s < 100]
    text = CARD.format(
        title=f"A3C playing {env}",
        summary=entry.summary,
        scores="\n".join(
            f"| {score.conditions} | {mean_and_spread(score)} | {points(score.median)} | {points(score.best)} "
            f"| {score.standard_error:.2g} | {len(score.returns)} "
            f"| {'not counted' if score.distinct is None else score.distinct} |"
            for score in entry.scores
        ),
        repo=repo,
        usage=usage(repo, greedy=entry.score.greedy),
        seeds=seeds_words(entry),
        command=f"python -m training repeat {repo}",
        phases=f" Its training had {len(entry.whole.schedule) + 1} phases; `config.json` holds every change, and "
        f"`--dry-run` prints them."
        if entry.whole.schedule
        else "",
        method=method_words(entry.recipe),
        clipping=CLIPPING if entry.recipe.clip_ratio else "",
        steps=entry.score.steps,
        duration=hours_words(entry),
        machine=entry.machine,
        snapshots=f" `snapshots/` holds the agent after {', '.join(snapshots)} % of its training." if snapshots else "",
        learning=f" Mean return of 20 games with sampled actions: {learning_words(entry)}." if entry.learning else "",
        limits=f"{entry.limits}\n\n" if entry.limits else "",
        env=env,
        parameters=entry.parameters,
        licence=entry.licence,
    )
    return f"---\n{yaml.safe_dump(metadata(entry), sort_keys=False, allow_unicode=True)}---\n\n{text}"
