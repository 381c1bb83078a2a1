"""The page as a Hugging Face Space: which files of this checkout it takes, and a front matter that names its agents."""

import re
import shutil
from pathlib import Path

import yaml

from a3c_core.checkpoint import MODEL, RECIPE
from zoo.entry import IN_CHECKOUT, ZooEntry

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


def assemble(folder: Path, entries: dict[str, ZooEntry]) -> None:
    """Writes all that a Space needs into `folder`.

    Raises OSError where the disk refuses, ValueError where the package is installed: it lacks the README, for instance.
    """
    if not IN_CHECKOUT:
        raise ValueError("an installed package lacks files that a Space needs: run this in a checkout of A3C Arcade")
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


def with_agents(readme: str, entries: dict[str, ZooEntry]) -> str:
    """The README, its front matter completed by the published agents: linked, and fetched while the Space is built."""
    _, front, text = readme.split("---\n", 2)
    settings = yaml.safe_load(front)
    published = [entry.published for entry in entries.values() if entry.published]
    if published:
        settings["models"] = [copy.repo for copy in published]
        settings["preload_from_hub"] = [f"{copy.repo} {MODEL},{RECIPE} {copy.revision}" for copy in published]
    return f"---\n{yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)}---\n{text}"
