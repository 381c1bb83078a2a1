"""The wheel, installed outside the checkout; and the requirements files, which must ask for what it asks for."""

import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path
from shutil import copy, copytree, ignore_patterns
from typing import NamedTuple

import httpx
import pytest
from packaging.requirements import Requirement

from a3c_arcade import HELP
from tests.serving import serve
from tests.test_structure import FLOORS, ROOT
from training.package import pack
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


def section(title: str) -> str:
    """A section of the README."""
    return (ROOT / "README.md").read_text(encoding="utf-8").split(f"## {title}\n")[1].split("\n## ")[0]


def block(text: str, kind: str) -> str:
    """The first piece of code of a kind that runs `a3c-arcade` or `python -m`, or is Python."""
    blocks = re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)
    return next(code for code in blocks if kind == "python" or code.startswith(("a3c-arcade", "python -m training")))


@pytest.mark.wheel
def test_the_readmes_commands_for_an_installed_package_run(installed, tmp_path):
    train, play, app = (shlex.split(line, comments=True) for line in block(section("Install"), "sh").splitlines())
    assert train == ["a3c-arcade", "train", "cartpole"]
    told = installed.output(*train, "--steps", "4000", "--out", "run")
    assert "score it:  a3c-arcade evaluate run\n" in told
    assert play[:4] == ["a3c-arcade", "zoo", "play", "pong"]
    assert f"{play[-1]}: seed 0" in installed.output(*play)
    assert (installed.place / play[-1]).stat().st_size > 1000
    assert app == ["a3c-arcade", "app"]
    with serve(tmp_path, root=installed.place, command=[installed.bin / app[0], *app[1:]]) as served:
        assert httpx.get(f"{served.url}healthz").json()["status"] == "ok"


@pytest.mark.wheel
def test_the_readmes_environment_is_trained_evaluated_resumed_and_filmed(installed):
    text = section("Train on your own environment")
    (installed.place / "corridor.py").write_text(block(text, "python"))
    commands = [line for line in block(text, "sh").splitlines() if "corridor" in line]
    assert len(commands) == 4
    for line in commands:
        command = shlex.split(line.replace("20000", "400").replace("40000", "800"))
        installed.output(*command, *(["--episodes", "2"] if "evaluate" in command else []))
    assert (installed.place / "corridor.mp4").stat().st_size > 1000


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
over = False
while not over:
    action, memory = agent.act(obs, memory)
    obs, reward, terminated, truncated, _ = env.step(action)
    over, total = terminated or truncated, total + reward
assert files() == before, "an installed zoo is not written into"
print(home, total)
"""
    home, total = installed.python(program).split()
    assert Path(home).is_relative_to(installed.bin.parent)
    assert float(total) > 0  # it has won
    assert "pong_lstm" in installed.output("a3c-arcade", "zoo", "list")


@pytest.mark.wheel
def test_an_installed_page_is_built_with_all_that_it_shows(installed):
    program = """
import ui
from ui.how import lesson
ui.build()
assert "a3c_core/worker.py, line " in lesson()
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


@pytest.mark.wheel
def test_what_a_rented_machine_gets_is_the_package_that_is_here_without_the_zoos_weights(installed, wheel, tmp_path):
    def files_of(package: Path) -> set[str]:
        """What a package installs, but for the records of how."""
        pip("install", package, "--no-build-isolation", "--target", tmp_path / package.stem)
        found = {path.relative_to(tmp_path / package.stem) for path in (tmp_path / package.stem).rglob("*")}
        ours = {path for path in found if "__pycache__" not in path.parts and ".dist-info" not in path.parts[0]}
        return {path.as_posix() for path in ours if (tmp_path / package.stem / path).is_file()}

    program = "from pathlib import Path; from training.package import pack; print(pack(Path('.')).resolve())"
    of_wheel = files_of(Path(installed.python(program).strip()))
    whole = {path for path in files_of(wheel) if not path.startswith("zoo/weights/")}
    assert of_wheel == whole
    assert files_of(pack(tmp_path)) == whole
    assert pack(tmp_path).read_bytes() == pack(tmp_path).read_bytes()
