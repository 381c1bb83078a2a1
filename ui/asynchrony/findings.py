"""What the intervals say, in sentences that come out right whichever way the numbers point."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from training.compare import BASE
from training.recipes import RECIPES
from ui.asynchrony.record import Estimate, Study, Way
from ui.figures import precise
from ui.games import game_of

A2C, LOCK_FREE = "a2c", "lock-free"
"""What ways are compared with, beside the base of settings: one worker, and as many that take no turns."""
HANDOVERS = {
    "lock-free": "lock-free",
    "lock": "under a lock",
    "queue": "with a queue",
    "synchronous": "synchronous",
}


UNCLEAR = "too wide an interval to tell"
FEWEST = 4
"""Trainings of a kind from which intervals are told: with three, chance alone parts one pair of equal kinds in ten."""


class Question(NamedTuple):
    """One measure as a question, and how to say any answer."""

    title: str
    measure: str
    """May hold the goal's place."""
    less: str
    more: str
    size: str
    about: str
    """What the interval is of."""
    ratio: bool = True
    """Whether ways are compared by how many times as much it is, else by how much more."""

    @property
    def same(self) -> float:
        """The number of no difference."""
        return 1.0 if self.ratio else 0.0


class Finding(NamedTuple):
    """An answer."""

    title: str
    text: str


GOAL = "a mean return of {goal}"
STEPS = Question(
    title="Steps",
    measure="steps_to_{goal}",
    less=f"needed fewer steps to {GOAL}",
    more=f"needed more steps to {GOAL}",
    size="times as many",
    about=f"the steps to {GOAL}",
)
TIME = Question(
    title="Time",
    measure="seconds_to_{goal}",
    less=f"got sooner to {GOAL}",
    more=f"got later to {GOAL}",
    size="times as long",
    about=f"the time to {GOAL}",
)
SPEED = Question(
    title="Speed",
    measure="steps_per_second",
    less="made fewer steps in a second",
    more="made more steps in a second",
    size="times as many",
    about="the steps in a second",
)
SCORE = Question(
    title="Score",
    measure="score",
    less="scored lower at the end",
    more="scored higher at the end",
    size="points",
    about="the score",
    ratio=False,
)
VARIANCE = Question(
    title="Variance",
    measure="variance",
    less="had returns that varied less in the second half",
    more="had returns that varied more in the second half",
    size="points squared",
    about="the variance",
    ratio=False,
)
GRADIENTS = Question(
    title="Gradients",
    measure="gradient_norm",
    less="had shorter gradients",
    more="had longer gradients",
    size="times as long",
    about="their length",
)
QUESTIONS = (STEPS, TIME, SPEED, SCORE, VARIANCE, GRADIENTS)


class Claim(NamedTuple):
    """What is often said of A3C, and which numbers bear it out."""

    says: str
    question: Question
    handover: str
    """Whose workers are meant."""
    reference: str
    """What they are compared with."""
    expected: str
    """The direction of the measure that bears the claim out: less or more."""
    explanation: str


CLAIMS = (
    Claim(
        "Workers that do not wait make more steps in a second than A2C",
        SPEED,
        LOCK_FREE,
        A2C,
        "more",
        "Workers beyond the number of cores only share them. A worker with fewer games also takes longer for a step of "
        "each, since its batches are smaller.",
    ),
    Claim(
        "They learn less from as many steps than A2C, since their gradients are stale",
        STEPS,
        LOCK_FREE,
        A2C,
        "more",
        "They also make as many times more updates as there are workers, each from fewer games.",
    ),
    Claim(
        "Updates need a lock, or workers spoil each other's",
        STEPS,
        "lock",
        LOCK_FREE,
        "less",
        "How many updates are lost is told below.",
    ),
    Claim(
        "Workers that wait for each other learn more from as many steps than workers that do not",
        STEPS,
        "synchronous",
        LOCK_FREE,
        "less",
        "They make one update with the mean of all gradients where the others make one with each, at the same learning "
        "rate.",
    ),
    Claim(
        "Workers that wait for each other have steadier returns",
        VARIANCE,
        "synchronous",
        LOCK_FREE,
        "less",
        "The variance is that of the training games, so a training that still learns has more of it than one that "
        "has learnt.",
    ),
)
"""Mnih et al. 2016 say the first; the others are from courses and from descriptions of A2C."""


def comparison_findings(study: Study) -> list[Finding]:
    """What numbers of workers bought and cost against one worker, and what gradients went through."""
    ways = asynchronous(study)
    found = [Finding(each.title, asked(study, each, ways, A2C, "A2C")) for each in QUESTIONS]
    facts = {"Staleness": ("staleness", "updates"), "Lost updates": ("lost", "of 1,000")}
    found += [Finding(title, told(ways, *what)) for title, what in facts.items()]
    return [finding for finding in found if finding.text]


def claim_findings(study: Study) -> list[Finding]:
    """What is often said, each with what the numbers say of it; ways that too few trainings tell of are left out."""
    found = []
    for claim in CLAIMS:
        ways = [way for way in study.ways if not way.is_a2c and way.handover == claim.handover]
        goal, estimates = compared(study, claim.question, ways, claim.reference)
        verdicts: dict[str, list[tuple[str, str]]] = {}
        for name, estimate in estimates:
            if (way := direction(estimate, claim.question)) == "unknown":
                continue
            verdict = verdict_on(claim, way)
            shown = span(estimate) if verdict == UNCLEAR else number(estimate)
            verdicts.setdefault(verdict, []).append((name, shown))
        if verdicts:
            parts = (f"{verdict}, {named(group, claim.question.size)}" for verdict, group in verdicts.items())
            about = claim.question.about.format(goal=goal)
            found.append(
                Finding(claim.says, f"{about[:1].upper()}{about[1:]}: {'; '.join(parts)}. {claim.explanation}")
            )
    return found


def verdict_on(claim: Claim, found: str) -> str:
    """What a direction says of a claim."""
    found = {"only": "less", "never": "more"}.get(found, found)
    if found == "unclear":
        return UNCLEAR
    return "as said" if found == claim.expected else "no difference" if found == "same" else "the opposite"


def handover_findings(study: Study) -> list[Finding]:
    """What each other hand-over bought and cost against lock-free updates by as many workers."""
    found = []
    for handover, words in HANDOVERS.items():
        ways = [way for way in study.ways if way.handover == handover and LOCK_FREE in way.against]
        texts = [asked(study, each, ways, LOCK_FREE, "lock-free ones") for each in (STEPS, TIME, SPEED, SCORE)]
        found.append(Finding(words[:1].upper() + words[1:], " ".join(filter(None, texts))))
    return [finding for finding in found if finding.text]


def ablation_findings(study: Study) -> list[Finding]:
    """What each change of the recipe did to it; of few trainings, only how many got how far."""
    if min(way.seeds for way in study.ways) < FEWEST:
        return [Finding("Too few trainings for intervals", successes(study))]
    found = [Finding(each.title, asked(study, each, study.ways, BASE, "the base")) for each in QUESTIONS[:4]]
    return [finding for finding in found if finding.text]


def successes(study: Study) -> str:
    """How many trainings of each kind got to the lowest goal that any got to."""
    goal = next((goal for goal in study.goals if any(way.reached[goal] for way in study.ways)), None)
    if goal is None:
        return "No training got to any goal."
    able = [way for way in study.ways if way.reached[goal]]
    others = [way for way in study.ways if not way.reached[goal]]
    counts = listed(f"{way.reached[goal]} of {way.seeds} trainings of {name_in(study, way)}" for way in able)
    rest = f"; of all other kinds, 0 of {sum(way.seeds for way in others)}" if others else ""
    return f"A mean return of {goal} was reached by {counts}{rest}."


def asynchronous(study: Study) -> list[Way]:
    """The ways of several workers, lock-free; all of the first hand-over where none is."""
    several = [way for way in study.ways if not way.is_a2c]
    handovers = [way.handover for way in several]
    chosen = LOCK_FREE if LOCK_FREE in handovers else next(iter(handovers), "")
    return [way for way in several if way.handover == chosen]


def asked(study: Study, question: Question, ways: Sequence[Way], reference: str, than: str) -> str:
    """The answer to a question in sentences; empty where the ways have no number for it."""
    goal, found = compared(study, question, ways, reference)
    return answer(question, found, than=than, goal=goal)


def compared(
    study: Study, question: Question, ways: Sequence[Way], reference: str
) -> tuple[str, list[tuple[str, Estimate]]]:
    """The goal that a question is asked of, and each way's ratio to the reference, or difference from it."""
    goal = goal_of(study, reference) or ""
    measure = question.measure.format(goal=goal)
    here = [(name_in(study, way), way.against.get(reference, {}).get(measure)) for way in ways]
    return goal, [(name, found) for name, found in here if found]


def answer(question: Question, found: Sequence[tuple[str, Estimate]], *, than: str, goal: str) -> str:
    """Who is how far below, who above, who the same, and of whom the interval does not tell."""
    groups: dict[str, list[tuple[str, Estimate]]] = {}
    for name, estimate in found:
        groups.setdefault(direction(estimate, question), []).append((name, estimate))
    there, about = GOAL.format(goal=goal), question.about.format(goal=goal)
    sentences = []
    for way, group in sorted(groups.items()):
        names = together([name for name, _ in group])
        who = "these" if len(group) > 1 else names
        numbers = sized([(name, number(each)) for name, each in group], question.size)
        whose = about if question.ratio else f"the difference in {about}"
        spans = sized([(name, span(each)) for name, each in group], question.size)
        sentences.append(
            {
                "less": f"{who} {question.less.format(goal=goal)} than {than}: {numbers}.",
                "more": f"{who} {question.more.format(goal=goal)} than {than}: {numbers}.",
                "only": f"{names} got to {there}, {than} never.",
                "never": f"{names} never got to {there}, {than} did.",
                "same": f"{names} did not differ from {than} in {about}.",
                "unclear": f"For {who} the interval of {whose} is too wide to tell: {spans}.",
                "unknown": f"For {names} too few trainings got to {there} to tell.",
            }[way]
        )
    return " ".join(sentence[:1].upper() + sentence[1:] for sentence in sentences)


def direction(estimate: Estimate, question: Question) -> str:
    """Where the interval lies: below or above that of no difference, on it, around it, or nowhere that is known."""
    low, high = bound(estimate.low), bound(estimate.high)
    if question.ratio and (low == float("inf") or high == 0):
        return "never" if high else "only"
    if question.ratio and low == 0 and high == float("inf"):
        return "unknown"
    if low == high == question.same:
        return "same"
    return "less" if high < question.same else "more" if low > question.same else "unclear"


def told(ways: Iterable[Way], measure: str, unit: str) -> str:
    """A measure of each way."""
    here = [f"{workers(way)}: {number(way.measures[measure])} {unit}" for way in ways if measure in way.measures]
    return f"{'; '.join(here)}." if here else ""


def goal_of(study: Study, reference: str) -> str | None:
    """The highest goal to which the trainings that others are compared with got so surely that the interval of their
    steps has an end; or else the lowest."""
    ways = [way for way in study.ways if is_reference(way, reference)]
    got = [goal for goal in study.goals if all(way.measures[f"steps_to_{goal}"].high is not None for way in ways)]
    return (got[-1:] or study.goals[:1] or (None,))[0]


def is_reference(way: Way, reference: str) -> bool:
    """Whether others are compared with it by that name."""
    return {
        A2C: way.is_a2c and way.setting == BASE,
        LOCK_FREE: not way.is_a2c and way.handover == "lock-free",
        BASE: way.setting == BASE,
    }[reference]


def conditions(study: Study) -> str:
    """What all the trainings have in common."""
    return (
        f"{game_name(study)}, {study.total_envs} environments in all, {study.steps:,} steps, "
        f"{study.seeds} trainings of each kind, {study.machine['cores']} cores"
    )


def game_name(study: Study) -> str:
    """As the page calls it."""
    return game_of(RECIPES[study.game].env).name


def workers(way: Way) -> str:
    """How many."""
    return f"{way.workers} worker{'s' if way.workers > 1 else ''}"


def name_of(way: Way) -> str:
    """A way to train that is compared by workers and hand-over."""
    return "A2C, 1 worker" if way.is_a2c else f"{workers(way)}, {HANDOVERS.get(way.handover, way.handover)}"


def name_in(study: Study, way: Way) -> str:
    """What a sentence calls it: its setting, or how many workers it has."""
    return f"“{setting_name(way)}”" if study.ablates else workers(way)


def setting_name(way: Way) -> str:
    """A setting as words."""
    return way.setting.replace("_", " ")


def bound(value: float | None) -> float:
    """An end of an interval."""
    return float("inf") if value is None else value


def sized(numbers: Sequence[tuple[str, str]], size: str) -> str:
    """Numbers with what they are said once, and where there are several, with whose each is."""
    return named(numbers, size) if len(numbers) > 1 else f"{numbers[0][1]} {size}"


def named(numbers: Sequence[tuple[str, str]], size: str) -> str:
    """Numbers with what they are said once, and with whose each is."""
    (first, one), *others = numbers
    return listed([f"{one} {size} for {first}", *(f"{other} for {name}" for name, other in others)])


def together(names: Sequence[str]) -> str:
    """Names in a list, and 2, 4 and 8 workers where it is they."""
    if names[1:] and all(name.endswith(" workers") for name in names):
        return f"{listed(name.removesuffix(' workers') for name in names)} workers"
    return listed(names)


def number(estimate: Estimate) -> str:
    """An interquartile mean with its interval: 1.42 (1.21 to 1.68)."""
    return f"{'never' if estimate.middle is None else precise(estimate.middle)} ({span(estimate)})"


def span(estimate: Estimate) -> str:
    """An interval."""
    if estimate.low is None:
        return "none"
    return (
        f"{precise(estimate.low)} or more"
        if estimate.high is None
        else (f"{precise(estimate.low)} to {precise(estimate.high)}")
    )


def listed(words: Iterable[str]) -> str:
    """a, b and c."""
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last
