"""The zoo's command line: python -m zoo list | info NAME | play NAME."""

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import Positional

import zoo
from a3c_core.envs import Protocol
from a3c_core.play import film, play
from a3c_core.video import write_mp4
from zoo.card import description, markdown_table, text_table
from zoo.entry import unknown


def list_(*, as_json: Annotated[bool, tyro.conf.arg(name="json")] = False, markdown: bool = False) -> None:
    """List the agents of the zoo with their scores.

    Args:
        as_json: print every record whole, as JSON.
        markdown: print the table of the README.
    """
    entries = zoo.entries()
    if as_json:
        print(json.dumps({name: asdict(entry) for name, entry in entries.items()}, indent=2))
    else:
        print(markdown_table(entries) if markdown else text_table(entries))


def info(name: Positional[str], /) -> None:
    """Tell all that is known of one agent.

    Args:
        name: an agent of the zoo.
    """
    entries = zoo.entries()
    if name not in entries:
        raise zoo.UnknownAgent(unknown(name, entries))
    print(description(entries[name]))


def play_(
    name: Positional[str],
    /,
    *,
    seed: int = 0,
    out: Path = Path("episode.mp4"),
    protocol: Protocol = "classic",
    snapshot: int = 100,
    actions: zoo.Actions = "recorded",
) -> None:
    """Play one game and keep it as a video (H.264; score and seed are in the file's metadata).

    Args:
        name: an agent of the zoo, or a directory that training wrote.
        seed: the game's seed; the same seed gives the same game.
        out: the video to write.
        protocol: rules of Atari's games. classic, or sticky: actions repeat with probability 0.25.
        snapshot: play as the agent was after that percentage of its training.
        actions: the likeliest ones, or drawn from the policy; recorded: as the agent's entry in the zoo says.
    """
    if out.suffix != ".mp4" or not out.parent.is_dir():
        raise ValueError(f"cannot write {out}: name a file that ends in .mp4, in a directory that exists")
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # drawn into an array, not in a window
    agent = zoo.load(name, snapshot)
    episode = play(agent, seed, greedy=zoo.is_greedy(name, actions), protocol=protocol)
    write_mp4(film(agent, episode), out, title=f"A3C Arcade: {Path(name).name}", comment=episode.outcome)
    print(f"{out}: seed {seed}, {len(episode.actions)} steps, return {episode.total:g}")


def main() -> None:
    """Parses the command line; known errors end in one sentence."""
    commands = {"list": list_, "info": info, "play": play_}
    try:
        tyro.extras.subcommand_cli_from_dict(
            commands, prog="python -m zoo", description=__doc__, config=(tyro.conf.FlagCreatePairsOff,)
        )
    except (ValueError, OSError) as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
