"""Publishing an agent: its repository is written here as it will stand on the Hub, then uploaded in one commit."""

import dataclasses
import json
import shutil
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from a3c_core.agent import Agent
from a3c_core.checkpoint import CheckpointError, load_agent, write_record
from a3c_core.evaluation import Score
from playback.episode import play, render
from playback.video import write_mp4
from training.keep import entry_of_run, log_place
from training.log import LOG, read_log, rewind, write_events
from training.recipes import recipes_of
from training.schedule import command_of, saved_run
from zoo import hub
from zoo.card import model_card
from zoo.entry import CONFIG, Published, ZooEntry, hash_of
from zoo.verify import rescore

REPLAY, RESULTS, CARD = "replay.mp4", "results.json", "README.md"
"""The Hub shows the video and the card, and other programs read the results."""


class Publication(NamedTuple):
    """An agent with all that is to be told of it."""

    entry: ZooEntry
    agent: Agent
    source: Path
    """The directory with the agent's files and the log of its training."""
    scores: list[Score]
    """What it has just scored, by each protocol of its game."""

    @classmethod
    def of_entry(cls, entry: ZooEntry, *, episodes: int | None, progress: Callable[[int], None]) -> "Publication":
        """Of an agent of the zoo. Raises Contradiction where the score in its record does not hold.

        Raises CheckpointError where the log of its training is not here, which is published too.
        """
        if not (entry.directory / LOG).is_file():
            raise CheckpointError(
                f"{entry.directory} has no {LOG}, which tells how {entry.name} was trained: get the zoo again, or "
                "publish the directory that training wrote."
            )
        entry.check()
        agent = entry.open()
        scores = rescore(agent, entry.scores, episodes=episodes, progress=progress)
        return cls(entry, agent, entry.directory, scores)

    @classmethod
    def of_run(
        cls,
        run: Path,
        name: str | None = None,
        *,
        summary: str | None = None,
        greedy: bool = True,
        episodes: int | None = None,
        progress: Callable[[int], None] = lambda finished: None,
    ) -> "Publication":
        """Of a directory that training wrote. Raises CheckpointError where it is broken."""
        agent = load_agent(run)
        name = name or next(iter(recipes_of(agent.recipe.env)), None) or hub.short_name(agent.recipe.env)
        entry = entry_of_run(
            run,
            name,
            summary=summary,
            command=command_of(name, saved_run(run).recipe),
            episodes=100 if episodes is None else episodes,
            greedy=greedy,
            progress=progress,
        )
        return cls(entry, agent, run, entry.scores)


def assemble(publication: Publication, repo: str, folder: Path) -> None:
    """Writes into `folder` all that the repository `repo` (user/name) of an agent will hold.

    Raises OSError or CheckpointError where the disk refuses.
    """
    assemble_records(publication, repo, folder)
    assemble_replay(publication, repo, folder)


def assemble_records(publication: Publication, repo: str, folder: Path) -> None:
    """Writes all but the video."""
    entry, _, source, scores = publication
    for file in entry.sha256:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / file, folder / file)
    shutil.copyfile(log_place(source) / LOG, folder / LOG)
    rewind(folder, entry.score.steps)
    write_record(folder / CONFIG, dataclasses.asdict(dataclasses.replace(entry, published=None)))
    (folder / RESULTS).write_text(json.dumps(results(scores), indent=2) + "\n", encoding="utf-8")
    (folder / CARD).write_text(model_card(entry, repo), encoding="utf-8")
    write_events(folder, read_log(folder))


def assemble_replay(publication: Publication, repo: str, folder: Path) -> None:
    """Plays the first game of the score and writes it as a video."""
    entry, agent, *_ = publication
    episode = play(agent, entry.score.first_seed, greedy=entry.score.greedy)
    write_mp4(render(agent, episode), folder / REPLAY, title=repo, comment=episode.outcome)


def results(scores: list[Score]) -> dict[str, object]:
    """results.json: the names that stable-baselines3's have, and all that makes the score repeatable."""
    records = [
        {
            "mean_reward": score.mean,
            "std_reward": score.std,
            "is_deterministic": score.greedy,
            "n_eval_episodes": len(score.returns),
            "eval_datetime": datetime.now(UTC).isoformat(timespec="seconds"),
            "env_id": score.env,
            "protocol": score.protocol,
            "first_seed": score.first_seed,
            "returns": list(score.returns),
        }
        for score in scores
    ]
    return records[0] | {"other_protocols": records[1:]}


def publish(publication: Publication, repo: str, *, private: bool = False, token: str | None = None) -> Published:
    """Uploads an agent to the Hub; returns what to note in its record. Raises HubError: call it again."""
    entry = publication.entry
    message = f"{entry.name}: {entry.score.mean:.2f} ± {entry.score.std:.2f} on {entry.recipe.env}"
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        assemble(publication, repo, folder)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        sha256 = {path.relative_to(folder).as_posix(): hash_of(path) for path in files}
        revision = hub.publish(folder, repo, private=private, message=message, token=token)
    return Published(repo=repo, revision=revision, sha256=sha256)
