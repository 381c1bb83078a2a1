"""`evaluate`, `keep`, `publish` and `widen`: what is done with a trained agent."""

import dataclasses
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Annotated

import tyro
from tqdm import tqdm
from tyro.conf import Positional

import zoo
from a3c_core.agent import Agent
from a3c_core.envs import Protocol, is_atari, register_module
from a3c_core.evaluation import Score, evaluate
from training.commands.options import RUNS, Actions, Import
from training.keep import average_of, better_weights, keep, set_sampling_temperature
from training.schedule import command_of, saved_run
from training.widen import widen_run
from zoo.entry import write_entry
from zoo.program import program


def evaluate_command(
    agent: Positional[str],
    /,
    *,
    episodes: int = 100,
    first_seed: int = 0,
    protocol: Protocol = "classic",
    actions: zoo.Actions = "recorded",
    sampling_temperature: float | None = None,
    average: bool = False,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
    import_: Import = None,
) -> None:
    """Score an agent over many games, each with a seed that no training uses.

    Args:
        agent: an agent of the zoo, or a directory that training wrote.
        episodes: how many games.
        first_seed: seed of the first game; the others follow.
        protocol: rules for Atari games: classic, or sticky, which repeats the previous action with probability 0.25.
        actions: greedy, sampled from the policy, or recorded: as the agent's entry in the zoo says.
        sampling_temperature: sample at another temperature than its recipe's; below 1 makes likely actions likelier.
        average: score the averaged weights of a run that was trained with an average_decay.
        as_json: print JSON, with every game's return.
        import_: a module of your own to import first; it registers environments or encoders.
    """
    if import_:
        register_module(import_)
    if average:
        agent = str(average_of(Path(agent)))
    loaded, greedy = agent_to_score(agent, actions, sampling_temperature)
    with tqdm(total=episodes, unit=" games", disable=not sys.stderr.isatty()) as bar:
        score = evaluate(
            loaded,
            episodes,
            greedy=greedy,
            protocol=protocol,
            first_seed=first_seed,
            progress=lambda finished: bar.update(finished - bar.n),
        )
    if as_json:
        print(json.dumps(score_record(agent, score)))
    else:
        print(f"{agent}: {score.mean:.2f} ± {score.std:.2f} on {score.env} ({score.conditions})")


def agent_to_score(name: str, actions: zoo.Actions, sampling_temperature: float | None) -> tuple[Agent, bool]:
    """The agent of that name as it shall be scored, and whether its actions are greedy.

    Raises as `zoo.load` does, and ValueError for a temperature of greedy actions.
    """
    agent, greedy = zoo.load(name), zoo.is_greedy(name, actions)
    if sampling_temperature is None:
        return agent, greedy
    if greedy:
        raise ValueError("a sampling temperature changes nothing in greedy actions: add --actions sampled")
    return agent.at_temperature(sampling_temperature), greedy


def score_record(agent: str, score: Score) -> dict[str, object]:
    """A score as `evaluate --json` prints it."""
    return {
        "agent": agent,
        "env": score.env,
        "mean": score.mean,
        "std": score.std,
        "standard_error": score.standard_error,
        "median": score.median,
        "best": score.best,
        "protocol": score.protocol,
        "greedy": score.greedy,
        "temperature": score.temperature,
        "first_seed": score.first_seed,
        "episodes": len(score.returns),
        "steps": score.steps,
        "returns": list(score.returns),
    }


def keep_command(
    run: Positional[Path],
    /,
    *,
    name: str,
    summary: str | None = None,
    limits: str = "",
    command: str = "",
    episodes: int | None = None,
    actions: Actions = "greedy",
    sampling_temperature: float | None = None,
    average: bool = False,
    force: bool = False,
    import_: Import = None,
) -> None:
    """Score a run and add its agent to the zoo, if it beats the zoo's agent of that name.

    Args:
        run: a directory that training wrote.
        name: the agent's name in the zoo.
        summary: one line about the agent.
        limits: what the agent does badly, in a few sentences.
        command: the command that trained it; by default it is worked out from the run's recipe, or repeats its phases.
        episodes: how many games to score it over; by default 1000, for Atari 100 under each protocol.
        actions: score it with greedy actions or with actions sampled from the policy; its entry records which.
        sampling_temperature: change the run's recipe to this temperature first; choose it with `evaluate`, by games of
            other seeds than the score's.
        average: keep the run's averaged weights if they score better than its last ones.
        force: replace an agent that scores better.
        import_: a module of your own to import first; it registers environments or encoders.
    """
    if import_:
        register_module(import_)
    if sampling_temperature is not None:
        set_sampling_temperature(run, sampling_temperature)
    whole = saved_run(run).recipe
    if not command and "--schedule" in (command := command_of(name, whole)):
        command = f"python -m training repeat {name}"  # shorter than its phases
    episodes = episodes or (100 if is_atari(whole.env) else 1000)
    if average:
        run = better_weights(run, episodes, greedy=actions == "greedy")
    with tqdm(total=episodes, unit=" games", disable=not sys.stderr.isatty()) as bar:
        entry = keep(
            run,
            name,
            summary=summary,
            limits=limits,
            command=command,
            episodes=episodes,
            greedy=actions == "greedy",
            force=force,
            progress=lambda finished: bar.update(finished - bar.n),
        )
    print(f"{entry.name}: {entry.score.mean:.2f} ± {entry.score.std:.2f}, kept in {entry.directory}")


def publish_command(
    agent: Positional[str | None] = None,
    /,
    *,
    namespace: str | None = None,
    private: bool = False,
    dry_run: bool = False,
    all_: Annotated[bool, tyro.conf.arg(name="all")] = False,
    name: str | None = None,
    summary: str | None = None,
    actions: Actions = "greedy",
    episodes: int | None = None,
    import_: Import = None,
) -> None:
    """Check an agent's score by playing its games again, then publish it on the Hugging Face Hub.

    The repository holds weights, card, video and snapshots.

    Args:
        agent: an agent of the zoo, or a directory that training wrote.
        namespace: the user or organization to publish as; by default A3C_ZOO_NAMESPACE.
        private: make the repository private.
        dry_run: write the repository into runs/publish and upload nothing.
        all_: publish every agent of the zoo, and a collection of them.
        name: the name of an agent from a directory; by default the name of its environment's recipe. The repository
            is called a3c-ENVIRONMENT, or a3c-ENVIRONMENT-NAME for any other name.
        summary: one line about an agent from a directory.
        actions: play an agent from a directory with greedy actions or with actions sampled from the policy.
        episodes: how many games to play; by default all games of its recorded score, for a directory 100.
        import_: a module of your own to import first; it registers environments or encoders.
    """
    from training.publish import Publication, assemble, publish  # training needs no client of the Hub
    from zoo import hub

    if import_:
        register_module(import_)
    if all_ == (agent is not None):
        raise ValueError("name one agent or directory to publish, or --all")
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # the video is drawn into arrays
    namespace, known = hub.namespace_of(namespace), zoo.entries()
    repos = []
    for choice in known if all_ else [agent]:
        with tqdm(unit=" games", disable=not sys.stderr.isatty()) as bar:
            said = {"episodes": episodes, "progress": lambda finished, bar=bar: bar.update(finished - bar.n)}
            if choice in known:
                publication = Publication.of_entry(known[choice], **said)
            else:
                greedy = actions == "greedy"
                publication = Publication.of_run(Path(choice), name, summary=summary, greedy=greedy, **said)
        repos.append(hub.repository_of(publication.entry.name, publication.entry.recipe.env, namespace))
        if dry_run:
            folder = RUNS / "publish" / repos[-1].split("/")[1]
            shutil.rmtree(folder, ignore_errors=True)
            assemble(publication, repos[-1], folder)
            print(f"{folder} holds the files for {repos[-1]}; nothing was uploaded")
        else:
            published = publish(publication, repos[-1], private=private)
            if choice in known:
                write_entry(dataclasses.replace(known[choice], published=published))
            print(f"{repos[-1]} is published, commit {published.revision}")
    if all_ and not dry_run:
        print(f"collection {hub.collect(namespace, 'A3C Arcade', repos)}")


def widen_command(run: Positional[Path], /, *, out: Path) -> None:
    """Give an agent a network with twice the filters and units that plays exactly the same, to train it further.

    Args:
        run: a directory with an agent whose encoder is a3c.
        out: a directory for the widened agent, with the run's schedule, log and snapshots.
    """
    widen_run(run, out)
    print(f"{out} holds the agent, with a3c_wide\ntrain it:  {program('training')} train --resume {out} --steps STEPS")
