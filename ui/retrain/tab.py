"""The Retrain tab: a visitor trains an agent, sees it learn, and compares it with what it was."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

import gradio as gr

from a3c_core.recipe import Recipe
from training.log import Progress, read_log
from training.recipes import RECIPES
from ui.figures import number
from ui.games import game_of
from ui.gradio_internals import given
from ui.modules import calling, mounted
from ui.retrain import publishing
from ui.retrain.address import GAME, is_named, named_in, shipped
from ui.retrain.archive import archive_of
from ui.retrain.comparisons import Comparisons
from ui.retrain.history import PastTraining, lines, with_run
from ui.retrain.jobs import Jobs, Run
from ui.retrain.learning import learning_curve, vital_curves
from ui.retrain.lessons import LESSONS, SHIPPED, Lesson, lesson_of, taught
from ui.retrain.train import UNCHANGED, View, throw_away, train
from ui.screen import PLAIN, into_view, query_of, screen
from ui.settings import SETTINGS, TRAINABLE, VISIBLE, Choice, Setting, choice, choices, name_of, refusal
from ui.status import status_of

READY = "CartPole takes seconds, Pendulum about a minute; five minutes at most."
IDLE = "Nothing is being trained."
TRAIN_TOLD = (
    "Trains an agent and reports its progress a few times a second. The arguments: the game ("
    + " or ".join(TRAINABLE)
    + "), then "
    + ", ".join(each.label.lower() for each in SETTINGS)
    + "."
)
"""What the endpoint's page says of it."""


class Figures(NamedTuple):
    """The curves of the tab, and the button that clears them."""

    curve: Any = UNCHANGED
    vitals: Any = UNCHANGED
    clear: Any = UNCHANGED


def build(page: gr.Blocks, tabs: gr.Tabs, kept: gr.BrowserState | None, jobs: Jobs) -> None:
    """Lays out the tab and wires it; `kept` is where the browser notes the visitor's run while the page signs in."""
    first = RECIPES[TRAINABLE[0]]
    run_id = gr.State(delete_callback=jobs.discard)
    earlier = gr.State([])
    with gr.Column(elem_classes="cabinet"):
        with gr.Column(elem_classes="lessons"):
            lesson = choice([each.name for each in LESSONS], label="Lesson")
            plain = PLAIN | {"js_on_load": mounted("retrain/settings.js", "visit")}
            says = gr.HTML(says_of(SHIPPED), elem_id="lesson", **plain)
        with gr.Column(elem_classes="progress"):
            figure = gr.HTML(learning_curve(first), elem_id="learning-curve", elem_classes="curves", **PLAIN)
            clear = gr.Button("Clear earlier trainings", visible=False, elem_classes="quiet", elem_id="clear")
            status = gr.HTML(status_of(READY), elem_id="train-status", elem_classes="status", **PLAIN)
        stage = screen("before-after")
        with gr.Column(elem_classes="controls"):
            game = choice(choices(), label="Game")
            boxes = [box(setting, first) for setting in SETTINGS[:VISIBLE]]
            with gr.Row():
                train_button = gr.Button("Train", variant="primary", min_width=100)
                stop_button = gr.Button("Stop", interactive=False, min_width=100)
            download = gr.DownloadButton("Download the checkpoint", visible=False, elem_classes="quiet")
            again = gr.Button("Another game", visible=False, elem_classes="quiet")
            past = choice(
                [("", "")], label="Trainings of this visit", visible=False, elem_id="past", elem_classes="past"
            )
            with gr.Column(visible=False) as sharing:
                publish = publishing.build() if kept else None
            with gr.Accordion("More settings", open=False, elem_classes="more"):
                boxes += [box(setting, first) for setting in SETTINGS[VISIBLE:]]
        vitals = gr.HTML(elem_id="vital-curves", elem_classes="curves", **PLAIN)
        presence = gr.HTML(
            elem_id="presence",
            html_template="",
            apply_default_css=False,
            js_on_load=mounted("retrain/heartbeat.js"),
        )

    view = [run_id, status, figure, stage, download, again, train_button, stop_button, sharing, vitals]
    view += [earlier, clear, past, presence]
    quiet = {"show_progress": "hidden", "api_visibility": "private"}
    asked = quiet | {"concurrency_limit": 8}
    unqueued = quiet | {"queue": False}  # where nothing is refused: gradio shows no sentence of these
    compare = Comparisons(jobs).compare
    compared = {"fn": compare, "inputs": run_id, "outputs": [stage, status, again], "show_progress": "hidden"}
    laid_out = [game, lesson, says, figure, vitals, clear, *boxes]
    game.input(preset, [game, earlier], laid_out, **unqueued)
    lesson.input(given(teach, jobs), [lesson, game, run_id, earlier], laid_out, **asked)
    own = {"fn": None, "js": "() => [null, '']", "outputs": [lesson, says], "api_visibility": "private"}
    of_lesson = [each for each, setting in zip(boxes, SETTINGS, strict=True) if setting.field not in ("steps", "seed")]
    gr.on([each.input for each in of_lesson], **own)  # what a visitor sets is no lesson any more
    addressed = {"fn": None, "inputs": [game, *boxes], "js": calling("retrain/settings.js", "note", shipped())}
    page.load(arrive, None, laid_out, **unqueued).then(**addressed, api_visibility="private")
    says.visit(come_back, earlier, laid_out, trigger_mode="multiple", **unqueued)
    gr.on([game.change, *(each.change for each in boxes)], **addressed, api_visibility="private")
    clear.click(given(forget, jobs), [game, run_id, earlier], [earlier, figure, clear, past], **unqueued)
    training = train_button.click(
        given(train, jobs),
        [run_id, earlier, game, *boxes],
        view,
        api_name="train",
        api_description=TRAIN_TOLD,
        concurrency_limit=None,
        show_progress="hidden",
    )
    training.then(ready, [run_id, earlier], [train_button, stop_button, clear, past], **unqueued)
    training.success(**compared, api_name="compare", concurrency_limit=8)
    again.click(**compared, api_visibility="private", concurrency_limit=8)
    looked = past.input(given(look_back, jobs), [past, earlier], view, **asked)
    looked.success(**compared, api_visibility="private", concurrency_limit=8)
    if publish:
        publish.click(js=into_view("train-status"))
        publish.click(
            publishing.Publisher(jobs).publish,
            run_id,
            status,
            show_progress="hidden",
            api_visibility="private",
            concurrency_limit=publishing.AT_ONCE,
        )
        training.success(lambda run_id: run_id, run_id, kept, **unqueued)
        page.load(given(restore, jobs), kept, [tabs, game, *boxes, *view], js=publishing.RETURNING, **unqueued)
    stop_button.click(given(stop, jobs), run_id, status, queue=False, show_progress="hidden", api_name="stop")


def box(setting: Setting | Choice, recipe: Recipe) -> gr.Number | gr.Radio:
    """The field of one setting. Bounds are checked on the server, which names the field that is wrong."""
    value, elem_id = setting.of(recipe), f"setting-{setting.field}"
    if isinstance(setting, Setting):
        return gr.Number(value, label=setting.label, info=setting.info, elem_id=elem_id)
    return choice(list(setting.options), label=setting.label, info=setting.info, value=value, elem_id=elem_id)


def says_of(lesson: Lesson) -> str:
    """What a lesson tells a visitor to look for."""
    return f'<p role="status">{escape(lesson.says)}</p>'


def preset(game: object, earlier: Sequence[PastTraining] = ()) -> list[Any]:
    """The settings of another game's recipe, and its curve with the visit's earlier trainings."""
    name, recipe = taught(SHIPPED, game)
    return laid_out(SHIPPED, name, recipe, cleared(recipe, earlier))


def teach(
    jobs: Jobs, name: object, game: object, run_id: str | None, earlier: Sequence[PastTraining] = ()
) -> list[Any]:
    """The settings of a lesson. Raises gr.Error, with a sentence, for one that is not on offer."""
    lesson = lesson_of(name)
    chosen, recipe = taught(lesson, game)
    run = jobs.get(run_id)
    stays = game == chosen and run is not None and run.recipe.env == recipe.env
    return laid_out(lesson, chosen, recipe, Figures() if stays else cleared(recipe, earlier))


def arrive(request: gr.Request) -> list[Any]:
    """The settings that the page's address names, or the tab as it is."""
    asked = dict(request.query_params)
    return set_to(asked) if is_named(asked) else [UNCHANGED] * (6 + len(SETTINGS))


def come_back(earlier: Sequence[PastTraining], event: gr.EventData) -> list[Any]:
    """The settings of an address to which the visitor has gone back."""
    return set_to(query_of(event), earlier)


def set_to(asked: Mapping[str, str], earlier: Sequence[PastTraining] = ()) -> list[Any]:
    """The tab with the settings that an address names; where one cannot be, all as shipped, and a sentence."""
    says = ""
    try:
        game, recipe = named_in(asked)
    except gr.Error as error:
        (game, recipe), says = taught(SHIPPED, asked.get(GAME)), error.message
    shown = laid_out(SHIPPED, game, recipe, cleared(recipe, earlier))
    if recipe != RECIPES[game] or says:
        shown[1:3] = None, f'<p role="status">{escape(says)}</p>' if says else ""  # it is no lesson
    return shown


def laid_out(lesson: Lesson, game: str, recipe: Recipe, figures: Figures) -> list[Any]:
    """The tab with the settings of `recipe`."""
    return [game, lesson.name, says_of(lesson), *figures, *(each.of(recipe) for each in SETTINGS)]


def cleared(recipe: Recipe, earlier: Sequence[PastTraining]) -> Figures:
    """The figures of a game before its next training."""
    past = lines(earlier, recipe.env)
    return Figures(learning_curve(recipe, None, past), "", gr.update(visible=bool(past)))


def forget(
    jobs: Jobs, game: object, run_id: str | None, earlier: Sequence[PastTraining]
) -> tuple[list[PastTraining], Any, Any, Any]:
    """Throws the visit's earlier trainings away; the one that is on display stays."""
    run = jobs.get(run_id)
    chosen, recipe = taught(SHIPPED, game)
    on_display = run is not None and name_of(run.recipe) == chosen
    kept = [each for each in earlier if run is not None and each.run_id == run.id]
    throw_away(jobs, earlier, kept)
    curve = learning_curve(run.recipe, read_log(run.checkpoint)) if on_display else learning_curve(recipe)
    return kept, curve, gr.update(visible=False), gr.update(visible=False)


def ready(run_id: str | None, earlier: Sequence[PastTraining]) -> tuple[Any, Any, Any, Any]:
    """Train and Clear can be pressed, Stop cannot; the trainings of the visit can be looked at."""
    names = [(words_of(each), each.run_id) for each in earlier]
    known = run_id if any(each.run_id == run_id for each in earlier) else None
    past = gr.update(choices=names, value=known, visible=len(names) > 1)
    return gr.update(interactive=True), gr.update(interactive=False), gr.update(interactive=True), past


def words_of(each: PastTraining) -> str:
    """A training in a few words."""
    return f"{game_of(each.env).name}, {each.line.words}: {number(each.line.y[-1])}"


def restore(jobs: Jobs, run_id: str | None, request: gr.Request) -> list[Any]:
    """The tab as its visitor left it to sign in: tabs, game, settings and what the training shows."""
    run = jobs.get(run_id)
    if run is None or not run.outcome:
        return [UNCHANGED] * (2 + len(SETTINGS) + len(View._fields))
    run.session = request.session_hash
    moments = read_log(run.checkpoint)
    view = view_of(run, moments)._replace(earlier=with_run((), run.id, run.recipe, moments))
    return [gr.Tabs(selected="retrain"), name_of(run.recipe), *(each.of(run.recipe) for each in SETTINGS), *view]


def look_back(jobs: Jobs, run_id: object, earlier: Sequence[PastTraining]) -> View:
    """A training of this visit again. Raises gr.Error, with a sentence, where it is no longer kept."""
    run = jobs.get(run_id)
    if run is None or not run.outcome:
        raise refusal("This training is no longer kept. Train again.")
    return view_of(run, read_log(run.checkpoint), [each for each in earlier if each.run_id != run.id])


def view_of(run: Run, moments: Sequence[Progress], others: Sequence[PastTraining] = ()) -> View:
    """What a training that is over shows, beside others of the visit."""
    return View(
        run_id=run.id,
        status=status_of(run.outcome, run.last, over=True),
        curve=learning_curve(run.recipe, moments, lines(others, run.recipe.env)),
        vitals=vital_curves(run.recipe, moments),
        download=gr.update(value=str(archive_of(run)), visible=True),
        again=gr.update(visible=True),
        sharing=gr.update(visible=True),
    )


def stop(jobs: Jobs, run_id: str | None, request: gr.Request | None = None) -> str:
    """Asks the visitor's run to end; what it has learnt by then is kept."""
    run = jobs.found(run_id, request)
    if run is None or run.ended is not None:
        return status_of(IDLE)
    run.stop.set()
    return status_of("Stopping.")
