"""The wheel, installed outside the checkout; and the requirements files, which must ask for what it asks for."""

import os
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path
from shutil import copy, copytree, ignore_patterns
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement

from a3c_arcade import HELP
from tests.test_structure import FLOORS, ROOT
from zoo.entry import OWN

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TESTED_TORCH = "<=2.13.0"
"""Where requirements.txt bounds torch, more tightly than the package: what CI installs is what was tested."""


class Installed(NamedTuple):
    """A virtual environment with the wheel in it, and an empty directory to work in."""

    bin: Path
    place: Path

    def run(self, *command: str, **environ: str) -> subprocess.CompletedProcess:
        """Runs one of the environment's programs in the empty directory."""
        clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", OWN)}
        return subprocess.run(
            [self.bin / command[0], *command[1:]],
            cwd=self.place,
            env=clean | environ,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def output(self, *command: str, **environ: str) -> str:
        """What the program prints; it has to end well."""
        ended = self.run(*command, **environ)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    def python(self, program: str, **environ: str) -> str:
        """What a Python program prints."""
        return self.output("python", "-c", program, **environ)


def pip(*arguments: str | Path) -> None:
    """Runs this environment's pip without the network."""
    command = [sys.executable, "-m", "pip", *arguments, "--no-deps", "--no-index", "--quiet"]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """The wheel, built from a copy: setuptools leaves files behind where it builds."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for floor in FLOORS:
        if (ROOT / floor).is_dir():
            copytree(ROOT / floor, source / floor, ignore=ignore_patterns("__pycache__"))
        else:
            copy(ROOT / f"{floor}.py", source)
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        copy(ROOT / file, source)
    pip("wheel", source, "--wheel-dir", out, "--no-build-isolation")
    (built,) = out.iterdir()
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Installed:
    """The wheel in an environment of its own, which sees what the wheel depends on and not the checkout."""
    home = tmp_path_factory.mktemp("venv")
    venv.create(home, with_pip=False)
    site = Path(sysconfig.get_path("purelib", vars={"base": home, "platbase": home}))
    here = {sysconfig.get_path(kind) for kind in ("purelib", "platlib")}
    (site / "dependencies.pth").write_text("\n".join(here))
    pip("--python", home / "bin" / "python", "install", wheel, "--no-compile")
    return Installed(home / "bin", tmp_path_factory.mktemp("elsewhere"))


def merged(requirements: list[str]) -> dict[str, tuple[frozenset[str], str]]:
    """Extras and versions that are asked for, by project; extras of the same project are merged, as pip does."""
    found: dict[str, tuple[frozenset[str], str]] = {}
    for requirement in map(Requirement, requirements):
        name = requirement.name.lower().replace("_", "-")
        extras, versions = found.get(name, (frozenset(), str(requirement.specifier)))
        assert versions == str(requirement.specifier), f"two ranges for {name}"
        found[name] = extras | requirement.extras, versions
    return found


def with_extra(extra: str) -> list[str]:
    """What an extra asks for, and the extras of ours that it names."""
    asked = []
    for line in PROJECT["optional-dependencies"][extra]:
        requirement = Requirement(line)
        ours = requirement.name == PROJECT["name"]
        asked += [each for name in requirement.extras for each in with_extra(name)] if ours else [line]
    return asked


def lines_of(file: str) -> list[str]:
    """The requirements in a file, and in those that it includes."""
    lines = [line for line in (ROOT / file).read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]
    included = [each for line in lines if line.startswith("-r ") for each in lines_of(line.removeprefix("-r "))]
    return included + [line for line in lines if not line.startswith("-")]


@pytest.mark.parametrize(("file", "extra"), [("requirements.txt", "app"), ("requirements-dev.txt", "dev")])
def test_requirements_ask_for_what_the_package_asks_for(file, extra):
    asked, declared = merged(lines_of(file)), merged([*PROJECT["dependencies"], *with_extra(extra)])
    bounds = Requirement(f"torch{declared['torch'][1]}").specifier
    assert asked.pop("torch")[1] == ",".join(sorted([TESTED_TORCH, *(str(b) for b in bounds if b.operator == ">=")]))
    assert bounds.contains(TESTED_TORCH.removeprefix("<="))
    del declared["torch"]
    assert asked == declared


@pytest.mark.wheel
def test_the_wheel_has_every_file_of_the_packages(wheel):
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    alone = {f"{floor}.py" for floor in FLOORS if (ROOT / f"{floor}.py").is_file()}
    there = {
        path.relative_to(ROOT).as_posix()
        for floor in FLOORS
        for path in (ROOT / floor).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".md"
    }
    assert packed == there | alone


@pytest.mark.wheel
def test_an_installed_package_trains_an_agent_and_films_it(installed):
    small = ("--steps", "4000", "--workers", "1", "--envs-per-worker", "8")
    assert "score it:" in installed.output("a3c-arcade", "train", "cartpole", *small, "--out", "run")
    assert "run.mp4: seed 0" in installed.output("a3c-arcade", "zoo", "play", "run", "--out", "run.mp4")
    assert (installed.place / "run.mp4").stat().st_size > 1000


@pytest.mark.wheel
def test_an_installed_package_trains_an_environment_of_the_users_own(installed):
    (installed.place / "my_module.py").write_text(MY_MODULE)
    small, own = ("--workers", "1", "--envs-per-worker", "2"), ("--import", "my_module")
    train = ("a3c-arcade", "train")
    installed.output(*train, "--env", "my_module:Corridor-v0", "--steps", "1000", *small, "--out", "corridor")
    installed.output(*train, "--resume", "corridor", "--steps", "2000", *own)
    assert "on Corridor-v0" in installed.output("a3c-arcade", "evaluate", "corridor", "--episodes", "2", *own)
    installed.output("a3c-arcade", "zoo", "play", "corridor", "--out", "corridor.mp4", *own)
    assert (installed.place / "corridor.mp4").stat().st_size > 1000


MY_MODULE = '''
import gymnasium as gym
import numpy as np


class Corridor(gym.Env):
    """Walk right to the end, a step at a time."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}
    observation_space = gym.spaces.Box(0.0, 8.0, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return self.observation(), {}

    def step(self, action):
        self.at = max(0, self.at + (1 if action else -1))
        return self.observation(), -0.1 + (self.at == 8), self.at == 8, False, {}

    def observation(self):
        return np.array([self.at], np.float32)

    def render(self):
        frame = np.zeros((32, 144, 3), np.uint8)
        frame[:, 16 * self.at : 16 * self.at + 16] = 255
        return frame


gym.register("Corridor-v0", Corridor, max_episode_steps=50)
'''


@pytest.mark.wheel
def test_an_installed_zoo_plays_and_lists_its_agents(installed):
    program = """
import ale_py, zoo
from pathlib import Path
home = Path(zoo.__file__).parent
files = lambda: {(path, path.stat().st_mtime_ns) for path in home.rglob("*") if "__pycache__" not in path.parts}
before = files()
agent = zoo.load("pong")
env = agent.make_env()
obs, _ = env.reset(seed=0)
memory, total = None, 0.0
for _ in range(300):
    action, memory = agent.act(obs, memory)
    obs, reward, terminated, truncated, _ = env.step(action)
    total += reward
assert files() == before, "an installed zoo is not written into"
print(home, total)
"""
    home, total = installed.python(program).split()
    assert Path(home).is_relative_to(installed.bin.parent)
    assert float(total) > 0  # it leads
    assert "pong_lstm" in installed.output("a3c-arcade", "zoo", "list")


@pytest.mark.wheel
def test_an_installed_page_is_built_with_all_that_it_shows(installed):
    program = """
import ui
from ui.agents.asynchrony import asynchrony_section
from ui.how import lesson
ui.build()
assert "a3c_core/worker.py, line " in lesson()
assert asynchrony_section()
print(ui.__file__)
"""
    assert Path(installed.python(program).split()[-1]).is_relative_to(installed.bin.parent)


@pytest.mark.wheel
def test_the_command_tells_its_version_and_its_commands(installed):
    assert installed.output("a3c-arcade", "--version") == f"a3c-arcade {PROJECT['version']}\n"
    told = installed.output("a3c-arcade", "--help")
    for command in ("a3c-arcade app", "a3c-arcade zoo", "train", "evaluate", "keep", "publish"):
        assert command in told
    assert installed.run("a3c-arcade", "app", "--help").stderr == f"{HELP}\n"
