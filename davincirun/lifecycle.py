"""The life of a launch, decided: events go in, a new state and actions come out. Nothing here acts.

    RUNNING  workers run. The first failure, a stopping signal or the last worker's end leads to
    STOPPING everything that is left has been told to end, and one grace is shared by all. When it is over,
             or somebody says INT a second time, comes
    KILLING  everything that is left has been killed. From both,
    DONE     nothing of the job is left, or what is left can't be killed.

A phase is never gone back to. The first failure is the cause and stays it; workers that end after we told them to
are no failures. A launch whose workers all exit 0 passes through STOPPING too: what they left behind is told to
end before we go.
"""

from __future__ import annotations

import signal
from typing import Dict, FrozenSet, List, Optional, Tuple, Union

from davincirun.values import Value


class Exit(Value):
    """How one process ended: by a code, or by a signal."""

    code: Optional[int] = None
    signum: Optional[int] = None
    core_dumped: bool = False

    @property
    def status(self) -> int:
        """The number a shell would give: the code, or 128 + the signal."""
        return self.code if self.code is not None else 128 + (self.signum or 0)

    def __str__(self) -> str:
        if self.signum is None:
            return f"exit status {self.code}"
        return signal_name(self.signum) + (" (core dumped)" if self.core_dumped else "")


class Phase(Value):
    """One of the four; ordered."""

    number: int
    name: str


RUNNING, STOPPING, KILLING, DONE = (
    Phase(number, name) for number, name in enumerate(("running", "stopping", "killing", "done"))
)


class StartFailed(Value):
    """Event: a worker's command could not be run, and no later rank will be started.

    `status` is the launch's exit status (127 not found, 126 not executable, else 1), `problem` says why.
    """

    rank: int
    status: int
    problem: str


class WorkerExited(Value):
    """Event: a worker has ended. Events come in the order in which the kernel reported the exits."""

    rank: int
    exit: Exit
    seconds: float  # how long the worker ran


class SignalReceived(Value):
    """Event: somebody sent a signal to the launcher."""

    signum: int


class DeadlinePassed(Value):
    """Event: the deadline that was set is over."""


class NothingLeft(Value):
    """Event: no process of the job exists any more."""


class GuardianDied(Value):
    """Event: the process that the platform started was killed under us."""


NO_NODE = -1  # the rank of whoever started all nodes, and is none


class NodeFailed(Value):
    """Event: on another node the launch has failed, earlier than here, or that node has vanished.

    `rank`, `exit` and `seconds` are those of the worker that failed; `problem` says it where it was no worker.
    """

    node_rank: int
    host: str
    status: int  # the launch's exit status, on every node
    rank: Optional[int] = None
    exit: Optional[Exit] = None
    seconds: Optional[float] = None
    problem: str = ""

    @property
    def is_by_signal(self) -> bool:
        """The launcher there was told to stop: what made somebody do that may lie elsewhere."""
        return self.rank is None and self.status > 128


Event = Union[StartFailed, WorkerExited, SignalReceived, DeadlinePassed, NothingLeft, GuardianDied, NodeFailed]
Cause = Union[StartFailed, WorkerExited, SignalReceived, GuardianDied, NodeFailed]


class StartWorker(Value):
    """Action: start this rank's command."""

    rank: int


class Stop(Value):
    """Action: send `signum` to everything that is left of the job, and wake what is stopped."""

    signum: int


class Kill(Value):
    """Action: SIGKILL everything that is left, until nothing is."""


class SetDeadline(Value):
    """Action: send DeadlinePassed in so many seconds; replaces the deadline before."""

    seconds: float


class PassOn(Value):
    """Action: send the signal to each worker, not to its children."""

    signum: int


class Suspend(Value):
    """Action: stop all workers and their groups as Ctrl-Z does."""


class Resume(Value):
    """Action: let them go on."""


Action = Union[StartWorker, Stop, Kill, SetDeadline, PassOn, Suspend, Resume]

KILL_PATIENCE_SECONDS = 5.0  # a process in an uninterruptible system call can't be waited for for ever
STOPPING_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


class Launch(Value):
    """The state of a launch."""

    grace_seconds: float
    phase: Phase
    running: FrozenSet[int]  # ranks whose worker has not ended
    exits: Dict[int, WorkerExited]  # by rank; never changed in place
    cause: Optional[Cause] = None  # why the launch ends before its workers did
    stop_signum: int = 0  # what everything was told to end with
    was_killed: bool = False  # something had to be killed
    killed: Tuple[int, ...] = ()  # the ranks among it
    is_hurried: bool = False  # ... before the grace was over


def begin(ranks: Tuple[int, ...], grace_seconds: float) -> Tuple[Launch, List[Action]]:
    """A launch of these ranks, and the order to start them, lowest first."""
    launch = Launch(grace_seconds, RUNNING, frozenset(ranks), {})
    return launch, [StartWorker(rank) for rank in sorted(ranks)]


def step(launch: Launch, event: Event) -> Tuple[Launch, List[Action]]:
    """What becomes of `launch` by `event`, and what is to be done."""
    if isinstance(event, NodeFailed):
        return _failed_elsewhere(launch, event)
    if launch.phase == DONE:
        return launch, []
    if isinstance(event, (WorkerExited, StartFailed)):
        return _ended(launch, event)
    if isinstance(event, SignalReceived):
        return _signalled(launch, event)
    if isinstance(event, GuardianDied):
        return _kill(launch._replace(cause=event if launch.cause is None else launch.cause, is_hurried=True))
    if isinstance(event, NothingLeft):
        over = launch.phase != RUNNING or not launch.running
        return (launch._replace(phase=DONE), []) if over else (launch, [])
    if launch.phase == STOPPING:
        return _kill(launch)
    return launch._replace(phase=DONE), []  # the kill's own deadline: something can't be killed


def exit_status(launch: Launch) -> int:
    """The launcher's exit status: the cause's, else 0, which takes that every worker exited 0."""
    cause = launch.cause
    if isinstance(cause, WorkerExited):
        return cause.exit.status
    if isinstance(cause, (StartFailed, NodeFailed)):
        return cause.status
    if isinstance(cause, SignalReceived):
        return 128 + cause.signum
    if isinstance(cause, GuardianDied):
        return 128 + signal.SIGKILL
    return 0


def signal_name(signum: int) -> str:
    try:
        return signal.Signals(signum).name
    except ValueError:
        return f"signal {signum}"  # real-time signals have no names of their own


def _ended(launch: Launch, event: Union[WorkerExited, StartFailed]) -> Tuple[Launch, List[Action]]:
    if isinstance(event, StartFailed):
        started = frozenset(rank for rank in launch.running if rank < event.rank)
        return _stop(launch._replace(cause=event, running=started), signal.SIGTERM)
    launch = launch._replace(running=launch.running - {event.rank}, exits={**launch.exits, event.rank: event})
    if launch.phase == RUNNING:
        if event.exit.status != 0:
            return _stop(launch._replace(cause=event), signal.SIGTERM)
        if not launch.running:
            return _stop(launch, signal.SIGTERM)
    elif launch.phase == STOPPING and not launch.running and launch.stop_signum != signal.SIGTERM:
        # The workers have obeyed the INT. What they left behind may be deaf to it, as every
        # background job of a shell script is; TERM reaches those.
        return launch._replace(stop_signum=signal.SIGTERM), [Stop(signal.SIGTERM)]
    return launch, []


def _signalled(launch: Launch, event: SignalReceived) -> Tuple[Launch, List[Action]]:
    if event.signum in STOPPING_SIGNALS:
        if launch.phase == RUNNING:
            told = signal.SIGINT if event.signum == signal.SIGINT else signal.SIGTERM
            return _stop(launch._replace(cause=event), told)
        if event.signum == signal.SIGINT and launch.phase == STOPPING:
            return _kill(launch._replace(is_hurried=True))
        return launch, []
    if event.signum == signal.SIGTSTP:
        return launch, [Suspend()]
    if event.signum == signal.SIGCONT:
        return launch, [Resume()]
    return launch, [PassOn(event.signum)]


def _failed_elsewhere(launch: Launch, event: NodeFailed) -> Tuple[Launch, List[Action]]:
    """The first failure of all nodes is the cause everywhere, even after the end here; a worker's end was its echo."""
    if launch.phase == RUNNING:
        return _stop(launch._replace(cause=event), signal.SIGTERM)
    if launch.cause is None or isinstance(launch.cause, (WorkerExited, StartFailed)):
        return launch._replace(cause=event), []
    return launch, []


def _stop(launch: Launch, signum: int) -> Tuple[Launch, List[Action]]:
    launch = launch._replace(phase=STOPPING, stop_signum=signum)
    return launch, [SetDeadline(launch.grace_seconds), Stop(signum)]  # telling many takes milliseconds of the grace


def _kill(launch: Launch) -> Tuple[Launch, List[Action]]:
    launch = launch._replace(phase=KILLING, was_killed=True, killed=tuple(sorted(launch.running)))
    return launch, [Kill(), SetDeadline(KILL_PATIENCE_SECONDS)]
