"""Publishing a visitor's own agent to the visitor's account, where the page is a Space that can sign visitors in."""

import os
import threading
from collections.abc import Iterator

import gradio as gr

from a3c_core.checkpoint import CheckpointError
from training.publish import Publication
from training.publish import publish as publish_agent
from ui.admission import PerVisitor, TooMany
from ui.retrain.jobs import Jobs
from ui.screen import link_to
from ui.settings import name_of, refusal
from ui.status import status_of
from ui.visitors import address_of
from ui.watch.hub_agents import words_of
from zoo import hub

OFFERED = bool(os.environ.get("OAUTH_CLIENT_ID") or os.environ.get("A3C_OAUTH"))
"""A Space with `hf_oauth` has a client id; A3C_OAUTH=1 offers Gradio's stand-in, for trying it elsewhere."""

SUMMARY = "Trained in a browser, in the A3C Arcade."
GAMES = 100
"""That score an agent before it is published."""
AT_ONCE = 4
"""Visitors who publish at the same time: most of it is waiting for the Hub."""
EACH = 2
"""Publications of one visitor that may be under way or waiting."""
LEAVING = "() => sessionStorage.setItem('signing-in', 'yes')"
RETURNING = """(kept) => {
  const back = sessionStorage.getItem("signing-in");
  sessionStorage.removeItem("signing-in");
  return back ? kept : null;
}"""
"""The run that was kept is handed on where this window left to sign in: any other begins as its address says."""
UNPUBLISHED = "It is not published. Your agent is still here: try again, sign out and in, or download it."


def build() -> gr.Button:
    """The button that signs in and out, and the one that publishes, which is returned."""
    sign_in = gr.LoginButton("Sign in to publish", "Sign out ({})", size="md", elem_id="sign-in")
    sign_in.click(js=LEAVING, api_visibility="private")
    return gr.Button("Publish to my account", elem_classes="quiet", elem_id="publish")


class Publisher:
    """Publishes visitors' agents."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._of_one_visitor = PerVisitor(EACH, "agents are being published")
        self._scoring = threading.Semaphore(1)
        """It takes a core, and no turn of those that show a visitor's agent before and after its training."""

    def publish(
        self,
        run_id: str | None,
        profile: gr.OAuthProfile | None,
        token: gr.OAuthToken | None,
        request: gr.Request | None = None,
    ) -> Iterator[str]:
        """Scores the agent of a visitor's run and publishes it as the visitor; the token is used and forgotten."""
        run = self._jobs.found(run_id, request)
        if run is None or not run.outcome:
            raise refusal("Train an agent first: there is none to publish.")
        if profile is None or token is None:
            raise refusal("Sign in with Hugging Face first, with the button above.")
        name = name_of(run.recipe)
        repo = hub.repository_of(name, run.recipe.env, profile.username)
        try:
            with self._of_one_visitor.one(address_of(request)):
                yield status_of(f"Playing {GAMES} games to score your agent.")
                with self._scoring:
                    publication = Publication.of_run(run.checkpoint, name, summary=SUMMARY, episodes=GAMES)
                yield status_of(f"Recording a game and uploading to {repo}.")
                publish_agent(publication, repo, token=token.token)
        except TooMany as error:
            raise refusal(str(error)) from None
        except (CheckpointError, OSError) as error:
            yield status_of(f"{words_of(error)} {UNPUBLISHED}")
            return
        yield f'<p role="status">Published: {link_to(repo)}</p>'
