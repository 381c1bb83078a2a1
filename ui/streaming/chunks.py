"""A game cut into chunks, as players fetch it and files are made of it.

A chunk is a second of play, the first one half: four bytes with the header's length, the header as JSON, and compressed
pixels. Each pixel is a number in a palette; all pictures but a chunk's first are XORed with the one before.
"""

import json
import math
import threading
import zlib
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from itertools import islice, pairwise
from typing import Any, NamedTuple

import numpy as np
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from a3c_core.agent import Agent
from a3c_core.envs import Protocol, is_atari, make_env, spaces_of
from a3c_core.recipe import Recipe
from playback.episode import PlaybackStep, playback_steps
from playback.perturbation import Perturbation, perturbations_of
from playback.takeover import Hand, Takeover, replayed
from ui.play.controls import CONTROLS
from ui.streaming import nudges, takeovers
from ui.streaming.saliency import Sight, sight_of

SECONDS_PER_CHUNK, SECONDS_OF_FIRST = 1.0, 0.5
MOST_STEPS = 27_000
"""Steps of a game that are shown: half an hour of Atari."""
MOST_CHUNKS = MOST_STEPS
"""No game has as many."""


class EpisodeSpec(NamedTuple):
    """Which game: the same spec is the same game, to the last pixel."""

    agent: str
    seed: int
    snapshot: int = 100
    greedy: bool = True
    protocol: Protocol = "classic"
    nudges: tuple[Perturbation, ...] = ()
    commit: str = ""
    """Of the repository, where the agent was fetched from one."""
    takeovers: tuple[Takeover, ...] = ()


class Chunk(NamedTuple):
    """Some steps of a game: the chunk that players get, and what the agent saw in them where that is pictures."""

    first: int
    """The first of the steps."""
    rewards: float
    """What they earned together."""
    chunk: bytes
    sight: Sight | None

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        return len(self.chunk) + (len(self.sight.frames) if self.sight else 0)


UNLIKE = 24
"""How far, summed over the channels, a colour must be from all others to take one of a palette's last places."""
LAST_PLACES = 64
"""Kept for colours that come later: smooth edges have more shades than a palette has places."""


class Palette:
    """The colours of an environment's pictures, numbered as they appear and the commonest first.

    Once 256 - LAST_PLACES are taken, a colour that is like one of them becomes the nearest, and so does any beyond 256.
    """

    def __init__(self) -> None:
        self._numbers = np.full(2**18, -1, dtype=np.int16)  # six bits of each channel are told apart
        self._colours = np.zeros((256, 3), dtype=np.uint8)
        self._count = 0
        self._lock = threading.Lock()

    def index(self, picture: np.ndarray) -> np.ndarray:
        """uint8 [rows, width] numbers of the colours of some rows of a picture, uint8 [rows, width, 3]."""
        red, green, blue = (picture[..., channel].astype(np.uint32) >> 2 for channel in range(3))
        packed = red << 12 | green << 6 | blue
        numbers = self._numbers[packed]
        if (numbers < 0).any():
            self._learn(picture[numbers < 0], packed[numbers < 0])
            numbers = self._numbers[packed]
        return numbers.astype(np.uint8)

    def _learn(self, colours: np.ndarray, packed: np.ndarray) -> None:
        with self._lock:
            places, examples, counts = np.unique(packed, return_index=True, return_counts=True)
            commonest = np.argsort(-counts, kind="stable")
            for where, colour in zip(places[commonest], colours[examples[commonest]], strict=True):
                if self._numbers[where] >= 0:
                    continue  # another game's thread was first
                distances = np.abs(self._colours[: self._count].astype(int) - colour).sum(1)
                room = self._count < 256 - LAST_PLACES or (self._count < 256 and distances.min() > UNLIKE)
                if room:
                    self._colours[self._count] = colour
                    self._count += 1
                self._numbers[where] = self._count - 1 if room else distances.argmin()

    def tobytes(self) -> bytes:
        """All 256 colours, three bytes each."""
        return self._colours.tobytes()


@cache
def palette_of(env: str) -> Palette:
    """The palette that all games of an environment share."""
    return Palette()


class Screen(NamedTuple):
    """How games are shown."""

    rate: int
    """Pictures per second."""
    pixel: tuple[int, int]
    """Rows and columns that one fills."""


@cache
def screen_of(recipe: Recipe) -> Screen:
    """What a recipe's games are shown on."""
    with closing(make_env(recipe, "rgb_array_list")) as env:
        return Screen(env.metadata.get("render_fps", 30), env.metadata.get("pixel", (1, 1)))


def chunks(spec: EpisodeSpec, agent: Agent) -> Iterator[Chunk]:
    """Plays a game and cuts it into chunks."""
    palette, (rate, pixel) = palette_of(agent.recipe.env), screen_of(agent.recipe)
    part: list[PlaybackStep] = []
    first, pictures = 0, 0
    with closing(steps_of(spec, agent, replayed(spec.takeovers))) as game:
        for step, moment in enumerate(islice(game, MOST_STEPS), start=1):
            part.append(moment)
            pictures += len(moment.pictures)
            over = moment.over or step == MOST_STEPS
            if over or pictures >= rate * (SECONDS_PER_CHUNK if first else SECONDS_OF_FIRST):
                about = about_game(spec, agent, moment, rate, pixel) if first == 0 else {}
                rewards = sum(moment.reward for moment in part)
                sight = sight_of(part) if is_atari(agent.recipe.env) else None  # only Atari stacks single frames
                yield Chunk(first, rewards, packed(part, first, over, palette, about), sight)
                part, first, pictures = [], step, 0


def steps_of(spec: EpisodeSpec, agent: Agent, hand: Hand) -> Iterator[PlaybackStep]:
    """The steps of a game, with pictures; the hand plays where it wants to."""
    rules = {"greedy": spec.greedy, "protocol": spec.protocol, "perturbations": spec.nudges}
    return playback_steps(agent, spec.seed, **rules, hand=hand, watched=True)


def about_game(
    spec: EpisodeSpec, agent: Agent, moment: PlaybackStep, rate: int, pixel: tuple[int, int]
) -> dict[str, Any]:
    """What the first chunk tells of the whole game."""
    height, width, _ = moment.pictures[0].shape
    return {
        "game": {
            **spec._asdict(),
            "nudges": nudges.written(spec.nudges),
            "takeovers": takeovers.written(spec.takeovers),
            "env": agent.recipe.env,
            "height": height,
            "width": width,
            "pixel": pixel,
            "rate": rate,
            "actions": action_names(agent.recipe),
            "numbers": number_names(agent.recipe),
            "kinds": perturbations_of(agent.recipe),
            "controls": controls._asdict() if (controls := CONTROLS.get(agent.recipe.env)) else None,
            "pictured": is_atari(agent.recipe.env),
            "trained": agent.steps,
        }
    }


ACTIONS = {
    "CartPole-v1": ["left", "right"],
    "ALE/Pong-v5": ["wait", "fire", "up", "down", "up, fire", "down, fire"],
    "ALE/Breakout-v5": ["wait", "fire", "right", "left"],
    "ALE/SpaceInvaders-v5": ["wait", "fire", "right", "left", "right, fire", "left, fire"],
}
"""What each action does."""

DIRECTIONS = ["up", "right", "left", "down", "up right", "up left", "down right", "down left"]
ALL_ACTIONS = ["wait", "fire", *DIRECTIONS, *(f"{direction}, fire" for direction in DIRECTIONS)]
"""What each action of an Atari's full set does, in ALE's order."""


WALKER = ["hip 1", "knee 1", "hip 2", "knee 2"]
NUMBERS = {"Pendulum-v1": ["push"], "BipedalWalker-v3": WALKER, "BipedalWalkerHardcore-v3": WALKER}
"""What each real number of an action moves."""


def action_names(recipe: Recipe) -> list[str] | None:
    """What each action does, or its number where nobody wrote that down; each choice's values one after the other where
    an action is several. None for real numbers."""
    if recipe.full_action_space:
        return ALL_ACTIONS
    action = spaces_of(recipe).action
    if isinstance(action, Discrete):
        return ACTIONS.get(recipe.env) or [f"action {number}" for number in range(action.n)]
    if isinstance(action, MultiDiscrete):
        return [f"{choice}: {number}" for choice, count in enumerate(action.nvec) for number in range(count)]
    return None


def number_names(recipe: Recipe) -> list[str]:
    """Names of the real numbers that an action is; none where it is a choice."""
    action = spaces_of(recipe).action
    count = math.prod(action.shape) if isinstance(action, Box) else 0
    return NUMBERS.get(recipe.env) or [f"action {number}" for number in range(count)]


def packed(part: list[PlaybackStep], first: int, over: bool, palette: Palette, about: dict[str, Any]) -> bytes:
    """Some steps of a game as one chunk."""
    frames = numbered([picture for moment in part for picture in moment.pictures], palette)
    frames[1:] ^= frames[:-1].copy()
    header = about | {
        "first": first,
        "over": over,
        "pictures": [len(moment.pictures) for moment in part],
        "actions": [np.round(moment.action, 3).tolist() for moment in part],
        "policies": [np.round(moment.policy, 3).tolist() for moment in part],
        "values": [round(moment.value, 3) for moment in part],
        "rewards": [round(moment.reward, 6) for moment in part],
    }
    text = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()  # no browser reads Infinity
    return len(text).to_bytes(4, "little") + text + zlib.compress(palette.tobytes() + frames.tobytes(), 1)


def numbered(pictures: list[np.ndarray], palette: Palette) -> np.ndarray:
    """uint8 [pictures, height, width] numbers of their colours. Few rows change from one picture to the next."""
    numbers = np.empty((len(pictures), *pictures[0].shape[:2]), np.uint8)
    numbers[0] = palette.index(pictures[0])
    for i, (before, picture) in enumerate(pairwise(pictures), start=1):
        rows = (picture != before).any((1, 2))
        numbers[i] = numbers[i - 1]
        numbers[i, rows] = palette.index(picture[rows])
    return numbers


def header_of(chunk: bytes) -> dict[str, Any]:
    """What a chunk tells of its steps."""
    return json.loads(chunk[4 : _pixels_at(chunk)])


def pixels_of(chunk: bytes) -> bytes:
    """A chunk's colours and pictures, unpacked."""
    return zlib.decompress(chunk[_pixels_at(chunk) :])


def _pixels_at(chunk: bytes) -> int:
    return 4 + int.from_bytes(chunk[:4], "little")
