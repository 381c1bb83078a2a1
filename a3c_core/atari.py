"""Atari 2600 games in the Arcade Learning Environment, through its own C++ batches, which preprocess the pictures.

An observation is the last four frames that the agent was shown, uint8 [4, 84, 84], newest last. Each frame is the
maximum of two consecutive ones of the emulator, grey, scaled down; an action holds for four of the emulator's frames
(Mnih et al. 2015, methods: "Preprocessing"). Up to 30 no-ops begin a game, and FIRE where a game needs it.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from ale_py.vector_env import AtariVectorEnv
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import HumanRendering

FRAMES_PER_STEP = 4
FRAMES_PER_SECOND = 60
MAX_FRAMES = 108_000
"""Frames after which a game is cut short: half an hour of play."""

MAX_SCORE = {"breakout": 864}
"""The highest score there is, by ALE's name of the cartridge. A game ends with it: Breakout's second wall is its last,
and in ALE the ball would fly on, with nothing to hit, until the lives are lost."""


def rom_of(env: str) -> str | None:
    """ALE's name of the cartridge of a game, by its Gymnasium id, as ale-py registers it; None where there is none."""
    spec = gym.registry.get(env)  # a look-up alone: gym.spec and gym.make could import what an id names
    return spec.kwargs["game"] if spec and spec.entry_point == "ale_py.env:AtariEnv" else None


STALL_ROWS = 2
"""Rows at the top of an observation where a bar can show the steps since the last reward."""


class AtariGames(AtariVectorEnv):
    """A batch of one game, with SAME_STEP autoreset and the true rewards. The seed determines the game.

    A game ends as in ALE, or at the highest score there is (`MAX_SCORE`). Where `stall` is a number of steps, a white
    bar shows how many of them have passed since the last reward (`Recipe.stall_earns_nothing`).
    """

    def __init__(
        self,
        env: str,
        count: int,
        *,
        sticky: float,
        full_action_space: bool,
        threads: int,
        stall: int | None = None,
        **picture: int,
    ) -> None:
        rom = rom_of(env)
        self._max_score = MAX_SCORE.get(rom, np.inf)
        self._points = np.zeros(count)
        self._stall = stall
        self._without_reward = np.zeros(count, dtype=np.int64)
        super().__init__(
            rom,
            count,
            num_threads=threads,
            autoreset_mode=AutoresetMode.SAME_STEP,
            repeat_action_probability=sticky,
            full_action_space=full_action_space,
            max_num_frames_per_episode=MAX_FRAMES,
            reward_clipping=False,
            **picture,
        )

    def reset(
        self, *, seed: int | list[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict]:
        """Starts new games, each with its own seed where `seed` is a list with one for every game of the batch."""
        mask = (options or {}).get("reset_mask", np.ones(self.num_envs, dtype=bool))
        if isinstance(seed, list):
            seed = np.array(seed)[mask]
        self._points[mask] = self._without_reward[mask] = 0
        obs, info = super().reset(seed=seed, options=options)
        self._show_stall(obs)
        return obs, info

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """As Gymnasium has it: sends the actions, and receives what they lead to."""
        self.send(actions)
        return self.recv()

    def recv(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """As Gymnasium has it: info["final_obs"] comes with the mask of the games that ended, which ALE leaves out."""
        obs, reward, terminated, truncated, info = super().recv()
        over = terminated | truncated
        self._without_reward = np.where(reward != 0, 0, self._without_reward + 1)
        if "final_obs" in info:
            info["_final_obs"] = over
            self._show_stall(info["final_obs"])
        self._without_reward[over] = 0
        self._show_stall(obs)
        self._points = np.where(over, 0, self._points + reward)
        won = self._points >= self._max_score
        if won.any():
            final = info.get("final_obs", obs).copy()
            final[won] = obs[won]
            obs, started = self.reset(options={"reset_mask": won})
            terminated = terminated | won
            info |= started | {"final_obs": final, "_final_obs": over | won}
        return obs, reward, terminated, truncated, info

    def _show_stall(self, obs: np.ndarray) -> None:
        """Draws the bar into all four frames of each observation, uint8 [B, 4, 84, 84]."""
        if self._stall is not None:
            width = obs.shape[-1]
            bar = np.arange(width) * self._stall < self._without_reward[:, None] * width
            obs[:, :, :STALL_ROWS] = np.where(bar, 255, 0)[:, None, None]


class EmulatorSpec(NamedTuple):
    """What is fixed when the emulator of a single game is made."""

    env: str
    sticky: float
    full_action_space: bool
    stall: int | None = None
    pictures_every: int | None = None
    """Frames from one coloured picture to the next; None where observations are shown."""

    def make(self) -> AtariGames:
        """A new one."""
        picture = {"grayscale": False, "img_height": 210, "img_width": 160, "stack_num": 1}
        return AtariGames(
            self.env,
            1,
            sticky=self.sticky,
            full_action_space=self.full_action_space,
            threads=1,
            stall=self.stall,
            **(picture | {"frameskip": self.pictures_every} if self.pictures_every else {}),
        )


class FreshEmulators:
    """Makes an emulator for each game and closes it after it. A page that plays many games puts a pool in its place."""

    def take(self, spec: EmulatorSpec) -> AtariGames:
        """An emulator that nobody else uses."""
        return spec.make()

    def leave(self, spec: EmulatorSpec, games: AtariGames) -> None:
        """Takes back an emulator that is no longer needed."""
        games.close()


emulators = FreshEmulators()
"""Where single games get their emulators from, in this process."""


class AtariGame(gym.Env):
    """One game of AtariGames. Its pictures come from a second emulator that plays the same game in step.

    Render modes: "rgb_array" is one picture per step; "rgb_array_list" are the pictures since the last call, 30 for a
    second of the game. Each is uint8 [210, 160, 3] and the maximum of two consecutive frames, since sprites flicker.
    """

    metadata = {  # noqa: RUF012
        "render_modes": ["rgb_array", "rgb_array_list"],
        "render_fps": FRAMES_PER_SECOND // FRAMES_PER_STEP,
        "pixel": (4, 7),  # rows and columns: on the screen of a television the 210 x 160 pixels are 4:3
    }

    def __init__(
        self, env: str, *, sticky: float, full_action_space: bool, render_mode: str | None, stall: int | None = None
    ) -> None:
        self.render_mode = render_mode
        self._used: list[tuple[EmulatorSpec, AtariGames]] = []
        spec = EmulatorSpec(env, sticky, full_action_space, stall)
        self._games = self._take(spec)
        self.observation_space, self.action_space = (
            self._games.single_observation_space,
            self._games.single_action_space,
        )
        self._screen = None
        if render_mode is not None:
            self._frames = 2 if render_mode == "rgb_array_list" else FRAMES_PER_STEP
            self.metadata = self.metadata | {"render_fps": FRAMES_PER_SECOND // self._frames}
            self._screen = self._take(spec._replace(stall=None, pictures_every=self._frames))
        self._pictures: list[np.ndarray] = []
        self._drawing = False
        """Whether the last picture is still being drawn, by the emulator's own thread."""

    def _take(self, spec: EmulatorSpec) -> AtariGames:
        games = emulators.take(spec)
        self._used.append((spec, games))
        return games

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self._drawn()
        seed = int(self.np_random.integers(2**31)) if seed is None else seed
        with ThreadPoolExecutor(1) as other:  # each takes a fifth of a second
            screen = other.submit(self._screen.reset, seed=seed) if self._screen else None
            obs, info = self._games.reset(seed=seed)
        if screen:
            self._pictures = [screen.result()[0][0, 0]]
        return obs[0], {key: value[0] for key, value in info.items()}

    def step(self, action: np.ndarray | int) -> tuple[np.ndarray, float, bool, bool, dict]:
        actions = np.array([action])
        self._games.send(actions)
        if self._screen:
            self._draw(self._screen, actions)  # while the other emulator plays
        obs, reward, terminated, truncated, info = self._games.recv()
        shown = info.get("final_obs", obs)[0]  # there is one game: where it ended, this is its last observation
        told = {key: value[0] for key, value in info.items() if "final" not in key}
        return shown, float(reward[0]), bool(terminated[0]), bool(truncated[0]), told

    def _draw(self, screen: AtariGames, actions: np.ndarray) -> None:
        """Plays one step for its pictures, up to the last one, which `_drawn` waits for."""
        for _ in range(FRAMES_PER_STEP // self._frames):
            if self._drawn():
                break
            screen.send(actions)
            self._drawing = True

    def _drawn(self) -> bool:
        """Keeps the picture that is being drawn, if one is; returns whether the game has ended with it."""
        if not self._drawing:
            return False
        picture, _, over, cut, info = self._screen.recv()
        self._drawing, ended = False, bool(over[0] or cut[0])
        if self.render_mode != "rgb_array_list":
            self._pictures.clear()
        self._pictures.append((info["final_obs"] if ended else picture)[0, 0])
        return ended

    def render(self) -> np.ndarray | list[np.ndarray] | None:
        self._drawn()
        if self.render_mode == "rgb_array_list":
            pictures, self._pictures = self._pictures, []
            return pictures
        return self._pictures[-1] if self._screen else None

    def close(self) -> None:
        self._drawn()
        while self._used:
            emulators.leave(*self._used.pop())


def make_game(
    env: str, *, sticky: float, full_action_space: bool, stall: int | None, render_mode: str | None
) -> gym.Env:
    """One game; "human" shows it in a window."""
    human = render_mode == "human"
    game = AtariGame(
        env,
        sticky=sticky,
        full_action_space=full_action_space,
        stall=stall,
        render_mode="rgb_array" if human else render_mode,
    )
    return HumanRendering(game) if human else game
