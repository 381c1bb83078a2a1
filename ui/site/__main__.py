"""Builds the static arcade: python -m ui.site --out site."""

import time
from pathlib import Path

import tyro

from ui.recordings.make import asked_for
from ui.site.build import build, summary


def main(out: Path = Path("site"), app: str = "", agents: tuple[str, ...] = (), processes: int = 2) -> None:
    """Make a folder of plain files that any web server can host: recorded games, the zoo, How it works.

    Args:
        out: the folder; one that this command made is made anew.
        app: the address of a live arcade, which the pages link to.
        agents: whose games; by default every agent of the zoo.
        processes: how many games are played at once.
    """
    begun = time.monotonic()
    chosen = asked_for(agents)
    if app and not app.startswith(("http://", "https://")):
        raise ValueError(f"{app!r} is not the address of an app: give one that begins with https://")
    built = build(out, agents=chosen, app=app, processes=processes)
    print(f"{out}: {summary(built)}\n{time.monotonic() - begun:.0f} seconds")


if __name__ == "__main__":
    try:
        tyro.cli(main, prog="python -m zoo build-static")
    except (ValueError, OSError) as error:
        raise SystemExit(f"error: {error}") from None
