"""Results of a study as JSON lines, one added after each training: what a kill leaves behind reads."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

T = TypeVar("T")


def read_lines(path: Path, kind: type[T]) -> list[T]:
    """All of the file's records. A line that a kill cut short is left out; where there is no file there are none."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        try:
            found.append(TypeAdapter(kind).validate_json(line))
        except ValidationError:
            continue
    return found


def append_line(path: Path, record: object) -> None:
    """Adds a dataclass's record to the file, which need not be there yet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        before = path.read_bytes()  # a kill may have cut the last line short
        file.write(("\n" if before and not before.endswith(b"\n") else "") + json.dumps(asdict(record)) + "\n")
