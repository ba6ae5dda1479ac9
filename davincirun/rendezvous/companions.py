"""The other nodes of the job, as the launcher deals with them: agree, hear of failures, report one's own, leave."""

from __future__ import annotations

import time
from typing import Callable, List, Optional, Sequence, Tuple

from davincirun.errors import DavincirunError
from davincirun.lifecycle import (
    Event,
    GuardianDied,
    Launch,
    NodeFailed,
    SignalReceived,
    StartFailed,
    WorkerExited,
    exit_status,
    signal_name,
    step,
)
from davincirun.messages import Messages
from davincirun.rendezvous.agreement import Agreement, RendezvousError
from davincirun.rendezvous.liaison import Liaison, Meeting
from davincirun.rendezvous.news import Done, Left, Progress, Refused, Warned

Pause = Callable[[Sequence[int], float], None]

_LAST_WORDS_SECONDS = 1.0  # for the others to say who failed first
_BEYOND_SECONDS = 10.0  # after its own time-out, a meeting that still says nothing is stuck
_LONG_SECONDS = 3600.0


class Companions:
    """The launchers of all other nodes."""

    def __init__(
        self, meeting: Meeting, messages: Messages, host: str, node_rank: int, linger_seconds: Optional[float]
    ) -> None:
        self._messages = messages
        self._host = host
        self._is_light = linger_seconds is None  # with a table in common, but no agreement
        self._linger_seconds = linger_seconds or _LAST_WORDS_SECONDS  # after a failure, for all nodes to end
        self._liaison = Liaison(meeting)
        self._has_reported = False
        self.has_left = False  # all there was to say and to hear is said and heard
        self.node_rank = node_rank

    @property
    def fd(self) -> int:
        """Readable when `events` has something to say."""
        return self._liaison.fd

    def agree(self, nonce: str, timeout_seconds: float, pause: Pause) -> Agreement:
        """Wait for the agreement; RendezvousError says why there is none. What `pause` raises ends the meeting."""
        deadline = time.monotonic() + timeout_seconds + _BEYOND_SECONDS
        try:
            while True:
                for news in self._liaison.take():
                    if isinstance(news, Agreement):
                        self.node_rank = news.rank_of(nonce) or 0
                        return news
                    if isinstance(news, Refused):
                        raise RendezvousError(news.text)
                    if isinstance(news, Left):
                        self.has_left = True
                        raise RendezvousError("the nodes' meeting broke down before there was an agreement")
                    if isinstance(news, (Progress, Warned)):
                        self._messages.info(news.text)
                if time.monotonic() > deadline:
                    raise RendezvousError(f"the nodes' meeting has given no sign for {timeout_seconds:.0f} s")
                pause([self.fd], deadline - time.monotonic())
        except DavincirunError:
            self._liaison.leave(_LAST_WORDS_SECONDS)
            raise

    def events(self) -> List[Event]:
        """The failures on other nodes, for the lifecycle; what else there is to say is said."""
        events: List[Event] = []
        for news in self._liaison.take():
            if isinstance(news, NodeFailed) and news.node_rank != self.node_rank:
                events.append(news)
            elif isinstance(news, Warned):
                self._messages.warning(news.text)
            elif isinstance(news, Refused):
                say = self._messages.detail if self._is_light else self._messages.warning
                say(f"failures on other nodes won't be noticed: {news.text}")
            elif isinstance(news, Left):
                self.has_left = True
        return events

    def report(self, launch: Launch) -> None:
        """Tell the others why the launch ends here, if it does; once."""
        if launch.cause is None or self._has_reported:
            return
        self._has_reported = True
        if not isinstance(launch.cause, NodeFailed):
            self._liaison.give(our_failure(launch, self.node_rank, self._host))

    def settle(self, launch: Launch, pause: Pause) -> Launch:
        """Leave at the end; `launch` with what the others had to say. All well, node 0 stays until all are done."""
        self._liaison.give(Done())
        if self._is_light and launch.cause is None:
            return launch
        started = time.monotonic()
        is_told = False
        try:
            while not self.has_left:
                waited = time.monotonic() - started
                if waited >= self._linger_seconds and launch.cause is not None:
                    break
                if waited >= _LAST_WORDS_SECONDS and not is_told:
                    is_told = True
                    self._messages.info("the workers here have ended; staying until those of the other nodes have, too")
                wait = _LONG_SECONDS if launch.cause is None else self._linger_seconds - waited
                pause([self.fd], wait if is_told else _LAST_WORDS_SECONDS - waited)
                for event in self.events():
                    launch, _ = step(launch, event)
        except DavincirunError as stopped:  # by a signal
            if launch.cause is None:
                launch = launch._replace(cause=SignalReceived(stopped.exit_status - 128))
        return launch

    def close(self, problem: Optional[Tuple[int, str]]) -> None:
        """Leave on any path; `problem` (exit status and text) is why there never were workers, where that is so."""
        if problem is not None and not self._has_reported:
            status, text = problem
            self._liaison.give(NodeFailed(self.node_rank, self._host, status, problem=text))
        if not self.has_left:
            self._liaison.leave(0.0 if self._is_light and problem is None else _LAST_WORDS_SECONDS)


def our_failure(launch: Launch, node_rank: int, host: str) -> NodeFailed:
    """Why the launch ends on this node, in the others' words."""
    cause = launch.cause
    rank: Optional[int] = None
    problem = ""
    if isinstance(cause, WorkerExited):
        return NodeFailed(node_rank, host, exit_status(launch), cause.rank, cause.exit, cause.seconds)
    if isinstance(cause, StartFailed):
        rank, problem = cause.rank, f"rank {cause.rank} can't be started: {cause.problem}"
    elif isinstance(cause, SignalReceived):
        problem = f"stopped by {signal_name(cause.signum)}"
    elif isinstance(cause, GuardianDied):
        problem = "its launcher was killed"
    return NodeFailed(node_rank, host, exit_status(launch), rank, problem=problem)
