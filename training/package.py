"""This package as one file that a machine elsewhere installs: what runs here, local changes included, runs there.

The address of a git repository would know nothing of local changes, and the machine would have to be let into it.
"""

import gzip
import io
import tarfile
import tomllib
import zipfile
from importlib.metadata import distribution
from pathlib import Path

from zoo.entry import IN_CHECKOUT, WEIGHTS

PROJECT = "a3c_arcade"
ROOT = Path(__file__).parents[1]
PACKAGES = ("a3c_core", "playback", "zoo", "training", "ui")
FILES = ("pyproject.toml", "README.md", "LICENSE", "a3c_arcade.py", "app.py")
PIPS_OWN = ("INSTALLER", "REQUESTED", "direct_url.json")
"""Files that pip adds to those of a wheel."""


def pack(folder: Path) -> Path:
    """Writes into `folder` what pip or uv installs, and returns the file: of a checkout its sources, which takes no
    tools here, of an installed package its wheel. The same code gives the same file. The zoo's weights stay here.

    Raises OSError where the disk refuses.
    """
    return _sources(folder) if IN_CHECKOUT else _wheel(folder)


def _sources(folder: Path) -> Path:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    name = f"{PROJECT}-{version}"
    inside = [path for package in PACKAGES for path in (ROOT / package).rglob("*") if _travels(path)]
    packed = folder / f"{name}.tar.gz"
    with (
        packed.open("wb") as file,
        gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as archive,
    ):
        for path in sorted([*inside, *(ROOT / file for file in FILES)]):
            entry = tarfile.TarInfo(f"{name}/{path.relative_to(ROOT).as_posix()}")
            content = path.read_bytes()
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    return packed


def _wheel(folder: Path) -> Path:
    """A wheel is what was installed from it; pip has added its own records to that, and Python its byte code."""
    installed = distribution(PROJECT)
    packed = folder / f"{PROJECT}-{installed.version}-py3-none-any.whl"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(installed.files or ()):
            path = Path(file.locate())
            if ".." not in file.parts and file.name not in PIPS_OWN and _travels(path):
                archive.writestr(zipfile.ZipInfo(file.as_posix()), path.read_bytes(), zipfile.ZIP_DEFLATED)
    return packed


def _travels(path: Path) -> bool:
    return path.is_file() and "__pycache__" not in path.parts and not path.is_relative_to(WEIGHTS)
