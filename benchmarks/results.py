"""What benchmarks keep: results/*.json, and what is written from them, README.md and docs/scaling.md.

python -m benchmarks.results     # writes both anew from results/
"""

import importlib.metadata
import json
import os
import platform
from datetime import UTC, datetime
from pathlib import Path

import torch

from a3c_core.devices import encoder_dtype
from a3c_core.recipe import Recipe
from benchmarks.page_tables import endurance, freed, key_to_frame, load, page_weight, waits
from benchmarks.scaling_page import page
from benchmarks.training_tables import encoders, pong, speed, time_to_solve

HERE = Path(__file__).parent
SCALING = HERE.parent / "docs" / "scaling.md"
PACKAGES = ("torch", "gymnasium", "ale-py", "gradio")
"""Whose versions are told with every result."""
SECTIONS = {
    section.__name__: section
    for section in (
        speed,
        encoders,
        time_to_solve,
        pong,
        waits,
        page_weight,
        key_to_frame,
        freed,
        load,
        endurance,
    )
}
"""In the order of README.md; each writes what its benchmark has kept."""
SCALED = ("cluster", "faults", "cluster_memory", "scaling")
"""The benchmarks of docs/scaling.md."""


def machine(*packages: str) -> dict[str, str | int]:
    """Where and with what a benchmark ran."""
    model = next((line.split(":")[1].strip() for line in _cpuinfo() if line.startswith("model name")), "unknown")
    versions = {name: importlib.metadata.version(name) for name in packages}
    now = datetime.now(UTC).date().isoformat()
    fast = encoder_dtype(Recipe(precision="bfloat16")) == torch.bfloat16
    model += f" {'with' if fast else 'without'} bfloat16"
    return {"date": now, "processor": model, "cores": os.cpu_count(), "python": platform.python_version(), **versions}


def _cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []


def save(name: str, result: dict) -> None:
    """Keeps a benchmark's result and writes what shows it anew."""
    file_of(name).write_text(json.dumps(result, indent=1) + "\n")
    write_pages()


def write_pages() -> None:
    """Writes README.md and docs/scaling.md anew."""
    (HERE / "README.md").write_text(readme())
    SCALING.write_text(scaling())


def file_of(name: str) -> Path:
    """Where the result of that benchmark is kept."""
    return HERE / "results" / f"{name}.json"


def readme() -> str:
    """README.md, from the results alone."""
    parts = []
    for name, section in SECTIONS.items():
        if (path := file_of(name)).exists():
            parts += section(json.loads(path.read_text()))
    return (
        "\n\n".join(
            [
                "# Benchmarks",
                "Written by `python -m benchmarks.results` from `results/*.json`; do not edit. `python -m benchmarks "
                "all` measures all of it anew. A3C against A2C is in [docs/asynchrony.md](../docs/asynchrony.md).",
                *parts,
            ]
        )
        + "\n"
    )


def scaling() -> str:
    """docs/scaling.md, from the results alone."""
    paths = {name: file_of(name) for name in SCALED}
    return page({name: json.loads(path.read_text()) for name, path in paths.items() if path.exists()})


if __name__ == "__main__":
    write_pages()
