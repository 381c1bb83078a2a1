"""The sections of README.md on training."""

import statistics

from benchmarks.text import table, where

PEERS = {
    "a3c, Nature network, 2 workers": "stable-baselines3 A2C, Nature network",
    "a3c, Nature network in float32, 2 workers": "stable-baselines3 A2C, Nature network",
    "a3c, Nature network, 2 workers of 32 games": "stable-baselines3 A2C, Nature network, 64 games",
    "a3c, Nature network in float32, 2 workers of 32 games": "stable-baselines3 A2C, Nature network, 64 games",
}
"""Competitors that train the same network in as many games."""


def speed(result: dict) -> list[str]:
    """The section on steps per second."""
    seconds = statistics.median(trial["seconds"] for trial in result["trials"])
    return [
        "## Speed",
        "`python -m benchmarks.speed` (its first lines tell how). Steps per second on Pong, the median of "
        f"trials of {seconds:.0f} seconds. *Times the peer* compares our Nature network with the peer's, in as many "
        "games. Ours computes its encoder with bfloat16 where the processor has it and no float32 is named, the peer "
        "with float32.",
        where(result),
        speed_table(result["trials"]),
    ]


def speed_table(trials: list[dict]) -> str:
    """One row per competitor: median, range, share of the emulator's ceiling, ratio to a peer of the same network."""
    rates: dict[str, list[float]] = {}
    for trial in trials:
        rates.setdefault(trial["competitor"], []).append(trial["steps"] / trial["seconds"])
    medians = {name: statistics.median(group) for name, group in rates.items()}
    ceiling = medians["emulator alone"]
    one = medians["a3c, paper's network, 1 worker"]
    rows = []
    for name, group in rates.items():
        median = medians[name]
        cells = (f"{median:,.0f}", f"{min(group):,.0f} to {max(group):,.0f}", f"{median / ceiling:.0%}")
        workers = f"{median / one:.2f}" if "paper's" in name and "games" not in name else ""
        peer = f"{median / medians[PEERS[name]]:.2f}" if name in PEERS else ""
        rows.append((name, *cells, peer, workers))
    head = ("", "steps/s", "slowest to fastest", "of the emulator", "times the peer", "times one worker")
    return table(head, rows)


def encoders(result: dict) -> list[str]:
    """The section on the cost of the encoders for frames."""
    groups: dict[tuple[str, str], list[dict]] = {}
    for trial in result["trials"]:
        groups.setdefault((trial["precision"], trial["encoder"]), []).append(trial)
    rows = []
    for (precision, name), group in groups.items():
        cells = []
        for what in ("acting", "learning"):
            own, paper = (
                statistics.median(trial[what] for trial in trials) for trials in (group, groups[precision, "a3c"])
            )
            cells += [f"{own:,.0f}", f"{own / paper:.2f}"]
        rows.append((name, precision, *cells))
    head = ("", "precision", "acting, us a frame", "times the paper's", "learning, us a frame", "times the paper's")
    return [
        "## Encoders",
        "`python -m benchmarks.encoders` (its first lines tell how). Compare ratios: both are of one run.",
        where(result),
        table(head, rows),
    ]


def time_to_solve(result: dict) -> list[str]:
    """The section on the time to a goal."""
    return [
        "## Time to solve",
        "`python -m benchmarks.time_to_solve` (its first lines tell how the time is taken). Seconds until the mean "
        "return of the last 100 training episodes reaches 475 on CartPole-v1, -200 on Pendulum-v1. An unsolved trial "
        "counts as infinite in the median. *Times as long* is the median divided by that of `a3c`.",
        where(result),
        *(f"**{task}**\n\n{solve_table(result['trials'], task)}" for task in ("cartpole", "pendulum")),
    ]


def solve_table(trials: list[dict], task: str) -> str:
    """One row per competitor: solved, median and range of the seconds, median steps, ratio to ours."""
    groups: dict[str, list[dict]] = {}
    for trial in trials:
        if trial["task"] == task:
            groups.setdefault(trial["competitor"], []).append(trial)
    base = median_seconds(groups["a3c"])
    rows = []
    for name, group in groups.items():
        solved = [trial for trial in group if trial["seconds"] is not None]
        seconds = sorted(trial["seconds"] for trial in solved)
        span = f"{seconds[0]:.1f} to {seconds[-1]:.1f}" if seconds else ""
        steps = f"{statistics.median(trial['steps'] for trial in solved):,.0f}" if solved else ""
        median = median_seconds(group)
        shown, ratio = ("never", "") if median == float("inf") else (f"{median:.1f}", f"{median / base:.1f}")
        rows.append((name, f"{len(solved)} of {len(group)}", shown, span, steps, ratio))
    return table(("", "solved", "median s", "fastest to slowest s", "median steps", "times as long"), rows)


def median_seconds(group: list[dict]) -> float:
    """Median seconds of a competitor's trials, an unsolved one counting as infinite."""
    return statistics.median(float("inf") if trial["seconds"] is None else trial["seconds"] for trial in group)


def pong(result: dict) -> list[str]:
    """The section on Pong from nothing."""
    rows = []
    for trial in result["trials"]:
        seconds, steps, episodes, mean = trial["log"][-1]
        ending = "" if trial["solved"] else ", given up"
        rows.append((trial["seed"], f"{seconds / 60:.1f}{ending}", f"{steps:,}", f"{episodes:,}", f"{mean:.1f}"))
    return [
        "## Pong from nothing",
        "`python -m benchmarks.pong` (its first lines tell how). Minutes until the mean return of the last 100 "
        f"training episodes reaches {result['goal']:g}; a training is given up after {result['minutes']:g}.",
        where(result),
        table(("seed", "minutes", "steps", "episodes", "mean return"), rows),
    ]
