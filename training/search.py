"""Successive halving over recipes (Jamieson and Talwalkar 2016; Li et al. 2018): which settings deserve long trainings.

A study is a JSON file. Every setting is trained with several seeds up to the first rung and scored on games of its own;
only the best share of the settings goes on to the next rung, from its checkpoints. A decision is made by the mean over
all seeds, since learning curves of two seeds can differ by a factor of two. Optuna's pruner decides trial by trial, one
seed each, and keeps no trainings to go on from; so this is code of its own.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from statistics import fmean, stdev
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, model_validator
from pydantic.dataclasses import dataclass

from a3c_core.checkpoint import RECIPE, CheckpointError, load_agent, steps_of
from a3c_core.envs import Protocol, is_atari
from a3c_core.evaluation import evaluate
from a3c_core.recipe import Recipe, mistakes
from training.defaults import recipe_for
from training.log import read_log
from training.recipes import RECIPES
from training.results import append_line, read_lines
from training.run import train

RESULTS = "results.jsonl"
SEARCH_SEED = 700_000_000
"""First of the games that compare settings: not those of training, of a published score, of
`training.evaluations.EVALUATION_SEED`, or of `training.keep.CHOOSING_SEED`."""

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$", max_length=50)]
Changes = Annotated[dict[str, Any], Field(max_length=64)]


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class Study:
    """What is compared, and how long each candidate may show what it can."""

    games: Annotated[tuple[str, ...], Field(min_length=1)]
    """Names of shipped recipes, or environments."""
    settings: Annotated[dict[Name, Changes], Field(min_length=1)]
    """Each setting's name, and the fields of the recipe that it changes."""
    seeds: Annotated[tuple[int, ...], Field(min_length=2)]
    """Seeds that each setting is trained with."""
    rungs: Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]
    """Steps after which the trainings are scored. The learning rate falls over the recipe's `steps` all the same."""
    base: Changes = Field(default_factory=dict)
    """Fields of the recipe that all settings share, in place of the game's."""
    kept: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Share of the settings that goes on from each rung, at least one."""
    one_for_all: bool = False
    """Keep the same settings for all games, by their mean rank; else each game keeps its own."""
    episodes: Annotated[int, Field(ge=1)] = 20
    """Games that each training is scored over, by each protocol."""
    protocols: Annotated[tuple[Protocol, ...], Field(min_length=1)] = ("classic",)
    """Rules of Atari's games; settings are compared by the mean over all of them."""
    actions: Literal["greedy", "sampled"] = "greedy"
    """How actions are chosen. Greedy games of a young agent may go on until the time limit; sampled ones seldom do."""

    @model_validator(mode="after")
    def _check(self) -> "Study":
        if any(later <= earlier for earlier, later in pairwise(self.rungs)):
            raise ValueError("each rung must have more steps than the one before")
        for what in (self.games, self.seeds, self.protocols):
            if len(set(what)) < len(what):
                raise ValueError("games, seeds and protocols must differ from each other")
        return self

    def recipe(self, game: str, setting: str, seed: int) -> Recipe:
        """The recipe of one training. Raises ValueError where the changes make none."""
        own = RECIPES[game] if game in RECIPES else recipe_for(game)
        recipe = changed(
            own, self.base | self.settings[setting] | {"seed": seed}, where=f"the setting {setting}, {game}"
        )
        if recipe.env != own.env or recipe.schedule:
            raise ValueError(f"the setting {setting}, {game}: a study changes neither the environment nor the schedule")
        if recipe.steps < self.rungs[-1]:
            raise ValueError(f"the setting {setting}, {game}: its {recipe.steps} steps end before the last rung")
        return recipe


def changed(recipe: Recipe, changes: Changes, *, where: str) -> Recipe:
    """The recipe with some fields changed, as JSON has them. Raises ValueError, which says where, if that is none."""
    try:
        return TypeAdapter(Recipe).validate_json(json.dumps(asdict(recipe) | changes), strict=True)
    except ValidationError as error:
        raise ValueError(f"{where}: {mistakes(error, 'file')}") from None


@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class Result:
    """What one training scored at one rung."""

    game: str
    setting: str
    seed: int
    rung: int
    """Steps at which it was to be scored."""
    steps: int
    """Steps that it had."""
    seconds: float
    """Seconds of training in all."""
    scores: dict[Protocol, float]
    """Mean return by protocol."""

    @property
    def key(self) -> "Job":
        return Job(self.game, self.setting, self.seed, self.rung)


class Job(NamedTuple):
    """One training up to one rung."""

    game: str
    setting: str
    seed: int
    rung: int

    def directory(self, out: Path) -> Path:
        """Where the training is, at every rung."""
        return out / self.game.replace("/", "-") / self.setting / f"seed{self.seed}"


def read_study(path: Path) -> Study:
    """The study in a file, all of whose recipes are sound. Raises ValueError, OSError."""
    try:
        study = TypeAdapter(Study).validate_json(path.read_bytes(), strict=True)
        for game in study.games:
            for setting in study.settings:
                for seed in study.seeds:
                    study.recipe(game, setting, seed)
    except ValidationError as error:
        raise ValueError(f"{path} is no study: {mistakes(error, 'file')}") from None
    except ValueError as error:
        raise ValueError(f"{path} is no study: {error}") from None
    return study


def read_results(out: Path) -> list[Result]:
    """The results so far. A line that a kill cut short is left out, and its training is scored again."""
    return read_lines(out / RESULTS, Result)


def jobs(study: Study, results: Sequence[Result]) -> list[Job]:
    """The trainings that the results so far ask for: all of the earliest rung that is not complete."""
    done = {result.key for result in results}
    going = {game: tuple(study.settings) for game in study.games}
    for number, rung in enumerate(study.rungs):
        due = [Job(game, each, seed, rung) for game in study.games for each in going[game] for seed in study.seeds]
        if missing := [job for job in due if job not in done]:
            return missing
        if number + 1 < len(study.rungs):
            here = [result for result in results if result.key in set(due)]
            going = survivors(study, going, here)
    return []


def survivors(study: Study, going: dict[str, tuple[str, ...]], results: Sequence[Result]) -> dict[str, tuple[str, ...]]:
    """The settings that go on from a rung, by game, the best first; equal ones in the order of the study."""
    ranked = {
        game: sorted(settings, key=lambda each, game=game: -mean_score(results, game, each))
        for game, settings in going.items()
    }
    if study.one_for_all:
        places = {each: fmean(order.index(each) for order in ranked.values()) for each in going[study.games[0]]}
        ranked = dict.fromkeys(study.games, sorted(places, key=places.__getitem__))
    return {game: tuple(order[: max(1, round(study.kept * len(order)))]) for game, order in ranked.items()}


def mean_score(results: Sequence[Result], game: str, setting: str) -> float:
    """Mean over the seeds and protocols."""
    return fmean(fmean(each.scores.values()) for each in results if (each.game, each.setting) == (game, setting))


def search(study: Study, out: Path, *, stop: Callable[[], bool]) -> Iterator[Result]:
    """Trains and scores what is not yet done, one training after the other; yields each new result.

    Ends early where `stop` says so: what was trained is kept, and the next call goes on. Raises as `train`.
    """
    while due := jobs(study, read_results(out)):
        for job in due:
            directory = job.directory(out)
            recipe = study.recipe(job.game, job.setting, job.seed)
            resume = (directory / RECIPE).exists()
            if resume and load_agent(directory).recipe != recipe:
                raise CheckpointError(f"{directory} was trained by another recipe: choose another directory (--out).")
            if not resume or steps_of(directory) < job.rung:
                with closing(train(recipe, directory, resume=resume, stop=stop, stop_at=job.rung)) as running:
                    for _ in running:
                        pass
            if stop():
                return
            result = _score(study, job, directory)
            append_line(out / RESULTS, result)
            yield result


def _score(study: Study, job: Job, directory: Path) -> Result:
    agent = load_agent(directory)
    protocols = study.protocols if is_atari(agent.recipe.env) else ("classic",)
    games = {"episodes": study.episodes, "greedy": study.actions == "greedy", "first_seed": SEARCH_SEED}
    scores = {each: evaluate(agent, **games, protocol=each).mean for each in protocols}
    log = read_log(directory)
    return Result(**job._asdict(), steps=agent.steps, seconds=log[-1].seconds if log else 0.0, scores=scores)


def report(study: Study, results: Sequence[Result]) -> str:
    """A table in Markdown: each setting of each game at each rung that it reached, the best of a rung first.

    The standard error is over the seeds; hours are those of all seeds together.
    """
    heads = ["game", "steps", "setting", *study.protocols, "seeds", "steps/s", "hours"]
    lines = [heads, ["---"] * len(heads)]
    for game in study.games:
        for rung in study.rungs:
            here = [result for result in results if (result.game, result.rung) == (game, rung)]
            for setting in sorted({each.setting for each in here}, key=lambda each: -mean_score(here, game, each)):
                group = [result for result in here if result.setting == setting]
                seconds = sum(result.seconds for result in group)
                rate = sum(result.steps for result in group) / max(seconds, 1e-9)
                scores = [_with_error([r.scores[p] for r in group if p in r.scores]) for p in study.protocols]
                last = [str(len(group)), f"{rate:,.0f}", f"{seconds / 3600:.2f}"]
                lines.append([game, f"{rung:,}", setting, *scores, *last])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def _with_error(means: Sequence[float]) -> str:
    if len(means) < 2:
        return f"{means[0]:.1f}" if means else ""
    return f"{fmean(means):.1f} ± {stdev(means) / len(means) ** 0.5:.1f}"


def plan(study: Study, *, steps_per_second: float) -> str:
    """What the whole study will do, and the hours that it takes at such a speed."""
    count, before, total, lines = len(study.settings), 0, 0, []
    for rung in study.rungs:
        trainings = count * len(study.games) * len(study.seeds)
        total += trainings * (rung - before)
        lines.append(f"to {rung:,} steps: {count} settings x {len(study.games)} games x {len(study.seeds)} seeds")
        count, before = max(1, round(study.kept * count)), rung
    hours = total / steps_per_second / 3600
    return "\n".join([*lines, f"{total:,} steps in all: {hours:.1f} hours at {steps_per_second:,.0f} steps/s"])
