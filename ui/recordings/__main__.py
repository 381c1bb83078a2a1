"""Records games as files that the app shows: python -m zoo record --out DIRECTORY."""

from pathlib import Path
from typing import get_args

import tyro

from a3c_core.envs import Protocol
from ui.recordings.make import asked_for, make, specs_of


def main(
    out: Path,
    agents: tuple[str, ...] = (),
    seeds: tuple[int, ...] = (0,),
    protocols: tuple[Protocol, ...] = get_args(Protocol),
    processes: int = 2,
) -> None:
    """Record whole games, as the agents were scored.

    Args:
        out: the directory; one that this command made is made anew.
        agents: whose games; by default every agent of the zoo.
        seeds: which of their games.
        protocols: by which rules; agents of other games than Atari's have classic alone.
        processes: how many games are played at once.
    """
    games = make(out, specs_of(asked_for(agents), seeds, protocols), processes=processes)
    size = sum(path.stat().st_size for path in out.iterdir())
    print(f"{out}: {len(games)} games, {size / 1e6:.1f} MB. The app shows them with A3C_RECORDINGS={out}")


if __name__ == "__main__":
    try:
        tyro.cli(main, prog="python -m zoo record")
    except (ValueError, OSError) as error:
        raise SystemExit(f"error: {error}") from None
