"""What all visitors of one arcade share."""

import threading

from ui.board.referee import referee_of_host
from ui.play.sessions import Sessions
from ui.retrain.jobs import Jobs
from ui.streaming.files import Files
from ui.streaming.saliency import Looks
from ui.streaming.stream import Broadcasts, agent_of
from ui.watch.hub_agents import HubAgents


class Arcade:
    """Its games, trainings and boards, from its start to its end; routes and tabs are handed the parts that they need.

    What only one route or handler needs, such as its share for each visitor, is made with that.
    """

    def __init__(self) -> None:
        self.broadcasts = Broadcasts(agent_of)
        self.looks = Looks()
        self.files = Files(self.broadcasts)
        self.sessions = Sessions()
        self.jobs = Jobs()
        self.hub_agents = HubAgents(self.broadcasts)
        self.referee = referee_of_host()
        """None where there are to be no boards."""
        self.ending = threading.Event()
        """Set once the app is asked to end."""

    def close(self) -> None:
        """Ends all that is under way, before the process does: an emulator's threads must not outlive it."""
        self.ending.set()
        self.jobs.end()
        self.sessions.end()
        self.broadcasts.end()
        if self.referee:
            self.referee.end()
