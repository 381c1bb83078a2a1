"""Evaluations beside a running training: another process plays, the best checkpoint is kept."""

import json
import shutil
import signal
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch

from a3c_core.agent import Agent
from a3c_core.checkpoint import load_agent, save_agent
from a3c_core.evaluation import evaluate
from a3c_core.recipe import Recipe
from training.local import die_with_parent

EVALUATIONS, BEST = "evaluations.jsonl", "best"
CANDIDATE = ".candidate"
EVALUATION_SEED = 600_000_000
"""First of the games that choose a run's best checkpoint: not those of training, of a published score, or from
`training.keep.CHOOSING_SEED` or `training.search.SEARCH_SEED` on."""
GAMES = 20


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What a checkpoint of a run scored."""

    steps: int
    mean: float
    std: float
    games: int
    greedy: bool = True
    """Whether the likeliest actions were taken, or ones drawn from the policy."""


class Evaluator:
    """Has a run's agent play after each `every` steps, in a process of its own, one evaluation at a time.

    An evaluation that is due while another is under way is left out.
    """

    def __init__(self, directory: Path, context: BaseContext, *, every: int, steps: int, greedy: bool) -> None:
        self.directory, self.context, self.every, self.greedy = directory, context, every, greedy
        shutil.rmtree(directory / CANDIDATE, ignore_errors=True)
        self._due = (steps // every + 1) * every
        self.evaluated = 0
        """Steps of the agent whose evaluation began last."""
        self._process: BaseProcess | None = None
        self._result: Connection | None = None

    def is_due(self, steps: int) -> bool:
        """Whether so many steps have gone by that the next evaluation may begin."""
        return steps >= self._due and self._process is None

    def start(self, agent: Agent, *, run: Recipe, phase: int) -> None:
        """Keeps the agent as a candidate and has it play."""
        self.evaluated = agent.steps
        self._due = (agent.steps // self.every + 1) * self.every
        save_agent(self.directory / CANDIDATE, agent, run=run, phase=phase)
        self._result, theirs = self.context.Pipe(duplex=False)
        self._process = self.context.Process(
            target=_evaluate,
            args=(self.directory / CANDIDATE, theirs, self.greedy),
            name="a3c-evaluation",
            daemon=True,
        )
        self._process.start()
        theirs.close()

    def collect(self, seconds: float = 0.0) -> bool:
        """Notes the evaluation under way if it ends within `seconds`; returns whether none is under way any more."""
        if self._process is None:
            return True
        if not self._result.poll(seconds):
            return False
        with suppress(EOFError):  # it died: the run goes on without it
            self._note(self._result.recv())
        self.stop()
        return True

    def _note(self, evaluation: Evaluation) -> None:
        alike = [each.mean for each in read_evaluations(self.directory) if each.greedy == evaluation.greedy]
        best = max(alike, default=-float("inf"))
        if evaluation.mean > best:
            shutil.rmtree(self.directory / BEST, ignore_errors=True)
            (self.directory / CANDIDATE).rename(self.directory / BEST)
        with (self.directory / EVALUATIONS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(evaluation)) + "\n")

    def stop(self) -> None:
        """Ends the evaluation that is under way, if there is one."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._result.close()
            self._process = None
        shutil.rmtree(self.directory / CANDIDATE, ignore_errors=True)


def _evaluate(place: Path, result: Connection, greedy: bool) -> None:
    """Entry point of the process that plays."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=die_with_parent, daemon=True).start()
    torch.set_num_threads(1)
    agent = load_agent(place)
    score = evaluate(agent, GAMES, greedy=greedy, first_seed=EVALUATION_SEED)
    result.send(Evaluation(steps=agent.steps, mean=score.mean, std=score.std, games=GAMES, greedy=greedy))


def read_evaluations(directory: Path) -> list[Evaluation]:
    """All evaluations of a run, in order; lines that are none, as one that a crash cut short, are left out."""
    path, names = directory / EVALUATIONS, [field.name for field in fields(Evaluation)]
    found = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        try:
            record = json.loads(line)
            found.append(Evaluation(**{name: record[name] for name in names if name in record}))
        except (ValueError, TypeError):
            continue
    return found
