"""The metrics of a run: Progress, one record per interval, kept as JSON lines and as TensorBoard events."""

import json
import shutil
import tempfile
import time
from collections import deque
from contextlib import closing
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from tensorboardX import SummaryWriter
from tensorboardX.proto.summary_pb2 import Summary

from a3c_core import checkpoint
from a3c_core.worker import Report

LOG = "log.jsonl"
NO_SCALARS = ("steps", "encoder", "active")
"""Fields of Progress that are no curve of their own in TensorBoard."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a run has come: a line of its log. Numbers of updates are means over those since the line before."""

    steps: int
    """Steps of all workers together."""
    seconds: float
    """Seconds of training, of all segments together, workers' start included."""
    steps_per_second: float
    """Since the line before."""
    seconds_left: float | None
    """At this segment's speed; None before there is one."""
    episodes: int
    """Training episodes finished."""
    mean_return: float | None
    """Mean true return of the last 100 training episodes; None before the first has ended."""
    updates: int
    """Gradients handed over since the line before."""
    learning_rate: float
    encoder: str = "float32"
    """Type of the numbers that the workers' encoders compute with: float32 or bfloat16."""
    policy_loss: float | None = None
    value_loss: float | None = None
    entropy: float | None = None
    """Of the policy, in nats."""
    explained_variance: float | None = None
    """1 is a perfect value, 0 a constant one."""
    gradient_norm: float | None = None
    """Before clipping."""
    staleness: float | None = None
    """Updates of other workers between a worker's pull and its push."""
    active: tuple[float, ...] | None = None
    """Share of each ReLU layer's units that were active at all since the line before; the rest are dead."""
    messages: int | None = None
    """Of a cluster's workers to the shared weights since the line before, each with its answer; else None."""
    megabytes: float | None = None
    """Of gradients and weights in these messages and answers."""
    dropped: int | None = None
    """Gradients since the line before that were too stale to be used."""


def words(mean_return: float | None) -> str:
    """The mean return of the last 100 training episodes, as progress lines have it."""
    return "no episode yet" if mean_return is None else f"mean return {mean_return:.1f}"


class Metrics:
    """Counts what the workers report, from one Progress to the next."""

    def __init__(self, *, seconds: float = 0.0, episodes: int = 0, steps: int = 0) -> None:
        self.episodes = episodes
        self.recent: deque[float] = deque(maxlen=100)
        """True returns of the last 100 training episodes."""
        self._reports: list[Report] = []
        self._started = time.monotonic() - seconds
        self._segment = self._latest = (time.monotonic(), steps)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    def add(self, report: Report) -> None:
        self._reports.append(report)
        self.episodes += len(report.returns)
        self.recent.extend(report.returns)

    def progress(
        self, steps: int, *, goal: int, learning_rate: float, encoder: str = "float32", **traffic: float
    ) -> Progress:
        """The Progress since the last call; `traffic` gives the fields that a cluster adds."""
        now = time.monotonic()
        rate = (steps - self._latest[1]) / max(now - self._latest[0], 1e-6)
        pace = (steps - self._segment[1]) / max(now - self._segment[0], 1e-6)
        self._latest = (now, steps)
        reports, self._reports = self._reports, []
        means = {name: _mean([getattr(report, name) for report in reports]) for name in _MEANS} if reports else {}
        layers = zip(*(report.active for report in reports), strict=True)
        active = tuple(float(np.any(masks, axis=0).mean()) for masks in layers)
        return Progress(
            steps=steps,
            seconds=self.seconds,
            steps_per_second=rate,
            seconds_left=max(0, goal - steps) / pace if pace else None,
            episodes=self.episodes,
            mean_return=_mean(self.recent) if self.recent else None,
            updates=len(reports),
            learning_rate=learning_rate,
            encoder=encoder,
            **means,
            active=active or None,
            **traffic,
        )


_MEANS = ("policy_loss", "value_loss", "entropy", "explained_variance", "gradient_norm", "staleness")


def _mean(numbers: "list[float] | deque[float]") -> float:
    return sum(numbers) / len(numbers)


class Log:
    """Writes each Progress to log.jsonl and to TensorBoard events in a run's directory.

    What was logged `after` those steps is dropped: a run that was killed goes on from its last checkpoint, before it.
    """

    def __init__(self, directory: Path, *, after: int = 0) -> None:
        rewind(directory, after)
        self._lines = (directory / LOG).open("a", encoding="utf-8", buffering=1)
        self._events = SummaryWriter(str(directory), flush_secs=10, purge_step=after + 1)

    def write(self, progress: Progress) -> None:
        self._lines.write(line_of(progress))
        add_scalars(self._events, progress)

    def close(self) -> None:
        self._lines.close()
        self._events.close()


def line_of(progress: Progress) -> str:
    """A line of log.jsonl."""
    return json.dumps(asdict(progress)) + "\n"


def rewind(directory: Path, steps: int) -> None:
    """Drops from log.jsonl what came after so many steps, and a last line that a crash cut short.

    All other lines stay as they are, to the letter, those too that this version cannot read.
    """
    path = directory / LOG
    if not path.is_file():
        return
    text = path.read_text(encoding="utf-8")
    *whole, last = text.split("\n")
    if _record(last) is not None:  # whole, but for the end of the line
        whole.append(last)
    kept = "".join(f"{line}\n" for line in whole if _steps(line) <= steps)
    if text != kept:
        checkpoint.write_atomically(path, lambda part: part.write_text(kept, encoding="utf-8"))


def _record(line: str) -> dict[str, Any] | None:
    """The fields in a line of log.jsonl; None for a line that is no JSON object."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def _steps(line: str) -> float:
    """The steps that a line tells of; 0 where it tells of none."""
    steps = (_record(line) or {}).get("steps")
    return steps if isinstance(steps, int | float) else 0


def add_scalars(events: SummaryWriter, progress: Progress, *, walltime: float | None = None) -> None:
    """Writes the numbers of a Progress as TensorBoard has them, in one event: each costs time of its own."""
    numbers = {f"train/{name}": value for name, value in asdict(progress).items() if name not in NO_SCALARS}
    numbers |= {f"active/layer{layer}": share for layer, share in enumerate(progress.active or (), start=1)}
    values = [Summary.Value(tag=tag, simple_value=value) for tag, value in numbers.items() if value is not None]
    events.file_writer.add_summary(Summary(value=values), progress.steps, walltime)


def write_events(directory: Path, log: list[Progress]) -> None:
    """Writes the log of a past run to a TensorBoard file, at seconds since its start."""
    with tempfile.TemporaryDirectory() as scratch:
        with closing(SummaryWriter(scratch)) as events:
            for progress in log:
                add_scalars(events, progress, walltime=progress.seconds)
        (written,) = Path(scratch).iterdir()
        shutil.copyfile(written, directory / "events.out.tfevents.0.training")


def read_log(directory: Path) -> list[Progress]:
    """All metrics of a run, in order. Fields that this version does not know are left out, and so are lines that are no
    Progress, as one that a crash cut short."""
    path = directory / LOG
    known = {field.name for field in fields(Progress)}
    log = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        try:
            progress = Progress(**{name: value for name, value in (_record(line) or {}).items() if name in known})
            log.append(replace(progress, active=progress.active and tuple(progress.active)))
        except TypeError:
            continue
    return log
