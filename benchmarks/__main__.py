"""Lists the benchmarks and runs those that are named: the figures of benchmarks/README.md and docs/scaling.md.

python -m benchmarks                 # lists them, and when and where each was measured
python -m benchmarks speed pong      # runs these two, one after the other
python -m benchmarks all             # runs all, which takes hours

Each runs as `python -m benchmarks.NAME` does, with the defaults that make its table, in a process of its own. Nothing
else should run meanwhile. The figures of one run are of one machine and one set of versions: compare only such with
each other. A3C against A2C has a command of its own (asynchrony); gpu needs another machine.
"""

import ast
import json
import subprocess
import sys
from pathlib import Path

import tyro
from tyro.conf import Positional

from benchmarks.results import SCALED, SECTIONS, file_of

BENCHMARKS = (*SECTIONS, *SCALED)
ARGUMENTS = {"scaling": ["measure"]}


def main(names: Positional[tuple[str, ...]] = (), /) -> None:
    """List the benchmarks, or run some.

    Args:
        names: benchmarks to run, or all.
    """
    names = BENCHMARKS if names == ("all",) else names
    if unknown := [name for name in names if name not in BENCHMARKS]:
        sys.exit(f"error: there is no benchmark {unknown[0]!r}: choose all, or of {', '.join(BENCHMARKS)}")
    if not names:
        print("\n".join(map(listed, BENCHMARKS)))
        return
    failed = [name for name in names if not run(name)]
    if failed:
        sys.exit(f"error: {', '.join(failed)} failed, and what they had measured before stands")


def listed(name: str) -> str:
    """What a benchmark measures, and when and where it last did."""
    about = ast.get_docstring(ast.parse(Path(__file__).with_name(f"{name}.py").read_text(encoding="utf-8")))
    path, measured = file_of(name), "not measured"
    if path.exists():
        result = json.loads(path.read_text(encoding="utf-8"))
        where = result.get("machine") or next(iter(result.values()))["machine"]  # of the first of its parts
        measured = f"measured {where['date']} on {where['processor']}, torch {where['torch']}"
    return f"{name:18}{about.splitlines()[0]}\n{'':18}{measured}"


def run(name: str) -> bool:
    """Runs one benchmark; returns whether it has measured."""
    print(f"--- {name}", flush=True)
    return subprocess.run([sys.executable, "-m", f"benchmarks.{name}", *ARGUMENTS.get(name, [])]).returncode == 0


if __name__ == "__main__":
    tyro.cli(main)
