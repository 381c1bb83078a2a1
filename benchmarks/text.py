"""Words and tables of README.md."""

from collections.abc import Iterable


def where(result: dict) -> str:
    """The machine of a result."""
    return f"Measured with: {', '.join(f'{key} {value}' for key, value in result['machine'].items())}."


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """A Markdown table."""
    lines = [list(head), ["---"] * len(list(head)), *rows]
    return "\n".join(f"| {' | '.join(map(str, cells))} |" for cells in lines)
