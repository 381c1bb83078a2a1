"""The command `a3c-arcade`: training, zoo and page in one.

Worker processes import this file again, so everything heavy is imported inside functions.
"""

import os
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

HELP = """usage: a3c-arcade COMMAND ...

  a3c-arcade app           serve the page; GRADIO_SERVER_NAME and GRADIO_SERVER_PORT say where;
                           --import MODULE registers environments or encoders of your own first
  a3c-arcade zoo COMMAND   the zoo's agents: list, play and others, see a3c-arcade zoo --help
  a3c-arcade --version     print the version
  a3c-arcade COMMAND       one of the commands of training below
"""


def train(argv: list[str]) -> None:
    """The commands of `python -m training`."""
    from training.__main__ import main

    main(argv)


def zoo(argv: list[str]) -> None:
    """The commands of `python -m zoo`."""
    from zoo.__main__ import main

    main(argv)


def app(argv: list[str]) -> None:
    """Serves the page."""
    option = argv[0].split("=", 1) if argv else []  # --import MODULE, or --import=MODULE
    match [*option, *argv[1:]]:
        case []:
            pass
        case ["--import", module] if module:
            os.environ["A3C_IMPORT"] = module
        case ["-h" | "--help"]:
            raise SystemExit(HELP)
        case _:
            raise SystemExit(f"error: app takes nothing but --import MODULE, not {' '.join(argv)!r}")
    if find_spec("gradio") is None:  # imported only once app.py has said where its files belong
        raise SystemExit("error: the page needs more packages: pip install 'a3c-arcade[app]'")
    from app import main

    main()


COMMANDS = {"app": app, "zoo": zoo}
"""By the first word of the command line; any other belongs to training."""


def main() -> None:
    """Hands the command line to the part that it is for."""
    argv = sys.argv[1:]
    sys.path.append(str(Path.cwd()))  # a module here is found, as by `python -m`, and hides none that is installed
    if argv == ["--version"]:
        print(f"a3c-arcade {version('a3c-arcade')}")
    elif argv and argv[0] in COMMANDS:
        COMMANDS[argv[0]](argv[1:])
    else:
        if argv in ([], ["-h"], ["--help"]):
            print(HELP)
        train(argv or ["--help"])


if __name__ == "__main__":
    main()
