"""An agent's page in the Zoo tab: what it is, how it learnt, what it scores, how to load it and make it again."""

from collections.abc import Callable
from html import escape

from huggingface_hub import constants

from a3c_core.checkpoint import MODEL
from a3c_core.evaluation import Score
from a3c_core.recipe import Recipe, meaning
from training.log import Progress, read_log
from ui.asynchrony.figures import asynchrony_section
from ui.figures import Goal, curve, minus, number, thinned
from ui.games import game_of
from ui.zoo_tab.figures import Mark, histogram, scale
from ui.zoo_tab.routes import FILES
from ui.zoo_tab.thumbnails import FIRST_CHUNK
from zoo.card import (
    distinct_words,
    duration,
    hours_words,
    learning_words,
    mean_and_spread,
    method_words,
    seeds_words,
    usage,
)
from zoo.entry import ZooEntry
from zoo.peers import peers_of

MOST_POINTS = 300
"""Of a curve; a run logs more."""


def agent_page(entry: ZooEntry) -> str:
    """All that is known of one agent."""
    parts = [opening(entry), learning(entry), scores(entry), by_hand(entry)]
    if entry.recipe.env == "CartPole-v1":
        parts.append(asynchrony_section())
    parts.append(recipe(entry))
    return f'<article class="zoo card page" data-game="{escape(entry.recipe.env)}">{"".join(parts)}</article>'


def opening(entry: ZooEntry) -> str:
    """Name, summary, game, what can be done with it."""
    trained = f"{entry.score.steps:,} steps in {hours_words(entry)}"
    facts = fact("Score", spread(entry.score)) + fact("Trained", trained, f"on {entry.machine}")
    facts += fact("Method", "A3C" if entry.recipe.workers > 1 else "A2C", method_words(entry.recipe))
    return (
        '<p class="back"><a href="?zoo=" data-zoo="">‹ All agents</a></p>'
        f'<header><h2 tabindex="-1">{escape(entry.name)}</h2><p>{escape(entry.summary)}</p></header>'
        f'<div class="opening">{game_button(entry)}<div><dl class="facts">{facts}'
        f"{fact('Size', f'{entry.parameters:,} weights', size_of(entry))}{fact('Licence', entry.licence)}</dl>"
        f'<p class="links">{links(entry)}</p></div></div>'
    )


def links(entry: ZooEntry) -> str:
    """To watch it, and to take it home."""
    found = [f'<a class="main" href="?agent={entry.name}">Watch it play</a>']
    if (entry.directory / MODEL).is_file():
        address = f"arcade/checkpoint?agent={entry.name}"
        found.append(f'<a href="{address}" download>Download all files (zip, {size_of(entry)})</a>')
        here = [file for file in FILES if (entry.directory / file).is_file()]
        found += [f'<a href="{address}&amp;file={file}" download>{file}</a>' for file in here]
    if entry.published:
        address = escape(f"{constants.ENDPOINT}/{entry.published.repo}", quote=True)
        found.append(f'<a href="{address}" target="_blank" rel="noopener">On the Hugging Face Hub</a>')
    return "".join(found)


def game_button(entry: ZooEntry) -> str:
    """A still picture of its game; the script plays some seconds of it while it is pointed at."""
    label = f"Play a few seconds of {game_of(entry.recipe.env).name} by {entry.name}"
    return (
        f'<button type="button" class="replay" data-agent="{entry.name}" data-first="{FIRST_CHUNK}" '
        f'aria-label="{escape(label)}"><img src="arcade/thumbnail?agent={entry.name}" alt="">'
        "<canvas></canvas></button>"
    )


def fact(name: str, value: str, note: str = "") -> str:
    """A number with its name, and a smaller line below."""
    small = f"<small>{escape(note)}</small>" if note else ""
    return f"<div><dt>{escape(name)}</dt><dd>{escape(value)}{small}</dd></div>"


def spread(score: Score) -> str:
    """Mean and standard deviation."""
    return minus(mean_and_spread(score))


def size_of(entry: ZooEntry) -> str:
    """How large the file of its weights is; empty where it is not here."""
    path = entry.directory / MODEL
    size = path.stat().st_size if path.is_file() else 0
    return f"{size / 1e6:.1f} MB" if size >= 1e5 else f"{size / 1e3:.0f} kB" if size else ""


def score_marks(entry: ZooEntry) -> list[Mark]:
    """Its score and the published ones, for a scale."""
    low, high = entry.score.interval
    marks = [Mark("This agent", low, high, number(entry.score.mean), "ours")]
    for peer in peers_of(entry.recipe.env):
        end = peer.highest or peer.score
        words = number(peer.score) if end == peer.score else f"{peer.score:,.0f} to {end:,.0f}"
        marks.append(Mark(peer.player, peer.score, end, words, peer.kind if end == peer.score else "range"))
    return marks


def learning(entry: ZooEntry) -> str:
    """Its training as curves; nothing where no log is kept."""
    moments = thinned(read_log(entry.directory), MOST_POINTS)
    if not moments:
        return ""
    goal = Goal(entry.score.mean, f"its score: {number(entry.score.mean)}")
    steps, length = f"{moments[-1].steps:,} steps", duration(moments[-1].seconds / 3600)
    returned = [moment for moment in moments if moment.mean_return is not None]
    game, by_time = {"game": entry.recipe.env}, f"{RETURN}, by time"
    figures = [
        plotted(returned, lambda p: p.steps, lambda p: p.mean_return, RETURN, steps, goal=goal, marks=4, **game),
        plotted(returned, lambda p: p.seconds, lambda p: p.mean_return, by_time, length, goal=goal, marks=4, **game),
        plotted(moments, lambda p: p.steps, lambda p: p.entropy, "Entropy: how much it still explores", steps, **game),
        plotted(moments, lambda p: p.steps, explained, "Explained variance of the value, cut at −1", steps, **game),
    ]
    words = (
        f"<p>Mean return of 20 games with sampled actions: {minus(learning_words(entry))}.</p>"
        if entry.learning
        else ""
    )
    return f'<section><h3>How it learnt</h3>{words}<div class="learning">{"".join(figures)}</div></section>'


RETURN = "Mean return of the last 100 training games"


def plotted(
    moments: list[Progress],
    x: Callable[[Progress], float],
    y: Callable[[Progress], float | None],
    label: str,
    end: str,
    *,
    game: str,
    goal: Goal | None = None,
    marks: int = 2,
) -> str:
    """One curve of a run, over the moments that have a number."""
    known = [moment for moment in moments if y(moment) is not None]
    ends = ("0", end)
    return curve(list(map(x, known)), list(map(y, known)), label=label, game=game, ends=ends, goal=goal, marks=marks)


def explained(moment: Progress) -> float | None:
    """The value's explained variance, which can fall below any bound and is cut at -1."""
    return None if moment.explained_variance is None else max(-1.0, moment.explained_variance)


def scores(entry: ZooEntry) -> str:
    """What it scores by each protocol, every game's return, and its place among others."""
    columns = ("Conditions", "Mean ± std", "95 % interval", "Median", "Best")
    head = "".join(f'<th scope="col">{column}</th>' for column in columns)
    rows = "".join(score_row(score) for score in entry.scores)
    bars = "".join(histogram(score.returns, f"Returns: {score.conditions}") for score in entry.scores)
    return (
        '<section><h3>What it scores</h3><div class="wide" tabindex="0"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
        f"{f'<p>{escape(entry.limits)}</p>' if entry.limits else ''}"
        f'<p class="small">{escape(seeds_words(entry))} The interval is ± 1.96 standard errors.</p>'
        f'<div class="learning">{scale(score_marks(entry), "Beside what others have published")}{bars}</div></section>'
    )


def score_row(score: Score) -> str:
    """One protocol's score."""
    low, high = score.interval
    cells = (spread(score), f"{number(low)} to {number(high)}", number(score.median), number(score.best))
    numbers = "".join(f'<td class="number">{cell}</td>' for cell in cells)
    conditions = f"{score.conditions}{f', {distinct_words(score)}' if score.distinct else ''}"
    return f"<tr><td>{escape(conditions)}</td>{numbers}</tr>"


def by_hand(entry: ZooEntry) -> str:
    """How to load it and how to make it again."""
    again = f"{entry.command}\npython -m training evaluate {entry.name} --episodes {len(entry.score.returns)}"
    lines = usage(entry.name, greedy=entry.score.greedy)
    return (
        f'<section class="two"><div><h3>Load it</h3><p>With A3C Arcade installed:</p>{code(lines)}</div>'
        f"<div><h3>Reproduce it</h3><p>The command that trained it, and the one that scores it:</p>{code(again)}</div>"
        "</section>"
    )


def code(text: str) -> str:
    """Lines to be copied."""
    copy = '<button type="button" class="copy">Copy</button>'
    return f'<div class="code">{copy}<pre tabindex="0"><code>{escape(text)}</code></pre></div>'


def recipe(entry: ZooEntry) -> str:
    """Every number of its recipe, with what it means."""
    rows = "".join(
        f'<tr><th scope="row"><code>{field}</code></th><td class="number">{escape(shown(getattr(entry.recipe, field)))}'
        f"</td><td>{escape(meaning(field).replace('`', ''))}</td></tr>"
        for field in Recipe.__dataclass_fields__
    )
    return (
        "<details><summary>Its recipe, as it was at the end of the training</summary>"
        f'<div class="wide" tabindex="0"><table class="recipe"><tbody>{rows}</tbody></table></div></details>'
    )


def shown(value: object) -> str:
    """A recipe's value as a reader expects it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(map(shown, value)) or "none"
    if isinstance(value, int):
        return f"{value:,}"
    return minus(f"{value:g}") if isinstance(value, float) else str(value).replace("None", "none")
