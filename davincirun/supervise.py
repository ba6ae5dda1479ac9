"""The loop that joins the lifecycle to processes and output. It decides nothing.

Signals, exits, the guardian's life line and the flow of output all wake one `epoll`, whose ready list keeps the
kernel's order; a deadline is its time-out. The flow (the workers' pipes, a console that takes more) has an epoll of
its own inside the first, a tap that is closed for a moment after each look. While nothing happens, nothing runs.
"""

from __future__ import annotations

import gc
import os
import select
import signal
import time
from typing import TYPE_CHECKING, Callable, Dict, Iterable, List, Mapping, Optional, Sequence

from davincirun import lifecycle
from davincirun.lifecycle import DONE, KILLING, RUNNING, STOPPING, Launch
from davincirun.output import Output
from davincirun.processes import Processes, StartError
from davincirun.sink import Sink
from davincirun.values import Value
from davincirun.wakeup import Wakeup

if TYPE_CHECKING:
    from davincirun.nodes import Nodes

GATHERING_SECONDS = 0.002  # at most so long a line waits while others come; the first after a silence doesn't
CONSOLE_PATIENCE_SECONDS = 600.0  # for a paused reader after the job's own end; a signal cuts it short
STUCK_SECONDS = 1.0  # a console that has taken nothing for so long gets no more time after a signal


class WorkerCommand(Value):
    """All that starting one worker takes."""

    rank: int
    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: Optional[str]
    log_path: str


class Supervisor:
    """One launch being carried out.

    The GPU engine's conductor and shim are this too: they override what is listened to and what orders act on. The loop
    and the lifecycle are the same.
    """

    def __init__(
        self,
        commands: Iterable[WorkerCommand],
        poll: select.epoll,
        flow: select.epoll,
        processes: Processes,
        output: Output,
        sinks: Sequence[Sink],
        wakeup: Wakeup,
        lifeline_fd: int,
        grace_seconds: float,
        on_event: Callable[[Launch, lifecycle.Event], None],
        nodes: Optional[Nodes] = None,
    ) -> None:
        self._commands: Dict[int, WorkerCommand] = {command.rank: command for command in commands}
        self._poll = poll
        self._flow = flow
        self._tap_opens: Optional[float] = None  # when output is looked at again; None: as soon as there is some
        self._processes = processes
        self._output = output
        self._sinks = sinks
        self._wakeup = wakeup
        self._lifeline_fd = lifeline_fd
        self._on_event = on_event
        self._nodes = nodes
        self._deadline: Optional[float] = None
        self._is_cut_short = False  # a signal came, or the guardian is gone: don't wait for the console
        self.launch, self._first_actions = lifecycle.begin(tuple(self._commands), grace_seconds)
        poll.register(wakeup.fd, select.EPOLLIN)
        poll.register(lifeline_fd, select.EPOLLIN)
        if nodes is not None and nodes.fd is not None:
            poll.register(nodes.fd, select.EPOLLIN)
        poll.register(flow.fileno(), select.EPOLLIN)

    def run(self) -> Launch:
        """Carry the launch out until nothing is left of it."""
        self._processes.make_room(len(self._commands))
        self._act(self._first_actions)
        gc.enable()  # off while we started (see cli.run), wanted in a job that runs for weeks
        self._reap()
        while self.launch.phase != DONE:
            self._handle(self._wait())
            self._reap()
            self._pursue()
            self._show()
        return self.launch

    def show_the_rest(self) -> None:
        """Let the console have all that was said, as long as there is hope that somebody reads it."""
        self._output.finish()
        self._show()
        while self._output.is_behind or any(sink.is_waiting and not sink.is_closed for sink in self._sinks):
            stuck = max(sink.stuck_seconds() for sink in self._sinks)
            patience = STUCK_SECONDS if self._is_cut_short else CONSOLE_PATIENCE_SECONDS
            if stuck >= patience:
                return
            self._deadline = time.monotonic() + patience - stuck
            self._handle(self._wait())
            self._output.finish()
            self._show()

    def _wait(self) -> List[int]:
        until = [moment for moment in (self._deadline, self._tap_opens) if moment is not None]
        timeout = max(min(until) - time.monotonic(), 0) if until else None
        if timeout is not None and timeout > 1:
            timeout *= 0.99  # the kernel may be late by a thousandth of a wait (select_estimate_accuracy)
        return [fd for fd, _ in self._poll.poll(timeout)]

    def _handle(self, ready: List[int]) -> None:
        for fd in ready:
            rank = self._processes.rank_of(fd)
            if rank is not None:
                self._ended(rank)
            elif fd == self._flow.fileno():
                self._let_flow()
            elif fd == self._wakeup.fd:
                self._signalled(self._wakeup.take())
            elif self._nodes is not None and fd == self._nodes.fd:
                for event in self._nodes.events():
                    self._happen(event)
            elif fd == self._lifeline_fd:
                self._poll.unregister(fd)
                self._is_cut_short = True
                self._happen(lifecycle.GuardianDied())
        if self._tap_opens is not None and time.monotonic() >= self._tap_opens:
            self._tap_opens = None
            self._poll.modify(self._flow.fileno(), select.EPOLLIN)
        if self._deadline is not None and time.monotonic() >= self._deadline:
            self._deadline = None
            self._happen(lifecycle.DeadlinePassed())

    def _let_flow(self) -> None:
        """Move what was printed, then let it gather for a moment: a wake-up for every line would be half the work."""
        for fd, _ in self._flow.poll(0):
            if self._output.owns(fd):
                self._output.receive(fd)
            else:
                for sink in self._sinks:
                    if sink.fd == fd:
                        sink.flush()
        self._poll.modify(self._flow.fileno(), 0)
        self._tap_opens = time.monotonic() + GATHERING_SECONDS

    def _signalled(self, signums: List[int]) -> None:
        for signum in signums:
            if signum != signal.SIGCHLD:
                self._is_cut_short |= signum in lifecycle.STOPPING_SIGNALS
                self._happen(lifecycle.SignalReceived(signum))

    def _ended(self, rank: int) -> None:
        """Look at how a worker ended, decide, and only then reap it: its group must stay addressable till then."""
        looked = self._processes.look_at(rank)
        if looked is not None:
            self._output.drain(rank)
            self._happen(lifecycle.WorkerExited(rank, *looked))
            self._processes.reap(rank)

    def _reap(self) -> None:
        """Reap ended orphans; without pidfds, this is also where workers' ends are seen."""
        rank, nobody_left = self._processes.reap_strangers()
        while rank is not None and not self._processes.reports_ends:
            self._ended(rank)
            rank, nobody_left = self._processes.reap_strangers()
        if nobody_left:
            self._happen(lifecycle.NothingLeft())

    def _pursue(self) -> None:
        """Those that have appeared since everything was told to end, or killed, get the same."""
        if self.launch.phase == STOPPING and not self.launch.running:
            self._processes.stop_strays(self.launch.stop_signum)
        elif self.launch.phase == KILLING:
            self._processes.kill()

    def _show(self) -> None:
        self._output.advance()
        for sink in self._sinks:
            sink.watch(self._flow)

    def _happen(self, event: lifecycle.Event) -> None:
        self.launch, actions = lifecycle.step(self.launch, event)
        self._on_event(self.launch, event)
        self._act(actions)

    def _act(self, actions: List[lifecycle.Action]) -> None:
        for action in actions:
            if isinstance(action, lifecycle.StartWorker):
                if self.launch.phase == RUNNING:
                    self._start(self._commands[action.rank])
            elif isinstance(action, lifecycle.Stop):
                self._processes.stop(action.signum)
            elif isinstance(action, lifecycle.Kill):
                self._processes.kill()
            elif isinstance(action, lifecycle.SetDeadline):
                self._deadline = time.monotonic() + action.seconds
            elif isinstance(action, lifecycle.PassOn):
                self._processes.signal_workers(action.signum)
            elif isinstance(action, lifecycle.Suspend):
                self._processes.signal_groups(signal.SIGSTOP)
            else:
                self._processes.signal_groups(signal.SIGCONT)

    def _start(self, command: WorkerCommand) -> None:
        worker_fd = self._output.open(command.rank, command.log_path)
        stdin_fd = None if len(self._commands) == 1 else os.open(os.devnull, os.O_RDONLY)
        try:
            self._processes.start(command.rank, command.argv, command.env, command.cwd, stdin_fd, worker_fd)
        except StartError as error:
            self._happen(lifecycle.StartFailed(command.rank, error.status, error.problem))
        finally:
            os.close(worker_fd)
            if stdin_fd is not None:
                os.close(stdin_fd)
