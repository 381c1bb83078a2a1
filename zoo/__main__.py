"""List, play, verify and download agents; deploy the page as a Space or as static files, record games for it."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, get_args

import tyro
from tqdm import tqdm
from tyro.conf import Positional

import zoo
from a3c_core.checkpoint import load_agent, write_atomically
from a3c_core.envs import Protocol, register_module
from playback.episode import play, render
from playback.video import write_mp4
from zoo.card import aligned, description, markdown_table, mean_and_spread, text_table
from zoo.entry import CONFIG
from zoo.loading import agent_files, unknown
from zoo.program import program
from zoo.verify import rescore

SITE = Path("site")
"""Where a static arcade is written, and taken from."""


def list_(
    *,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
    markdown: bool = False,
    on_hub: Annotated[bool, tyro.conf.arg(name="hub")] = False,
    namespace: str | None = None,
) -> None:
    """List the agents of the zoo with their scores.

    Args:
        as_json: print every record in full, as JSON.
        markdown: print the table of the README.
        on_hub: list what a user has published on the Hugging Face Hub instead.
        namespace: that user or organization; by default A3C_ZOO_NAMESPACE.
    """
    if on_hub:
        from zoo import hub

        found = hub.listing(hub.namespace_of(namespace))
        if as_json:
            print(json.dumps([agent._asdict() for agent in found], indent=2))
        else:
            print(aligned([list(hub.Listed._fields), *(list(map(str, agent)) for agent in found)]))
        return
    entries = zoo.entries()
    if as_json:
        print(json.dumps({name: asdict(entry) for name, entry in entries.items()}, indent=2))
    else:
        print(markdown_table(entries) if markdown else text_table(entries))
    for error in zoo.broken_entries().values():
        print(f"left out: {error}", file=sys.stderr)


def info(name: Positional[str], /) -> None:
    """Describe one agent in full.

    Args:
        name: an agent of the zoo.
    """
    print(description(zoo.entry_of(name)))


def play_(
    name: Positional[str],
    /,
    *,
    seed: int = 0,
    out: Path = Path("episode.mp4"),
    protocol: Protocol = "classic",
    snapshot: int = 100,
    actions: zoo.Actions = "recorded",
    import_: Annotated[str | None, tyro.conf.arg(name="import")] = None,
) -> None:
    """Play one game and save it as a video (H.264; score and seed are in the file's metadata).

    Args:
        name: an agent of the zoo, or a directory that training wrote.
        seed: the game's seed; the same seed gives the same game.
        out: the video to write.
        protocol: rules for Atari games: classic, or sticky, which repeats the previous action with probability 0.25.
        snapshot: play with the agent as it was after this percentage of its training.
        actions: greedy, sampled from the policy, or recorded: as the agent's entry in the zoo says.
        import_: a module of your own to import first; it registers environments or encoders.
    """
    if import_:
        register_module(import_)
    if out.suffix != ".mp4" or not out.parent.is_dir():
        raise ValueError(f"cannot write {out}: name a file that ends in .mp4, in a directory that exists")
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # drawn into an array, not in a window
    agent = zoo.load(name, snapshot)
    episode = play(agent, seed, greedy=zoo.is_greedy(name, actions), protocol=protocol)
    write_mp4(render(agent, episode), out, title=f"A3C Arcade: {Path(name).name}", comment=episode.outcome)
    print(f"{out}: seed {seed}, {len(episode.actions)} steps, return {episode.total:g}")


def verify(
    name: Positional[str | None] = None,
    /,
    *,
    all_: Annotated[bool, tyro.conf.arg(name="all")] = False,
    episodes: int | None = None,
) -> None:
    """Check an agent's files against their hashes, and play the games of its score again.

    Args:
        name: an agent of the zoo, or a repository user/name on the Hugging Face Hub.
        all_: check every agent of the zoo.
        episodes: how many of the games to play; by default all.
    """
    for choice in chosen(name, all_):
        agent, entry = zoo.load(choice), zoo.find(choice)
        if entry is None:
            raise ValueError(f"{choice} has no record to check: score it with {program('training')} evaluate {choice}")
        if choice in zoo.entries():
            entry.check()
        else:
            agent_files(zoo.repository(choice))
        with tqdm(unit=" games", disable=not sys.stderr.isatty()) as bar:
            scores = rescore(agent, entry.scores, episodes=episodes, progress=lambda n, bar=bar: bar.update(n - bar.n))
        for claim, score in zip(entry.scores, scores, strict=True):
            print(f"{choice}: claimed {mean_and_spread(claim)}, scores {mean_and_spread(score)} ({score.conditions})")


def download(
    name: Positional[str | None] = None,
    /,
    *,
    to: Path,
    all_: Annotated[bool, tyro.conf.arg(name="all")] = False,
    namespace: str | None = None,
    revision: str | None = None,
    seconds: float = 300.0,
) -> None:
    """Fetch an agent from the Hugging Face Hub into a directory that zoo.load takes.

    Args:
        name: an agent of the zoo, or anybody's repository user/name on the Hugging Face Hub.
        to: the directory in which the agent gets a directory of its own.
        all_: fetch every agent of the zoo.
        namespace: the user or organization whose copies of the zoo's agents to fetch; by default the one that their
            records name, else A3C_ZOO_NAMESPACE.
        revision: a commit, tag or branch; by default the one that the agent's record names, else the newest.
        seconds: give up after this many seconds.
    """
    for choice in chosen(name, all_):
        repo = zoo.repository(choice, namespace)
        if repo is None:
            raise zoo.UnknownAgent(unknown(choice, zoo.entries()))
        pinned = zoo.entries()[choice].published if choice in zoo.entries() else None
        at = revision or (pinned.revision if pinned and pinned.repo == repo else None)
        agent = agent_files(repo, at, seconds=seconds)
        load_agent(agent[CONFIG].parent)
        directory = to / (choice if choice in zoo.entries() else repo.split("/")[1])
        for file, path in agent.items():
            write_atomically(directory / file, partial(shutil.copyfile, path))
        print(f"{directory}: {len(agent)} files of {repo}")


def deploy_space(
    space: Positional[str],
    /,
    *,
    static: bool = False,
    site: Path = SITE,
    hardware: str | None = None,
    private: bool = False,
    dry_run: bool = False,
) -> None:
    """Put the page on the web: create a Hugging Face Space and upload all that it needs.

    Args:
        space: user/name of the Space.
        static: upload the static arcade instead, which build-static has made; such a Space is free.
        site: the folder with that static arcade.
        hardware: what it runs on, for instance cpu-basic, cpu-upgrade or zero-a10g; by default what your plan offers.
        private: make the Space private.
        dry_run: write what would be uploaded into runs/space and upload nothing.
    """
    from zoo import hub
    from zoo.space import assemble, assemble_static

    if hub.repository(space) != space:
        raise ValueError(f"{space!r} cannot be a Space: name it user/name")
    if static and hardware:
        raise ValueError("a static Space runs on no hardware: leave out --hardware or --static")
    if site != SITE and not static:
        raise ValueError(f"only a static Space takes the files of {site}: add --static, or leave out --site")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path("runs", "space") if dry_run else Path(scratch, "space")
        shutil.rmtree(folder, ignore_errors=True)
        if static:
            assemble_static(folder, site, zoo.entries())
        else:
            assemble(folder, zoo.entries())
        if dry_run:
            print(f"{folder} holds the files for {space}; nothing was uploaded")
        else:
            sdk = "static" if static else "gradio"
            url = hub.deploy_space(folder, space, sdk=sdk, hardware=hardware, private=private)
            print(f"{url} is being built")


def build_static(*, out: Path = SITE, app: str = "", agents: tuple[str, ...] = (), processes: int = 2) -> None:
    """Make a folder of plain files that any web server can host: recorded games, the zoo, How it works.

    Args:
        out: the folder to write; one from an earlier build is replaced.
        app: the address of a live arcade, which the pages link to.
        agents: the agents whose games to record; by default every agent of the zoo.
        processes: how many games are played at once.
    """
    run_above("ui.site", "--out", out, "--app", app, "--agents", *agents, "--processes", processes)


def record(
    *,
    out: Path,
    agents: tuple[str, ...] = (),
    seeds: tuple[int, ...] = (0,),
    protocols: tuple[Protocol, ...] = get_args(Protocol),
    processes: int = 2,
) -> None:
    """Record whole games as files: the app of A3C_RECORDINGS=DIRECTORY shows them and plays nothing for them.

    Args:
        out: the directory to write; one from an earlier recording is replaced.
        agents: the agents whose games to record; by default every agent of the zoo.
        seeds: the games' seeds.
        protocols: rules for Atari games.
        processes: how many games are played at once.
    """
    games = ["--agents", *agents, "--seeds", *seeds, "--protocols", *protocols]
    run_above("ui.recordings", "--out", out, *games, "--processes", processes)


def run_above(module: str, *words: object) -> None:
    """Runs a program of the page, which stands above the zoo: that runs without it and so does not import it."""
    ended = subprocess.run([sys.executable, "-m", module, *map(str, words)])
    if ended.returncode:
        raise SystemExit(ended.returncode)


def chosen(name: str | None, all_: bool) -> list[str]:
    """The agents that a command is about: the one named, or all of the zoo. Raises ValueError for neither or both."""
    if all_ == (name is not None):
        raise ValueError("name one agent, or --all")
    return list(zoo.entries()) if name is None else [name]


def main(argv: list[str] | None = None) -> None:
    """Parses the command line, that of the process by default; known errors end in one sentence."""
    commands = {
        "list": list_,
        "info": info,
        "play": play_,
        "verify": verify,
        "download": download,
        "deploy-space": deploy_space,
        "build-static": build_static,
        "record": record,
    }
    try:
        tyro.extras.subcommand_cli_from_dict(
            commands, prog=program("zoo"), description=__doc__, args=argv, config=(tyro.conf.FlagCreatePairsOff,)
        )
    except (ValueError, OSError, ImportError) as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
