"""How the commands of a package are called here, for help and hints."""

import sys
from pathlib import Path
from typing import Literal

INSTALLED = {"training": "a3c-arcade", "zoo": "a3c-arcade zoo"}
"""The commands of each package in an installed A3C Arcade."""


def program(package: Literal["training", "zoo"]) -> str:
    """What the user types to call that package: the command a3c-arcade if they called it now, else python -m."""
    called = Path(sys.argv[0]).stem.replace("_", "-")
    return INSTALLED[package] if called == "a3c-arcade" else f"python -m {package}"
