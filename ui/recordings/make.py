"""Makes a directory of recordings."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path

import zoo
from a3c_core.envs import Protocol, protocols_of
from ui.recordings.record import Recorded, record
from ui.recordings.shelf import INDEX, write_index
from ui.streaming.agent_catalog import zoo_names
from ui.streaming.chunks import EpisodeSpec


def make(out: Path, specs: Sequence[EpisodeSpec], *, processes: int) -> list[Recorded]:
    """Makes the directory `out`, of the games of these specs.

    Raises ValueError where `out` holds something else, CheckpointError, HubError and OSError.
    """
    with made_anew(out, by=[INDEX]) as new:
        new.mkdir()
        games = record_all(specs, new, processes=processes)
        write_index(games, new)
    return games


@contextmanager
def made_anew(out: Path, *, by: Sequence[str]) -> Iterator[Path]:
    """Where to make a directory that takes the place of `out`, which stays as it is until all is made.

    Raises ValueError where `out` holds something else: what was made before has all the parts `by`.
    """
    if out.exists() and any(out.iterdir()) and not all((out / part).exists() for part in by):
        raise ValueError(f"{out} holds something else: name a directory that is new or was made by this command")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=".arcade-") as scratch:
        new = Path(scratch, out.name)
        yield new
        shutil.rmtree(out, ignore_errors=True)
        new.rename(out)


def process_for_each(processes: int) -> ProcessPoolExecutor:
    """Plays several games at once, each job in a process of its own: a palette grows with the games of a process, and
    the same game should give the same files."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # drawn into an array, not in a window
    return ProcessPoolExecutor(processes, mp_context=get_context("spawn"), max_tasks_per_child=1)


def asked_for(agents: Sequence[str]) -> list[str]:
    """These of the zoo's agents, each once; all where none is named. Raises as `zoo.entry_of` does."""
    for name in agents:
        zoo.entry_of(name)
    return list(dict.fromkeys(agents)) or zoo_names()


def specs_of(agents: Sequence[str], seeds: Sequence[int], protocols: Sequence[Protocol]) -> list[EpisodeSpec]:
    """The games of some of the zoo's agents, as they were scored."""
    entries = zoo.entries()
    return [
        EpisodeSpec(name, seed, greedy=entries[name].score.greedy, protocol=protocol)
        for name in agents
        for protocol in protocols_of(entries[name].recipe.env)
        for seed in seeds
        if protocol in protocols
    ]


def record_all(specs: Sequence[EpisodeSpec], directory: Path, *, processes: int) -> list[Recorded]:
    """Records whole games, several at once."""
    with process_for_each(processes) as pool:
        jobs = [pool.submit(record_one, spec, directory) for spec in specs]
        for job in as_completed(jobs):
            game = job.result()
            size = sum((directory / file).stat().st_size for file in game.files)
            told = f"{game.agent}, {game.protocol}, seed {game.seed}: {game.steps:,} steps, {size / 1e3:,.0f} kB"
            print(told, flush=True)
        return [job.result() for job in jobs]


def record_one(spec: EpisodeSpec, directory: Path) -> Recorded:
    """Records the game of a spec. Raises CheckpointError, HubError and OSError."""
    return record(spec, zoo.load(spec.agent), directory)
