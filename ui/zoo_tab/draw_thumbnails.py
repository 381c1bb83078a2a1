"""Draws the still pictures that ship with the page: `python -m ui.zoo_tab.draw_thumbnails`, after an agent was kept."""

import zoo
from a3c_core.checkpoint import MODEL
from ui.zoo_tab.thumbnails import THUMBNAILS, drawn, file_of


def main() -> None:
    """Draws those of all agents that ship, and throws the others away."""
    THUMBNAILS.mkdir(exist_ok=True)
    shipped = [entry for entry in zoo.entries().values() if entry.directory.exists()]
    for entry in shipped:
        file_of(entry).write_bytes(drawn(entry.name, entry.sha256[MODEL]))
    for file in set(THUMBNAILS.iterdir()) - {file_of(entry) for entry in shipped}:
        file.unlink()


if __name__ == "__main__":
    main()
