"""A visitor's checkpoint as a zip file to take home."""

from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

from a3c_core.checkpoint import MODEL, RECIPE
from training.log import LOG
from ui.games import game_of
from ui.retrain.jobs import Run


def archive_of(run: Run) -> Path:
    """Where the zip file of a run's checkpoint is."""
    return run.directory / f"{game_of(run.recipe.env).name.lower()}-a3c.zip"


def packed(run: Run) -> Path:
    """The run's checkpoint as a zip file."""
    path = archive_of(run)
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for file in (MODEL, RECIPE, LOG):
            archive.write(run.checkpoint / file, file)
    return path
