"""Node 0's supervisor: the same loop and lifecycle as on an Ascend node, whose workers run elsewhere.

mpirun is the one process that is started here. How workers end comes from their shims, and orders go to them
through the hub. Of mpirun's own exit status only this is believed: ranks whose shim never came won't come any more.
The job has succeeded when every shim has reported exit status 0, and by nothing else.
"""

from __future__ import annotations

import os
import select
import signal
import time
from typing import Callable, List, Mapping, Optional, Sequence, Tuple

from davincirun import lifecycle
from davincirun.lifecycle import KILLING, RUNNING, STOPPING, Exit, Launch
from davincirun.mpi.hub import Heard, Hub, Lost, NodeSignalled, Refused, Reported
from davincirun.mpi.plan import MpiPlan
from davincirun.output import Output
from davincirun.processes import Processes, StartError
from davincirun.report import duration
from davincirun.sink import Sink
from davincirun.supervise import Supervisor, WorkerCommand
from davincirun.wakeup import Wakeup

MPIRUN = -1  # its place among the ranks in `Processes` and `Output`
GRACE_RESERVE_SECONDS = 5.0  # the shims give the grace; this much later we stop waiting for them
MPIRUN_PATIENCE_SECONDS = 5.0  # from the last shim's end to mpirun's
FAILED_PATIENCE_SECONDS = 1.0  # the same when the job has failed: 4.1 then waits four seconds for nobody


class Conductor(Supervisor):
    """One job through mpirun being carried out."""

    def __init__(
        self,
        plan: MpiPlan,
        environ: Mapping[str, str],
        start_seconds: float,
        poll: select.epoll,
        flow: select.epoll,
        processes: Processes,
        output: Output,
        sinks: Sequence[Sink],
        signals: Tuple[Wakeup, int],
        hub: Hub,
        on_event: Callable[[Launch, lifecycle.Event], None],
    ) -> None:
        commands = [WorkerCommand(rank, (), {}, None, "") for rank in range(plan.ranks)]
        grace_seconds = plan.orders.grace_seconds + GRACE_RESERVE_SECONDS
        super().__init__(commands, poll, flow, processes, output, sinks, *signals, grace_seconds, on_event)
        self._plan = plan
        self._environ = environ
        self._start_seconds = start_seconds  # how long mpirun may take to bring the shims up
        self._hub = hub
        self._is_hastened = False
        self._mpirun_exit: Optional[Exit] = None
        self._is_mpirun_to_blame = False  # for the end of the job, as far as we know

    def _start(self, command: WorkerCommand) -> None:
        """One mpirun starts them all."""
        if command.rank != min(self._commands):
            return
        worker_fd = self._output.open(MPIRUN, self._plan.log_path)
        stdin_fd = os.open(os.devnull, os.O_RDONLY)
        env = {**self._environ, **self._plan.command.changes}
        try:
            self._deadline = time.monotonic() + self._start_seconds
            self._processes.start(MPIRUN, self._plan.command.argv, env, None, stdin_fd, worker_fd)
        except StartError as error:
            self._happen(lifecycle.StartFailed(command.rank, error.status, error.problem))
        finally:
            os.close(worker_fd)
            os.close(stdin_fd)

    def _handle(self, ready: List[int]) -> None:
        """Reports first: mpirun's own end is only worth a thought when no report explains it."""
        for fd in ready:
            if self._hub.owns(fd):
                for heard in self._hub.receive(fd):
                    self._heard(heard)
        super()._handle([fd for fd in ready if not self._hub.owns(fd)])

    def _heard(self, heard: Heard) -> None:
        if isinstance(heard, Reported):
            self._happen(lifecycle.WorkerExited(heard.rank, heard.exit, heard.seconds))
        elif isinstance(heard, Refused):
            self._give_up(heard.rank, heard.status, heard.problem)
        elif isinstance(heard, Lost):
            problem = f"lost without a report ({heard.problem.lower()}): its node or container is gone"
            self._give_up(heard.rank, 1, problem)
            if self._is_mpirun_to_blame:  # it was only the first to notice
                self._is_mpirun_to_blame = False
                self.launch = self.launch._replace(cause=lifecycle.StartFailed(heard.rank, 1, problem))
        elif isinstance(heard, NodeSignalled):
            self._happen(lifecycle.SignalReceived(heard.signum))

    def _ended(self, rank: int) -> None:
        """mpirun has ended; ranks that are there are heard of through their shims all the same."""
        looked = self._processes.look_at(rank)
        if looked is None:
            return
        self._output.drain(rank)
        self._processes.reap(rank)
        self._mpirun_exit = looked[0]
        missing = sorted(rank for rank in self.launch.running if not self._hub.is_there(rank))
        if self.launch.phase == RUNNING and self.launch.running:
            died_of = f"died of {looked[0]}" if looked[0].signum else f"ended with {looked[0]}"
            if missing:
                what = f"mpirun {died_of} before this rank reported that it had started"
                self._give_up(missing[0], looked[0].status or 1, what)
            else:
                status = looked[0].status if looked[0].signum else 1  # a code says nothing about the job: 5.0 gives 0
                self._give_up(min(self.launch.running), status, f"mpirun {died_of} while this rank was running")
                self._is_mpirun_to_blame = True
        self.launch = self.launch._replace(running=self.launch.running - set(missing))

    def _give_up(self, rank: int, status: int, problem: str) -> None:
        """A rank of which no exit will be heard."""
        running = self.launch.running - {rank}
        if self.launch.phase == RUNNING:
            self._happen(lifecycle.StartFailed(rank, status, problem))
        self.launch = self.launch._replace(running=running)

    def _happen(self, event: lifecycle.Event) -> None:
        """Nothing is left only when no shim is left anywhere. While ranks run, a deadline is that of mpirun's start."""
        if isinstance(event, lifecycle.DeadlinePassed) and self.launch.phase == RUNNING:
            self._look_for_missing()
            return
        if not (isinstance(event, lifecycle.NothingLeft) and self._hub.is_busy and self.launch.phase != KILLING):
            super()._happen(event)

    def _look_for_missing(self) -> None:
        missing = sorted(rank for rank in self.launch.running if not self._hub.has_been_there(rank))
        if missing:
            seconds = duration(self._start_seconds)
            which = f"{len(missing)} of {self._plan.ranks} ranks have not started"
            self._give_up(missing[0], 1, f"{which} within {seconds} (--hosts-timeout): mpirun hangs")

    def _act(self, actions: List[lifecycle.Action]) -> None:
        for action in actions:
            if isinstance(action, lifecycle.Stop):
                self._stop(action.signum)
            elif isinstance(action, lifecycle.Kill):
                self._hub.tell({"kill": True})
                self._processes.kill()
            elif isinstance(action, lifecycle.PassOn):
                self._hub.pass_on({"signal": action.signum})
            elif isinstance(action, lifecycle.Suspend):
                self._hub.pass_on({"signal": signal.SIGTSTP})
            elif isinstance(action, lifecycle.Resume):
                self._hub.pass_on({"signal": signal.SIGCONT})
            else:
                super()._act([action])

    def _stop(self, signum: int) -> None:
        """All shims are told at once: by the hub, and those that are just coming through mpirun."""
        if self.launch.cause is None:
            return  # all have ended well, and see to what they left behind by themselves
        self._hub.tell({"end": signum})
        if any(not self._hub.has_been_there(rank) for rank in self.launch.running):
            self._processes.signal_workers(signal.SIGUSR2)

    def _pursue(self) -> None:
        if self.launch.phase == STOPPING:
            if self._mpirun_exit is not None:
                if not self._hub.is_busy:
                    self._processes.stop_strays(signal.SIGTERM)
            elif not self._hub.is_busy and not self._is_hastened:
                self._hasten()
        elif self.launch.phase == KILLING:
            self._processes.kill()

    def _hasten(self) -> None:
        """No shim is there any more, so mpirun has nothing to do; 5.0 sometimes doesn't notice."""
        self._is_hastened = True
        if self.launch.running:
            self._processes.signal_workers(signal.SIGTERM)  # it is still starting some
        patience = MPIRUN_PATIENCE_SECONDS if self.launch.cause is None else FAILED_PATIENCE_SECONDS
        self._deadline = time.monotonic() + patience

    def _show(self) -> None:
        super()._show()
        self._hub.advance()
