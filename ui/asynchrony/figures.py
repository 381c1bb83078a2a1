"""The measured trainings as figures and tables: on the Zoo's page in short, in How it works in full."""

import json
from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

from training.compare import BASE
from ui.asynchrony import findings
from ui.asynchrony.findings import Finding, name_of, setting_name, workers
from ui.asynchrony.record import Estimate, Record, Study, Way, record
from ui.figures import precise
from ui.zoo_tab.figures import Band, bands, bands_file, shares

UNITS = {"steps": "by steps", "seconds": "by time", "updates": "by updates"}
"""What the returns are drawn against."""
RETURN = "Mean return of the last 100 training games"


class Plot(NamedTuple):
    """What one figure shows, on the page or in a file."""

    name: str
    label: str
    end: str
    groups: list[Band]

    def html(self) -> str:
        """The figure for the page."""
        return bands(self.groups, label=self.label, end=self.end)

    def svg(self, *, night: bool) -> str:
        """The figure for a file."""
        return bands_file(self.groups, label=self.label, end=self.end, night=night)


def plot(name: str, words: str, ways: Sequence[Way], unit: str, called: Callable[[Way], str]) -> Plot | None:
    """The returns of some ways to train; None where none of them has any."""
    groups = [Band(called(way), **vars(way.curves[unit])) for way in ways if way.curves[unit].x]
    if not groups:
        return None
    furthest = max(group.x[-1] for group in groups)
    end = f"{furthest:.1f} s" if unit == "seconds" else f"{furthest:,.0f} {unit}"
    return Plot(f"{name}-{unit}", f"{words}, {UNITS[unit]}", end, groups)


def plots(study: Study) -> list[Plot]:
    """All figures of a study: by number of workers and by hand-over, or each setting beside the base."""
    if study.ablates:
        base = [way for way in study.ways if way.setting == BASE]
        made = [
            plot(
                f"{study.game}-{way.setting}", f"Mean return, {setting_name(way)}", [*base, way], "steps", setting_name
            )
            for way in study.ways
            if way.setting != BASE
        ]
    else:
        made = [plot(f"{study.game}-workers", RETURN, by_workers(study), unit, name_of) for unit in UNITS]
        for count in dict.fromkeys(way.workers for way in study.ways if not way.is_a2c):
            ways = [way for way in study.ways if way.workers == count]
            name, words = f"{study.game}-{count}-workers", f"Mean return, {count} workers"
            made += [plot(name, words, ways, unit, name_of) for unit in ("steps", "seconds")]
    return [each for each in made if each]


def by_workers(study: Study) -> list[Way]:
    """A2C, and several workers that do not wait."""
    return [way for way in study.ways if way.is_a2c] + findings.asynchronous(study)


class Column(NamedTuple):
    """A measure in the table."""

    head: str
    measure: str


COLUMNS = (
    Column("Steps/s", "steps_per_second"),
    Column("Final score", "score"),
    Column("Variance of returns", "variance"),
    Column("Gradient norm", "gradient_norm"),
    Column("Staleness", "staleness"),
    Column("Lost of 1,000", "lost"),
)


def columns(study: Study) -> list[Column]:
    """Of the table of a study: the goals, then all else that is known of any way."""
    goals = [
        Column(f"{what} to {goal}", f"{what.lower()}_to_{goal}")
        for goal in study.goals
        for what in ("Steps", "Seconds")
    ]
    return [each for each in (*goals, *COLUMNS) if any(each.measure in way.measures for way in study.ways)]


def rows(study: Study) -> list[list[tuple[str, str]]]:
    """The table's cells, each with a smaller line below it."""
    made = []
    for way in study.ways:
        got = ", ".join(f"{count} to {goal}" for goal, count in way.reached.items())
        called = (setting_name(way), changes_of(study, way)) if study.ablates else (name_of(way), "")
        made.append([called, (str(way.seeds), got)] + [cell(way.measures.get(each.measure)) for each in columns(study)])
    return made


def heads(study: Study) -> list[str]:
    """The table's head."""
    return ["Setting" if study.ablates else "Way", "Trainings", *(each.head for each in columns(study))]


def cell(estimate: Estimate | None) -> tuple[str, str]:
    """A number, and its interval."""
    if estimate is None:
        return "", ""
    if estimate.low is None:
        return "never", ""
    return ("never" if estimate.middle is None else precise(estimate.middle)), findings.span(estimate)


def changes_of(study: Study, way: Way) -> str:
    """What a setting changes, as the study's file has it."""
    base = next((other.changes for other in study.ways if other.setting == BASE), {})
    return ", ".join(f"{name}: {json.dumps(value)}" for name, value in way.changes.items() if base.get(name) != value)


def table(study: Study) -> str:
    """Every number of a study."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in heads(study))
    body = "".join(
        "<tr>"
        + "".join(
            f"<{tag}>{escape(text)}{f'<small>{escape(below)}</small>' if below else ''}</{tag.split()[0]}>"
            for tag, (text, below) in zip(('th scope="row"', *["td"] * len(cells)), cells, strict=False)
        )
        + "</tr>"
        for cells in rows(study)
    )
    return (
        f'<div class="table wide" tabindex="0"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def staleness(study: Study) -> str:
    """How stale the gradients were, as bars for each number of workers."""
    return "".join(
        shares(way.stalest, f"Staleness, {workers(way)}", ("0", f"{len(way.stalest) - 1} or more"))
        for way in findings.asynchronous(study)
    )


def paragraphs(found: Sequence[Finding]) -> str:
    """Findings as text."""
    return "".join(f'<p class="finding"><strong>{escape(title)}.</strong> {escape(text)}</p>' for title, text in found)


def asynchrony_section(found: Record | None = None) -> str:
    """The comparison in short, for the Zoo's page; empty where it was not measured."""
    study = (found or record()).comparison()
    if study is None:
        return ""
    figures = [made.html() for made in plots(study)[:2]]
    told = [finding for finding in findings.comparison_findings(study) if finding.title in ("Steps", "Time")]
    return (
        f'<section class="card measured"><h2>What asynchrony bought and cost</h2>{paragraphs(told)}'
        f'<div class="learning">{"".join(figures)}</div><p class="small">{escape(findings.conditions(study))}. Lines '
        "are interquartile means, bands and brackets their 95 % intervals. "
        '<a href="?tab=how#measured">All that was measured</a></p></section>'
    )


def measured(found: Record | None = None) -> str:
    """All that was measured, for How it works; empty where nothing was."""
    found = found or record()
    parts = [comparison(found.comparison())] if found.comparison() else []
    parts += [ablation(study) for study in found.ablations()]
    return f'<div class="measured">{"".join(parts)}</div>' if parts else ""


def comparison(study: Study) -> str:
    """Workers and hand-overs, with their findings."""
    workers_alone = [made.html() for made in plots(study) if made.name.startswith(f"{study.game}-workers")]
    others = [made.html() for made in plots(study) if not made.name.startswith(f"{study.game}-workers")]
    return (
        f"<p>{escape(findings.conditions(study))}.</p>"
        f"<h4>What is often said, and what came out</h4>{paragraphs(findings.claim_findings(study))}"
        f"<h4>Lock-free workers against A2C</h4>{paragraphs(findings.comparison_findings(study))}"
        f'<div class="curves pairs">{"".join(workers_alone)}</div><div class="curves pairs">{staleness(study)}</div>'
        f"<h4>How gradients are handed over</h4>{paragraphs(findings.handover_findings(study))}"
        f'<div class="curves pairs">{"".join(others)}</div>{table(study)}'
    )


def ablation(study: Study) -> str:
    """Settings beside their base, with their findings."""
    return (
        f"<h4>One change at a time</h4><p>{escape(findings.conditions(study))}.</p>"
        f"{paragraphs(findings.ablation_findings(study))}"
        f'<div class="curves pairs">{"".join(made.html() for made in plots(study))}</div>{table(study)}'
    )
