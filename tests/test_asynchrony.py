"""A3C against A2C: the statistics against numbers worked out by hand, and sentences for whichever way they point."""

import json
from xml.etree import ElementTree

import numpy as np
import pytest

from benchmarks import asynchrony
from benchmarks.asynchrony import page, pictures, study_of, written
from tests.serving import text_of
from training.compare import MARKS, Trial
from training.results import append_line
from ui.asynchrony.figures import asynchrony_section, measured
from ui.asynchrony.findings import (
    SCORE,
    STEPS,
    Question,
    ablation_findings,
    answer,
    claim_findings,
    comparison_findings,
)
from ui.asynchrony.record import RECORD, Estimate, Record, record


def trial(workers=1, seed=0, *, steps=1000, handover="lock-free", setting="base", **fields):
    """One training, which got to 475 after so many steps, a thousandth of it in seconds; None for never."""
    got = {"195": (500, 0.5), "475": steps and (steps, steps / 1000)}
    numbers = {"steps_per_second": 1000.0, "variance": 4.0, "gradient_norm": 1.0, "staleness": workers - 1.0, "lost": 0}
    known = {
        "game": "cartpole", "workers": workers, "handover": handover, "seed": seed, "setting": setting,
        "envs_per_worker": 8 // workers, "planned_steps": 4000, "steps": 4000, "updates": 200, "seconds": 4.0,
        "reached": got, "returns": (None,) * 10 + (100.0 + seed,) * (MARKS - 10),
        "clock": tuple(0.1 * (mark + 1) for mark in range(MARKS)), "returns_by_updates": (None, 50.0 + seed),
        "stalest": (3, 1) + (0,) * 14, "score": 500.0,
    }  # fmt: skip
    return Trial(**known | numbers | fields)


def study(*trials):
    return study_of(trials, "here")


def pair(workers, one, other, **fields):
    return [trial(workers, 0, steps=one, **fields), trial(workers, 1, steps=other, **fields)]


def test_an_interval_of_two_trainings_reaches_from_one_to_the_other():
    (way,) = study(*pair(1, 1000, 3000, lost=3)).ways
    assert way.measures["steps_to_475"] == (1000, 2000, 3000)
    assert way.measures["seconds_to_475"] == (1, 2, 3)
    assert way.measures["lost"] == (15, 15, 15)  # 3 of 200, in a thousand
    assert (way.seeds, way.reached) == (2, {"195": 2, "475": 2})
    assert way.stalest[:3] == (0.75, 0.25, 0)
    steps, seconds, updates = (way.curves[unit] for unit in ("steps", "seconds", "updates"))
    assert (steps.x[0], steps.x[-1], len(steps.x)) == (1100, 4000, MARKS - 10)  # from where both have a number
    assert (steps.low[0], steps.middle[0], steps.high[0]) == (100, 100.5, 101)
    assert seconds.x[-1] == 4
    assert (updates.x, updates.middle) == ((200,), (50.5,))


def test_a_training_that_ends_sooner_keeps_its_last_return():
    slow = tuple(0.2 * (mark + 1) for mark in range(MARKS))
    (way,) = study(trial(seed=0), trial(seed=1, clock=slow)).ways
    curve = way.curves["seconds"]
    assert (curve.x[-1], curve.low[-1], curve.high[-1]) == (8, 100, 101)


def test_a_goal_that_was_not_reached_is_beyond_all_numbers():
    (way,) = study(*pair(1, 1000, None)).ways
    assert way.measures["steps_to_475"] == (1000, None, None)
    assert way.reached["475"] == 1


@pytest.mark.parametrize(
    ("ones", "others", "ratio"),
    [
        ((1000, 1000), (2000, 2000), (2, 2, 2)),
        ((1000, 1000), (500, 2000), (0.5, 1.25, 2)),
        ((1000, 1000), (2000, None), (2, None, None)),
        ((1000, 1000), (None, None), (None, None, None)),
        ((None, None), (1000, 1000), (0, 0, 0)),
    ],
)
def test_a_ratio_knows_of_goals_that_were_not_reached(ones, others, ratio):
    both = study(*pair(1, *ones), *pair(2, *others))
    assert both.ways[1].against["a2c"]["steps_to_475"] == ratio


def test_where_neither_got_there_the_ratio_has_no_ends():
    both = study(*pair(1, None, None), *pair(2, None, None))
    low, _, high = both.ways[1].against["a2c"]["steps_to_475"]
    assert (low, high) == (0, None)


def test_scores_are_compared_by_difference():
    both = study(*pair(1, 1000, 1000), *pair(2, 1000, 1000, score=488.0))
    assert both.ways[1].against["a2c"]["score"] == (-12, -12, -12)


@pytest.mark.parametrize(
    ("question", "found", "says"),
    [
        (
            STEPS,
            (0.5, 0.6, 0.7),
            "2 workers needed fewer steps to a mean return of 475 than A2C: 0.6 (0.5 to 0.7)",
        ),
        (
            STEPS,
            (1.5, 1.6, 1.7),
            "2 workers needed more steps to a mean return of 475 than A2C: 1.6 (1.5 to 1.7)",
        ),
        (STEPS, (1.5, 1.6, None), "2 workers needed more steps to a mean return of 475 than A2C: 1.6 (1.5 or more)"),
        (STEPS, (0.9, 1.0, 1.2), "the interval of the steps to a mean return of 475 is too wide to tell: 0.9 to 1.2"),
        (STEPS, (1.0, 1.0, 1.0), "2 workers did not differ from A2C in the steps"),
        (STEPS, (0.0, None, None), "For 2 workers too few trainings got to a mean return of 475 to tell."),
        (STEPS, (0.0, 0.0, 0.0), "2 workers got to a mean return of 475, A2C never."),
        (STEPS, (None, None, None), "2 workers never got to a mean return of 475, A2C did."),
        (SCORE, (-9.0, -8.0, -7.0), "2 workers scored lower at the end than A2C: −8 (−9 to −7) points."),
        (SCORE, (0.0, 0.0, 0.0), "2 workers did not differ from A2C in the score."),
        (SCORE, (-1.0, 0.0, 1.0), "the interval of the difference in the score is too wide to tell: −1 to 1 points."),
        (SCORE, (7.0, 8.0, 9.0), "2 workers scored higher at the end than A2C: 8 (7 to 9) points."),
    ],
)
def test_a_sentence_comes_out_right_whichever_way_the_numbers_point(
    question: Question, found: tuple[float | None, ...], says: str
):
    assert says in answer(question, [("2 workers", Estimate(*found))], than="A2C", goal="475")


def test_ways_that_point_the_same_way_share_a_sentence():
    found = [("2 workers", Estimate(0.5, 0.6, 0.7)), ("4 workers", Estimate(1, 2, 3)), ("8 workers", Estimate(2, 3, 4))]
    told = answer(STEPS, [*found, ("16 workers", Estimate(3, 4, 5))], than="A2C", goal="475")
    numbers = "3 (2 to 4) times as many for 8 workers and 4 (3 to 5) for 16 workers."
    assert f"These needed more steps to a mean return of 475 than A2C: {numbers}" in told
    assert "For 4 workers the interval" in told


def test_findings_are_of_the_highest_goal_that_the_reference_reached():
    title, text = comparison_findings(study(*pair(1, 1000, 1000), *pair(2, 500, 600)))[0]
    assert (title, text) == (
        "Steps", "2 workers needed fewer steps to a mean return of 475 than A2C: 0.55 (0.5 to 0.6) times as many.",
    )  # fmt: skip
    never = comparison_findings(study(*pair(1, None, None), *pair(2, 500, 600)))
    assert never[0].text == "2 workers did not differ from A2C in the steps to a mean return of 195."


def test_a_single_training_and_an_empty_directory_are_refused_in_a_sentence(tmp_path):
    with pytest.raises(SystemExit, match=r"no results\.jsonl with trainings"):
        asynchrony.main((tmp_path,), keep=False)
    append_line(tmp_path / "results.jsonl", trial())
    with pytest.raises(SystemExit, match=r"one training of 1 worker, lock-free.* --seeds"):
        asynchrony.main((tmp_path,), keep=False)


@pytest.fixture
def both():
    ways = [*pair(1, 1000, 2000), *pair(2, 500, 600), *pair(2, 2500, None, handover="queue")]
    settings = [*pair(2, 500, 600), *pair(2, 900, 950, setting="own_<b>", changes={"share_statistics": False})]
    return Record(studies=(study(*ways), study(*settings)))


def test_the_page_shows_what_was_measured_and_nothing_where_nothing_was(both, tmp_path):
    section, chapter = asynchrony_section(both), measured(both)
    for html in (section, chapter):
        assert "2 workers needed fewer steps to a mean return of 475 than A2C" in text_of(html)
    assert section.count("<polygon") == 4
    assert 'stroke-dasharray="9 5"' in section  # told apart without colours
    assert "share_statistics: false" in text_of(chapter)
    assert "own_<b>" not in chapter
    (tmp_path / "record.json").write_text('{"studies": 3}')
    for path in (tmp_path / "none.json", tmp_path / "record.json"):
        assert asynchrony_section(record(path)) == measured(record(path)) == ""
        assert written(record(path)) == ""


def test_what_is_kept_reads_again(both, tmp_path, monkeypatch):
    out = tmp_path / "runs"
    for each in pair(1, 1000, 2000):
        append_line(out / "results.jsonl", each)
    for name in ("RECORD", "PAGE", "PICTURES"):
        monkeypatch.setattr(asynchrony, name, tmp_path / name.lower())
    (tmp_path / "page").write_text(f"before\n{asynchrony.BEGIN}\nold\n{asynchrony.END}\nafter\n")
    asynchrony.main((out,))
    kept = record(tmp_path / "record")
    assert kept.studies[0].ways[0].measures["steps_to_475"] == (1000, 1500, 2000)
    text = (tmp_path / "page").read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    drawn = sorted(path.name for path in (tmp_path / "pictures").iterdir())
    assert drawn[:2] == ["cartpole-workers-seconds-day.svg", "cartpole-workers-seconds-night.svg"]


def test_a_picture_is_an_image_of_its_own(both):
    drawn = pictures(both)
    assert len(drawn) == 2 * (3 + 2 + 1)
    for content in drawn.values():
        texts = [each.text for each in ElementTree.fromstring(content).iter("{http://www.w3.org/2000/svg}text")]
        assert texts[0].startswith("Mean return")
    assert drawn["cartpole-workers-steps-day.svg"] != drawn["cartpole-workers-steps-night.svg"]


def test_the_page_in_docs_says_what_the_record_says():
    text = asynchrony.PAGE.read_text()
    assert page(text, record()) == text
    assert {path.name for path in asynchrony.PICTURES.glob("*.svg")} == set(pictures(record()))


def test_a_goal_that_the_reference_may_miss_is_left_for_a_lower_one():
    told = comparison_findings(study(*pair(1, None, 1000), *pair(2, 500, 600)))[0].text
    assert told == "2 workers did not differ from A2C in the steps to a mean return of 195."


def test_what_is_often_said_is_held_against_the_numbers():
    fast, slow = pair(2, 500, 600, steps_per_second=1500.0), pair(4, 2000, 2100, steps_per_second=700.0)
    unsure = pair(8, 900, 1100, steps_per_second=1000.0)
    waiting = pair(2, 300, 400, handover="synchronous")
    told = dict(claim_findings(study(*pair(1, 1000, 1000), *fast, *slow, *unsure, *waiting)))
    speed, steps, wait, steady = told.values()
    assert "as said, 1.5 (1.5 to 1.5) times as many for 2 workers; the opposite, 0.7 (0.7 to 0.7) times" in speed
    assert "; no difference, 1 (1 to 1) times as many for 8 workers. Workers beyond" in speed
    assert steps.startswith("The steps to a mean return of 475: the opposite, 0.55 (0.5 to 0.6) times as many for 2")
    assert "; too wide an interval to tell, 0.9 to 1.1 times as many for 8 workers. " in steps
    assert wait.startswith("The steps to a mean return of 475: as said, ")
    assert steady.startswith("The variance: no difference, 0 (0 to 0) points squared for 2 workers. ")


def test_of_few_trainings_only_successes_are_told(both):
    (found,) = ablation_findings(both.studies[1])
    assert (
        found.text
        == "A mean return of 195 was reached by 2 of 2 trainings of “base” and 2 of 2 trainings of “own <b>”."
    )
    unlike = study(*pair(2, 1000, 1000), *pair(2, 9, 9, setting="own", reached={"195": None, "475": None}))
    assert ablation_findings(unlike)[0].text.endswith(" 2 of 2 trainings of “base”; of all other kinds, 0 of 2.")


def test_an_ablation_compares_with_its_base(both, monkeypatch):
    monkeypatch.setattr("ui.asynchrony.findings.FEWEST", 2)
    told = dict(ablation_findings(both.studies[1]))
    assert told["Steps"].startswith("“own <b>” needed more steps to a mean return of 475 than the base: ")
    base, own = both.studies[1].ways
    assert base.against == {}
    assert own.against["base"]["steps_to_475"].middle == pytest.approx(925 / 550, abs=1e-3)


def test_the_record_that_ships_can_be_read():
    if RECORD.exists():
        assert record().studies
        assert json.loads(RECORD.read_text())["studies"]
    assert np.isfinite([share for each in record().studies for way in each.ways for share in way.stalest]).all()
