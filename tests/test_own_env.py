"""Environments of the user's own: each kind of spaces is trained in and loaded; test_packaging runs the README's."""

import os
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Sequence
from gymnasium.vector import AutoresetMode, VectorEnv

import training.__main__ as cli
import zoo
from a3c_core import envs
from a3c_core.checkpoint import load_agent
from a3c_core.envs import (
    CannotMake,
    UnknownEnv,
    known,
    make_env,
    make_envs,
    make_scoring_envs,
    register_env,
    register_module,
    spaces_of,
)
from a3c_core.evaluation import evaluate
from a3c_core.recipe import Recipe
from a3c_core.spaces import UnsupportedSpace
from training.defaults import recipe_for
from training.run import train

ROOT = Path(__file__).parents[1]
FLAT, TWO = Box(-1, 1, (3,), np.float32), Discrete(2)


class Any(gym.Env):
    """An environment of any spaces, which checks the actions that it gets; episodes have five steps."""

    def __init__(self, observation, action, render_mode=None):
        self.observation_space, self.action_space, self.render_mode = observation, action, render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self.steps = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.steps += 1
        return self.observation_space.sample(), 1.0, self.steps == 5, False, {}


@pytest.fixture
def own():
    """Registers environments of given spaces; they are forgotten after the test."""

    def register(observation, action=TWO):
        options = {"observation": observation, "action": action}
        gym.register("Own-v0", entry_point="tests.test_own_env:Any", kwargs=options)
        return register_env("Own-v0")

    yield register
    gym.registry.pop("Own-v0", None)
    envs.REGISTERED.pop("Own-v0", None)
    spaces_of.cache_clear()


OBSERVATIONS = {
    "vector": (FLAT, (3,), "vector"),
    "doubles": (Box(-1, 1, (3,), np.float64), (3,), "vector"),
    "one number": (Box(-1, 1, (), np.float32), (1,), "vector"),
    "matrix": (Box(-1, 1, (2, 3), np.float32), (6,), "vector"),
    "counts": (Discrete(4, start=2), (4,), "vector"),
    "dictionary": (Dict(a=FLAT, b=Discrete(2)), (5,), "vector"),
    "tiny picture": (Box(0, 255, (4, 4, 3), np.uint8), (48,), "vector"),
    "small picture": (Box(0, 255, (10, 12, 3), np.uint8), (3, 10, 12), "small"),
    "grey picture": (Box(0, 255, (40, 40), np.uint8), (1, 40, 40), "a3c"),
    "picture": (Box(0, 255, (40, 50, 3), np.uint8), (3, 40, 50), "a3c"),
    "stacked frames": (Box(0, 255, (4, 40, 40), np.uint8), (4, 40, 40), "a3c"),
    "stacked pictures": (Box(0, 255, (2, 40, 40, 3), np.uint8), (6, 40, 40), "a3c"),
    "floats of a picture": (Box(0, 1, (40, 40, 3), np.float32), (3, 40, 40), "a3c"),
}
ACTIONS = {
    "from one": Discrete(3, start=1),
    "several": MultiDiscrete([2, 3], start=[1, 0]),
    "table": MultiDiscrete([[2, 3], [4, 2]]),
    "switches": MultiBinary(3),
    "numbers": Box(np.float32([-2, 0]), np.float32([2, 1])),
    "matrix": Box(-2, 2, (2, 3), np.float32),
}


@pytest.mark.parametrize(("observation", "shape", "encoder"), OBSERVATIONS.values(), ids=OBSERVATIONS)
def test_any_observation_becomes_a_vector_or_frames_that_the_default_encoder_reads(own, observation, shape, encoder):
    recipe = recipe_for(own(observation))
    assert recipe.encoder == encoder
    for made in (make_envs(recipe, 2), make_scoring_envs(recipe, 2)):
        obs, _ = made.reset(seed=1)
        assert obs.shape == (2, *shape)
        made.step(np.zeros(2, dtype=np.int64))
    assert spaces_of(recipe).observation.shape == shape
    obs, _ = make_env(recipe).reset(seed=1)
    assert spaces_of(recipe).observation.contains(obs)


@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
def test_any_action_is_learnt_and_played_after_loading(own, tmp_path, action):
    recipe = recipe_for(own(FLAT, action))
    small = {"steps": 64, "workers": 1, "envs_per_worker": 2, "n_steps": (8,)}
    list(train(Recipe(**recipe.__dict__ | small), tmp_path))  # the environment checks each action, in the worker too
    agent = load_agent(tmp_path)
    assert agent.steps >= 64
    assert evaluate(agent, 2, greedy=False).returns == (5.0, 5.0)


def test_the_floats_of_a_picture_are_pixels_up_to_255(own):
    obs, _ = make_env(recipe_for(own(Box(0, 1, (40, 40, 3), np.float32)))).reset(seed=0)
    assert obs.dtype == np.float32
    assert 250 < obs.max() <= 255


@pytest.mark.parametrize(
    ("observation", "action", "says"),
    [
        (Sequence(FLAT), TWO, "can't become a vector"),
        (FLAT, Box(-np.inf, np.inf, (1,)), "without bounds"),
        (FLAT, Dict(a=TWO), "only Discrete, MultiDiscrete, MultiBinary and a Box"),
    ],
)
def test_what_is_not_supported_is_refused_in_a_sentence(own, observation, action, says):
    with pytest.raises(UnsupportedSpace, match=f"Own-v0.*{says}"):
        recipe_for(own(observation, action))


def test_an_agent_is_loaded_only_where_its_environment_is_registered(own, tmp_path):
    env = own(FLAT)
    list(train(Recipe(env=env, steps=8, workers=1, n_steps=(4,), envs_per_worker=1), tmp_path))
    envs.REGISTERED.pop(env)
    spaces_of.cache_clear()
    with pytest.raises(ValueError, match=r"unknown environment 'Own-v0'.*register_env"):
        load_agent(tmp_path)


def test_what_cannot_be_shown_says_so(own):
    with pytest.raises(CannotMake, match="Own-v0 can't be shown"):
        make_env(Recipe(env=own(FLAT)), "rgb_array_list")


def test_only_what_workers_can_have_too_is_registered():
    with pytest.raises(UnknownEnv, match=r"gymnasium\.register"):
        register_env("Nothing-v0")
    with pytest.raises(ValueError, match="top level of a module"):
        register_env("Acrobot-v1", lambda recipe, count: None)


class Batch(VectorEnv):
    """A batch of one's own, whose episodes have three steps, each worth 7."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, count):
        self.num_envs, self.single_observation_space, self.single_action_space = count, FLAT, TWO

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = np.zeros(self.num_envs, dtype=int)
        return self._look(), {}

    def step(self, actions):
        assert actions.shape == (self.num_envs,)
        self.steps += 1
        over = self.steps == 3
        info = {"final_obs": self._look(), "_final_obs": over} if over.any() else {}
        self.steps[over] = 0
        return self._look(), np.full(self.num_envs, 7.0), over, np.zeros_like(over), info

    def _look(self):
        return np.repeat(self.steps[:, None] / 3, 3, axis=1).astype(np.float32)


def batch(recipe, count):
    return Batch(count)


def test_a_training_steps_the_batch_of_ones_own_factory(own, tmp_path):
    env = register_env(own(FLAT), batch)
    made = make_envs(Recipe(env=env), 2)
    assert isinstance(made, Batch)
    *_, last = train(Recipe(env=env, steps=64, workers=2, envs_per_worker=2, n_steps=(8,), head_layers=(8,)), tmp_path)
    assert last.mean_return == 21.0
    assert evaluate(load_agent(tmp_path), 2).returns == (5.0, 5.0)  # of single environments


MODULES = {
    "third_party_envs": """
        import gymnasium as gym
        class Other(gym.Env): pass
        gym.register("Other-v0", entry_point="third_party_envs:Other")
        gym.register("Second-v0", entry_point=Other)
    """,
    "my_envs": """
        import gymnasium as gym
        import third_party_envs
        class Mine(gym.Env): pass
        gym.register("Mine-v0", entry_point="my_envs:Mine")
        gym.register("Class-v0", entry_point=Mine)
        gym.register("Long-v0", entry_point="gymnasium.envs.classic_control:CartPoleEnv", max_episode_steps=900)
        gym.register("Borrowed-v0", entry_point="third_party_envs:Other")
    """,
}


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """A module that registers environments and imports another package that does; they are forgotten after the test."""
    before = dict(gym.registry)
    for name, text in MODULES.items():
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(text))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(envs, "REGISTERED", {})
    yield
    gym.registry.clear()
    gym.registry.update(before)
    for name in MODULES:
        sys.modules.pop(name, None)


def test_a_module_registers_what_its_own_package_defines_and_no_package_that_it_imports(modules):
    register_module("my_envs")
    assert list(envs.REGISTERED) == ["Mine-v0", "Class-v0", "Long-v0"]
    with pytest.raises(UnknownEnv):
        known("Other-v0")
    register_module("my_envs:Borrowed-v0")
    assert known("Borrowed-v0") == "Borrowed-v0"
    register_module("third_party_envs")
    assert {"Other-v0", "Second-v0"} <= envs.REGISTERED.keys()


def run(tmp_path, *command, **environment):
    """Runs Python as the app is run, where it finds what lies in `tmp_path`."""
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), **environment}
    return subprocess.run([sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True)


def test_the_page_registers_what_a_module_named_to_it_defines(tmp_path):
    (tmp_path / "my_envs.py").write_text(textwrap.dedent(MODULES["third_party_envs"]).replace("third_party", "my"))
    program = "import app; app.import_own(); from a3c_core.envs import known; print(known('Other-v0'))"
    assert run(tmp_path, "-c", program, A3C_IMPORT="my_envs").stdout == "Other-v0\n"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--import", "nowhere"], "cannot import 'nowhere' (No module named 'nowhere'): run the command where"),
        (["--import=nowhere"], "cannot import 'nowhere' (No module named 'nowhere'): run the command where"),
        (["--port", "80"], "app takes nothing but --import MODULE, not '--port 80'"),
        (["--import"], "app takes nothing but --import MODULE, not '--import'"),
        (["--import="], "app takes nothing but --import MODULE, not '--import='"),
    ],
)
def test_what_the_page_cannot_import_is_told_in_one_sentence(options, told, tmp_path):
    ended = run(tmp_path, "a3c_arcade.py", "app", *options)
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"error: {told}")
    assert ended.stderr.count("\n") == 1


def test_an_agent_without_a_shipped_recipe_is_kept_with_the_command_that_trains_it(empty_zoo, tmp_path, capsys):
    small = ["--steps", "64", "--workers", "1", "--envs-per-worker", "2", "--n-steps", "8"]
    cli.main(["train", "--env", "Acrobot-v1", *small, "--out", str(tmp_path / "run")])
    cli.main(["keep", str(tmp_path / "run"), "--name", "swinger", "--episodes", "1"])
    assert "swinger: -500.00 ± 0.00, kept in" in capsys.readouterr().out
    entry = zoo.entries()["swinger"]
    begin, *options = shlex.split(entry.command.removeprefix("python -m training train --env "))
    assert (begin, options[:2]) == ("Acrobot-v1", ["--steps", "64"])
    assert zoo.load("swinger").recipe == entry.recipe
