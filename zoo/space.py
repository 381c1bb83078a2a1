"""The page as a Hugging Face Space: which files of this checkout it takes, and a front matter that names its agents.
A static Space takes the files of a static arcade instead."""

import re
import shutil
from pathlib import Path
from typing import Any

import yaml

from a3c_core.checkpoint import MODEL, RECIPE
from zoo.entry import IN_CHECKOUT, ZooEntry
from zoo.program import program

ROOT = Path(__file__).parents[1]
REQUIREMENTS = "requirements.txt"
PARTS = (
    "app.py",
    "a3c_core",
    "playback",
    "zoo",
    "training",
    "ui",
    "docs",
    REQUIREMENTS,
    "LICENSE",
)
"""What a Space takes besides the README; tests, benchmarks and runs stay here."""
TORCH = "torch==2.11.0"
"""The newest that ZeroGPU takes: it refuses a Space that names another, and any other hardware takes this one too. Its
Python is that of the README's front matter."""
STATIC = {
    "sdk": "static",
    "short_description": "Watch A3C agents play, from their first steps on",
}
"""What the front matter of a static Space says besides `KEPT`."""
KEPT = ("title", "emoji", "colorFrom", "colorTo", "license", "tags")
"""What it takes of the README's."""
STATIC_TEXT = """
# A3C Arcade

Recorded games of agents that were trained with A3C, and two games that they play in your browser itself. It is a folder
of plain files, which `python -m zoo build-static` made.
"""


def assemble(folder: Path, entries: dict[str, ZooEntry]) -> None:
    """Writes all that a Space needs into `folder`.

    Raises OSError where the disk refuses, ValueError where the package is installed.
    """
    check_checkout()
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, folder / part)
    requirements = (ROOT / REQUIREMENTS).read_text(encoding="utf-8")
    (folder / REQUIREMENTS).write_text(re.sub(r"(?m)^torch\b.*$", TORCH, requirements), encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (folder / "README.md").write_text(with_agents(readme, entries), encoding="utf-8")


def assemble_static(folder: Path, site: Path, entries: dict[str, ZooEntry]) -> None:
    """Writes a static Space into `folder`: the static arcade in `site`, and a README.

    Raises OSError where the disk refuses, ValueError where there is no static arcade or the package is installed.
    """
    check_checkout()
    if not all((site / part).is_file() for part in ("index.html", "index.json")):
        raise ValueError(f"{site} holds no static arcade: make one with {program('zoo')} build-static --out {site}")
    shutil.copytree(site, folder)
    front, _ = parts_of((ROOT / "README.md").read_text(encoding="utf-8"))
    settings = {name: front[name] for name in KEPT} | STATIC
    if published := [entry.published.repo for entry in entries.values() if entry.published]:
        settings["models"] = published
    (folder / "README.md").write_text(joined(settings, STATIC_TEXT), encoding="utf-8")


def check_checkout() -> None:
    """Raises ValueError where the package is installed: it lacks the README, for instance."""
    if not IN_CHECKOUT:
        raise ValueError("an installed package lacks files that a Space needs: run this in a checkout of A3C Arcade")


def parts_of(readme: str) -> tuple[dict[str, Any], str]:
    """The front matter of a README, and its text."""
    _, front, text = readme.split("---\n", 2)
    return yaml.safe_load(front), text


def joined(settings: dict[str, Any], text: str) -> str:
    """A README of that front matter and text."""
    return f"---\n{yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)}---\n{text}"


def with_agents(readme: str, entries: dict[str, ZooEntry]) -> str:
    """The README, its front matter completed by the published agents: linked, and fetched while the Space is built."""
    settings, text = parts_of(readme)
    published = [entry.published for entry in entries.values() if entry.published]
    if published:
        settings["models"] = [copy.repo for copy in published]
        settings["preload_from_hub"] = [f"{copy.repo} {MODEL},{RECIPE} {copy.revision}" for copy in published]
    return joined(settings, text)
