"""The app: one package per tab, a theme, figures. `build` makes the page, `launch_options` says how to serve it."""

import sys
from contextlib import suppress
from functools import partial
from typing import Any

import gradio as gr
from starlette.middleware import Middleware

import zoo
from playback.emulator_pool import use_emulator_pool
from training.local import warm_up as warm_up_workers
from ui import api, gradio_internals, guard, health, how, modules
from ui.arcade import Arcade
from ui.board import routes as board_routes
from ui.compression import CompressOnce
from ui.gradio_internals import given, told_by
from ui.guard import Guard
from ui.play import routes as play_routes
from ui.play import tab as play_tab
from ui.recordings import routes as recordings_routes
from ui.retrain import publishing
from ui.retrain import routes as retrain_routes
from ui.retrain import tab as retrain_tab
from ui.retrain.jobs import Jobs
from ui.screen import PLAIN
from ui.slash import EndWithSlash
from ui.streaming import routes as streaming_routes
from ui.theme import CSS, THEME
from ui.watch import tab as watch_tab
from ui.watch.prefetch import Prefetch
from ui.zoo_tab import routes as zoo_routes
from ui.zoo_tab import tab as zoo_tab

SESSIONS = 256
"""Visitors, and programs, that the server remembers: those seen last. Gradio takes 100 kB for each, 10,000 at most."""
THREADS = 96
"""For handlers. Those of slow work hold 72 at most: pages and what is clicked on them never wait for one."""

QUEUE_SECONDS = 0.02
"""How often the queue of clicks is looked at. With this instead of Gradio's own a video of a game that is played for it
takes a fifth less time."""
SILENT_SECONDS = 10
"""How long a visitor's machine may acknowledge nothing of what it is sent. One that loses its network says no goodbye,
and the system would go on sending for a quarter of an hour. What computes for a page waits sooner, and goes on when the
page is back: a tunnel on a train should lose nobody a training."""
LAST_SECONDS = 2
"""How long what is under way may take to end once the app is asked to."""
WARM_UP_PAUSE_SECONDS = 3
"""Before each part of the warming up, which is for later visitors and holds up a page that is loading."""
CACHE_SWEEP_SECONDS, CACHE_AGE_SECONDS = 600, 3600

TABS = ("watch", "play", "retrain", "zoo", "how")
"""The tabs that an address can name."""

MARQUEE = (
    "<header><h1>A3C Arcade</h1>"
    "<p>Agents that taught themselves to play. Watch one, play against it, or train your own.</p></header>"
)


def build() -> tuple[gr.Blocks, Arcade]:
    """The page, ready to launch, and what its visitors share."""
    use_emulator_pool()
    arcade = Arcade()
    boards = arcade.referee is not None
    for error in zoo.broken_entries().values():
        print(f"an agent of the zoo is left out: {error}", file=sys.stderr)
    with gr.Blocks(
        title="A3C Arcade", analytics_enabled=False, delete_cache=(CACHE_SWEEP_SECONDS, CACHE_AGE_SECONDS)
    ) as page:
        marquee = gr.HTML(MARQUEE, elem_id="marquee", **PLAIN | {"js_on_load": modules.mounted("address.js", "tab")})
        kept = gr.BrowserState() if publishing.OFFERED else None  # out here: what is on a tab starts without its value
        with gr.Tabs() as tabs:
            with tab("Watch", "watch"):
                challenge = watch_tab.build(page, arcade.hub_agents, arcade.files, boards=boards)
            with tab("Play", "play"):
                play_tab.build(page, tabs, challenge, boards=boards)
            with tab("Retrain", "retrain"):
                retrain_tab.build(page, tabs, kept, arcade.jobs)
            with tab("Zoo", "zoo"):
                zoo_tab.build(page, tabs)
            with tab("How it works", "how"):
                how.build()
        api.build()
        unqueued = {"queue": False, "show_progress": "hidden", "api_visibility": "private"}
        page.load(_arrive, None, tabs, **unqueued).then(js=modules.calling("address.js", "arrived"))
        marquee.tab(_return, None, tabs, trigger_mode="multiple", **unqueued)
        gradio_internals.when_left(page, given(_leave, arcade.jobs))
    gradio_internals.answer_arrivals_at_once(page)
    page.queue(max_size=100, api_open=False)  # past the queue, nobody would notice a caller who has gone
    gradio_internals.look_at_queue_every(page, QUEUE_SECONDS)
    return page, arcade


def launch_options(arcade: Arcade) -> dict[str, Any]:
    """Keyword arguments of `Blocks.launch`."""
    routes = [
        *streaming_routes.routes(arcade.broadcasts, arcade.looks, arcade.files),
        *play_routes.routes(arcade.sessions, arcade.broadcasts),
        *recordings_routes.ROUTES,
        *retrain_routes.routes(arcade.jobs),
        *zoo_routes.ROUTES,
        *board_routes.routes(arcade.referee),
        *how.ROUTES,
        *modules.ROUTES,
        *health.routes(arcade.broadcasts, arcade.sessions),
        *guard.ROUTES,
    ]
    middleware = [
        Middleware(Guard),
        Middleware(CompressOnce),
        Middleware(Prefetch, broadcasts=arcade.broadcasts),
        Middleware(EndWithSlash),
    ]
    return {
        "theme": THEME,
        "css": CSS,
        "ssr_mode": False,
        "run_history": False,
        "show_error": False,
        "enable_monitoring": False,
        "mcp_server": api.MCP,
        "footer_links": [],
        "max_file_size": "1mb",
        "state_session_capacity": SESSIONS,
        "max_threads": THREADS,
        **gradio_internals.before_gradios_own(routes, middleware),
    }


def tab(label: str, name: str) -> gr.Tab:
    """A tab that the page's address names while it is in front."""
    made = gr.Tab(label, id=name)
    made.select(None, js=modules.calling("address.js", "bring", name), api_visibility="private")
    return made


def _arrive(request: gr.Request) -> Any:  # noqa: ANN401
    """The tab that the page's address names, as `?tab=how`; any other text leaves the page as it is."""
    return _opened(request.query_params.get("tab"))


def _return(event: gr.EventData) -> Any:  # noqa: ANN401
    """The tab that the visitor has gone back to."""
    return _opened(told_by(event).get("tab"))


def _opened(name: object) -> Any:  # noqa: ANN401
    return gr.Tabs(selected=name) if name in TABS else gr.skip()


def _leave(jobs: Jobs, request: gr.Request) -> None:
    jobs.leave_page(request.session_hash, keep=publishing.OFFERED)  # a visitor may be away to sign in


def close(page: gr.Blocks, arcade: Arcade) -> None:
    """Ends what is under way for visitors, and then the server, which tidies up. Whatever takes longer is cut off."""
    arcade.close()  # first: the server waits for all whom it still answers
    gradio_internals.close(page, LAST_SECONDS)
    arcade.close()  # what began meanwhile: an emulator's threads must not outlive the process


def warm_up(arcade: Arcade) -> None:
    """Does ahead what visitors would wait for, one thing at a time: whoever comes meanwhile waits for one at most."""
    for prepare in (partial(watch_tab.warm_up, arcade.broadcasts), warm_up_workers, how.lesson, _download_agents):
        if arcade.ending.wait(WARM_UP_PAUSE_SECONDS):
            return
        prepare()


def _download_agents() -> None:
    """Those that are on the Hub alone."""
    for entry in zoo.entries().values():
        if not entry.directory.exists():
            with suppress(OSError, ValueError):  # whoever asks for it will be told
                entry.open()
