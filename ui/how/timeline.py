"""The timeline: what two workers did in a stretch of a real training, drawn to scale. The script moves its playhead."""

import json
from html import escape

from ui.how.trace import Update

WIDTH, HEIGHT = 1100, 236
LEFT, RIGHT = 128, 1080
"""Where the time begins and ends."""
LANES = (30, 162)
"""Top of each worker's lane."""
LANE_HEIGHT = 44
SHARED = 118
"""Height of the line that stands for the shared weights."""

KEYS = {
    "play": "plays",
    "learn": "computes its gradient",
    "pull": "pull: copies the weights",
    "push": "push: changes them",
}
"""What stands for what."""


def timeline(updates: list[Update]) -> str:
    """The timeline of two workers as HTML."""
    end = max(update.done for update in updates)
    scale = (RIGHT - LEFT) / end
    first = min(update.seen for update in updates)
    data = [[*(round(LEFT + scale * time, 1) for time in update[1:6]), update.rank, update.seen, update.before]
            for update in updates]  # fmt: skip
    spoken = (
        f"Two workers over {end:.0f} milliseconds. Each copies the shared weights, plays, learns and hands its "
        f"gradient over, {len(updates)} times in all, without waiting for the other."
    )
    return (
        f'<figure class="timeline" data-updates="{escape(json.dumps(data))}" data-first="{first}" '
        f'data-milliseconds="{end:.1f}" data-left="{LEFT}" data-right="{RIGHT}">'
        f'<div class="roll" tabindex="0" role="group" aria-label="Timeline, scrolls sideways">'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" '
        f'aria-label="{escape(spoken)}">'
        f"{_names()}{''.join(_drawn(update, scale) for update in updates)}"
        f'<line class="playhead" x1="{LEFT}" x2="{LEFT}" y1="18" y2="{HEIGHT - 18}"/></svg></div>'
        '<div class="transport" role="group" aria-label="Timeline"></div><p class="said"></p>'
        f"<figcaption>{_keys()}</figcaption></figure>"
    )


def _keys() -> str:
    return "".join(f'<span><i class="key {kind}"></i>{words}</span>' for kind, words in KEYS.items())


def _names() -> str:
    lanes = "".join(
        f'<text x="0" y="{top + LANE_HEIGHT / 2 + 5}">Worker {rank}</text>' for rank, top in enumerate(LANES, start=1)
    )
    return (
        f'{lanes}<text class="middle" x="0" y="{SHARED + 5}">Shared weights</text>'
        f'<line class="shared" x1="{LEFT}" x2="{RIGHT}" y1="{SHARED}" y2="{SHARED}"/>'
    )


def _drawn(update: Update, scale: float) -> str:
    top, above = LANES[update.rank], update.rank == 0
    edge = top + LANE_HEIGHT if above else top
    pull, play, learn, push, done = (LEFT + scale * time for time in update[1:6])
    towards = 1 if above else -1
    return (
        f'<rect class="play" x="{play:.1f}" y="{top}" width="{learn - play:.1f}" height="{LANE_HEIGHT}"/>'
        f'<rect class="learn" x="{learn:.1f}" y="{top}" width="{push - learn:.1f}" height="{LANE_HEIGHT}"/>'
        f'<line class="pull" x1="{pull:.1f}" x2="{play:.1f}" y1="{SHARED}" y2="{edge}"/>'
        f'<line class="push" x1="{push:.1f}" x2="{done:.1f}" y1="{edge}" y2="{SHARED - towards * 5}"/>'
        f'<path class="tip" d="M{done - 4:.1f},{SHARED - towards * 9} h8 l-4,{towards * 8} z"/>'
    )
