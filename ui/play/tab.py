"""The Play tab: a visitor plays by hand, and then sees the zoo's agent play the game of the same seed."""

from collections.abc import Mapping
from html import escape
from typing import Any, NamedTuple

import gradio as gr

from ui.board.days import seed_of, today
from ui.games import game_of
from ui.gradio_internals import told_by
from ui.modules import mounted
from ui.play.controls import CONTROLS
from ui.play.routes import PLAYABLE, SPEEDS, match_of, rival_of
from ui.screen import PLAIN, query_of
from ui.settings import choice, refusal, whole
from ui.status import alert_of
from ui.streaming.agent_catalog import watchable
from ui.streaming.routes import LAST_SEED, Refused
from ui.watch.player import player, showing
from ui.watch.tab import Challenge

SPEED_WORDS = dict(zip(SPEEDS, ("full", "half", "quarter"), strict=True))
HIDDEN = gr.update(visible=False, value=None)


class Setup(NamedTuple):
    """What choosing a game to play puts on the page."""

    game: str
    seed: int
    speed: int
    screen: dict[str, Any]
    about: str


def build(page: gr.Blocks, tabs: gr.Tabs, challenge: Challenge, *, boards: bool) -> None:
    """Lays out the tab and wires it, and the button of the Watch tab that leads here; `boards` says whether there are
    any."""
    first = set_up({})
    with gr.Column(elem_classes="cabinet"):
        with gr.Column(elem_classes="arena"):
            screen = human("play-screen", first.screen)
            rival = player("play-rival", visible=False)
        with gr.Column(elem_classes="controls"):
            games = [(game_of(recipe.env).name, name) for name, recipe in PLAYABLE.items()]
            game = choice(games, label="Game", elem_id="play-game", elem_classes="games")
            seed = gr.Number(0, label="Seed", info="The agent plays the same seed.", elem_id="play-seed")
            another = gr.Button("Another seed", elem_classes="quiet")
            todays = gr.Button("Today’s game", elem_classes="quiet", visible=boards)
            speed = choice([(word, percent) for percent, word in SPEED_WORDS.items()], label="Speed")
            about = gr.HTML(first.about, elem_id="play-about", elem_classes="verdict", **PLAIN)

    chosen, shown = [game, seed, speed], [game, seed, speed, screen, about]
    quiet = {"show_progress": "hidden", "api_visibility": "private"}
    asked = quiet | {"concurrency_limit": 8}
    unqueued = quiet | {"queue": False}  # where nothing is refused: gradio shows no sentence of these
    game.input(choose_game, [game, seed], shown, **asked)
    gr.on([seed.submit, seed.blur, speed.input], choose, chosen, shown, **asked)
    another.click(another_seed, chosen, shown, **asked)
    todays.click(todays_game, chosen, shown, **asked)
    screen.begin(lambda: HIDDEN, None, rival, **unqueued)
    screen.over(show_rival, None, rival, **asked)
    page.load(arrive, None, [tabs, *shown], **unqueued)
    screen.visit(come_back, None, shown, trigger_mode="multiple", **unqueued)
    challenge.agent.change(offer, challenge.agent, challenge.button, **unqueued)
    challenge.button.click(accept, [challenge.agent, challenge.seed], [tabs, *shown], **asked)


def human(elem_id: str, value: dict[str, Any]) -> gr.HTML:
    """A canvas to play on. Its value is a Setup's screen; the script sets texts as text, never as HTML."""
    plain = PLAIN | {"js_on_load": mounted("play/play.js", "begin", "over", "visit")}
    return gr.HTML(value, elem_id=elem_id, html_template='<div class="human"></div>', **plain)


def set_up(asked: Mapping[str, str]) -> Setup:
    """The match that a query names, as it is in a link. Raises Refused, with a sentence."""
    match = match_of({"play": next(iter(PLAYABLE))} | asked)
    rival = rival_of(match)
    env = match.recipe.env
    controls, game = CONTROLS[env], game_of(env)
    screen = {
        **match._asdict(),
        "env": env,
        "name": game.name,
        "keys": controls.keys,
        "rule": controls.rule,
        "buttons": controls.buttons,
        "pace": "" if match.speed == 100 else f" at {SPEED_WORDS[match.speed]} speed",
        "usual": controls.percent,
        "agent": rival and rival.agent,
    }
    about = f"<p>{escape(f'{controls.keys} {controls.rule}')}</p><p>{escape(game.goal)}</p>"
    return Setup(*match, screen=screen, about=about)


def choose(game: object, seed: object, speed: object) -> Setup:
    """Another match. Raises gr.Error, with a sentence, for what is not on offer."""
    seed = whole(seed, "The seed", 0, LAST_SEED)
    return _set_up({"play": str(game), "seed": str(seed), "speed": str(speed)})


def choose_game(game: object, seed: object) -> Setup:
    """Another game with the same seed, at the speed that it is usually played at by hand."""
    return _set_up({"play": str(game), "seed": str(whole(seed, "The seed", 0, LAST_SEED))})


def another_seed(game: object, seed: object, speed: object) -> Setup:
    """The match of the next seed."""
    seed = whole(seed, "The seed", 0, LAST_SEED)
    return choose(game, (seed + 1) % (LAST_SEED + 1), speed)


def todays_game(game: object, seed: object, speed: object) -> Setup:
    """The match of the day's seed, which has a board."""
    return choose(game, seed_of(today()), speed)


def _set_up(asked: Mapping[str, str]) -> Setup:
    try:
        return set_up(asked)
    except Refused as error:
        raise refusal(escape(str(error))) from None


def offer(agent: object) -> Any:  # noqa: ANN401
    """The button that leads to the game of `agent`, where people can play it."""
    return gr.update(visible=playable_of(agent) is not None)


def accept(agent: object, seed: object) -> tuple[Any, ...]:
    """This tab in front, with the game that was watched. Raises gr.Error, with a sentence, where nobody can play it."""
    game = playable_of(agent)
    if game is None:
        raise refusal("This game cannot be played by hand. Choose another agent.")
    return gr.update(selected="play"), *choose_game(game, seed)


def playable_of(agent: object) -> str | None:
    """The name among PLAYABLE of the game that `agent` plays."""
    known = watchable(agent) if isinstance(agent, str) else None
    return next((name for name, recipe in PLAYABLE.items() if known and recipe.env == known.recipe.env), None)


def show_rival(event: gr.EventData) -> dict[str, Any]:
    """The agent's game beside the visitor's, which is over; none where the zoo has no agent."""
    told = told_by(event)
    try:
        spec = rival_of(match_of({"play": str(told.get("play")), "seed": str(told.get("seed"))}))
    except Refused as error:
        raise refusal(escape(str(error))) from None
    return gr.update(visible=True, value=showing(spec)) if spec else HIDDEN


def come_back(event: gr.EventData) -> Setup:
    """The match of an address to which the visitor has gone back."""
    return named(query_of(event))


def arrive(request: gr.Request) -> tuple[Any, ...]:
    """The tab as the page's address wants it: in front, with the match that it names, or as it is."""
    asked = dict(request.query_params)
    if "play" not in asked:
        return (gr.skip(),) * (1 + len(Setup._fields))
    return gr.update(selected="play"), *named(asked)


def named(asked: Mapping[str, str]) -> Setup:
    """The match that a query names; where there is none, the first match and the reason."""
    try:
        return set_up(asked)
    except Refused as error:
        first = set_up({})
        return first._replace(about=alert_of(escape(str(error))) + first.about)
