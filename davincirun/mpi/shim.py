"""What mpirun starts as each rank: it starts the user's command, looks after it, and reports to node 0's launcher.

mpirun can't be trusted with the command's arguments and directory, with the time between TERM and KILL, or with
what a rank leaves behind. So the worker lives in a session of its own below a guardian and a supervisor, just as
below the launcher on an Ascend node, with one difference: when mpirun kills the guardian, which it does a
fraction of a second after TERM, the supervisor lives on for the grace that the user was promised.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from typing import List, Mapping, Optional, Sequence, Tuple

from davincirun import lifecycle
from davincirun.console import Console, Style
from davincirun.descendants import become_subreaper
from davincirun.errors import DavincirunError
from davincirun.guardian import guarded
from davincirun.host import this_host
from davincirun.lifecycle import RUNNING, Launch, StartFailed, WorkerExited
from davincirun.messages import Messages
from davincirun.mpi import wire
from davincirun.mpi.payload import Orders, decode
from davincirun.mpi.worker import HUB_VARIABLE, KEY_VARIABLE, Rank, environment, node_index, rank_of, worker_changes
from davincirun.output import Output
from davincirun.processes import Processes
from davincirun.report import TAIL_LINES
from davincirun.sink import Sink
from davincirun.supervise import Supervisor, WorkerCommand
from davincirun.wakeup import Wakeup


def main(words: Sequence[str]) -> int:
    """Run one rank as the orders in `words` say. 0 once node 0 knows how it ended, else the worker's status."""
    try:
        orders, rank = decode(words), rank_of(os.environ)
    except (DavincirunError, ValueError) as error:
        os.write(2, f"davincirun: shim: {error}\n".encode("utf-8", "surrogateescape"))
        return 1
    return guarded(lambda lifeline_fd: _explained(orders, rank, lifeline_fd))


def _explained(orders: Orders, rank: Rank, lifeline_fd: int) -> int:
    try:
        return _run(orders, rank, os.environ, lifeline_fd)
    except DavincirunError as error:
        text = f"davincirun: rank {rank.rank} on {os.uname().nodename}: {error}\n"
        os.write(2, text.encode("utf-8", "surrogateescape"))
        return error.exit_status


class _Hub:
    """Our side of the connections to node 0's launcher."""

    def __init__(self, environ: Mapping[str, str], rank: int, host: str, log_path: str) -> None:
        port, *addresses = environ[HUB_VARIABLE].split()
        key = environ.get(KEY_VARIABLE, "")
        hello = {"number": rank, "host": host, "log_path": log_path}
        self.reports = wire.join(addresses, int(port), key, {"kind": "shim", **hello})
        self.output = wire.join(addresses, int(port), key, {"kind": "output", **hello})
        for sock in (self.reports, self.output):
            sock.setblocking(False)
        self.lines = wire.Lines()

    def say(self, message: wire.Message) -> None:
        with contextlib.suppress(OSError):  # node 0 is gone, which reading tells
            self.reports.send(wire.line(message))

    def close(self) -> None:
        """What was printed must be there before we are gone, since node 0 waits for both connections to end."""
        self.output.close()
        self.reports.close()


class _ShimSupervisor(Supervisor):
    """Supervises one worker, and listens to node 0 too."""

    def listen(self, hub: Optional[_Hub]) -> None:
        self._hub = hub
        if hub is not None:
            self._poll.register(hub.reports.fileno(), select.EPOLLIN)

    def _handle(self, ready: List[int]) -> None:
        rest = []
        for fd in ready:
            if self._hub is not None and fd == self._hub.reports.fileno():
                self._ordered(self._hub)
            elif fd == self._lifeline_fd:
                self._poll.unregister(fd)
                self._end_softly(signal.SIGTERM)  # mpirun has killed our guardian; the grace is ours to give
            else:
                rest.append(fd)
        super()._handle(rest)

    def _signalled(self, signums: List[int]) -> None:
        """mpirun's TERM, and SIGUSR2, which it hands to all ranks at once, both mean the end."""
        for signum in signums:
            if signum in (signal.SIGUSR2, *lifecycle.STOPPING_SIGNALS):
                self._end_softly(signal.SIGTERM)
            elif signum != signal.SIGCHLD and signum != signal.SIGCONT:
                super()._signalled([signum])

    def _ordered(self, hub: _Hub) -> None:
        try:
            data = hub.reports.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._poll.unregister(hub.reports.fileno())
            self._is_cut_short = True
            self._happen(lifecycle.GuardianDied())  # node 0's launcher was killed: the job ends with it
            return
        for message in hub.lines.feed(data):
            if "kill" in message:
                self._is_cut_short = True
                self._happen(lifecycle.GuardianDied())
            elif "end" in message:
                self._end_softly(int(message["end"]))
            elif "signal" in message:
                self._happen(lifecycle.SignalReceived(int(message["signal"])))

    def _end_softly(self, signum: int) -> None:
        self._is_cut_short = True
        if self.launch.phase == RUNNING:
            self._happen(lifecycle.SignalReceived(signum))


def _run(orders: Orders, rank: Rank, environ: Mapping[str, str], lifeline_fd: int) -> int:
    host = os.uname().nodename
    log_path = os.path.join(orders.log_dir, f"{orders.job_id}-proc-rank-{rank.rank}-device-{rank.local_rank}.txt")
    with Wakeup() as wakeup:
        hub = _Hub(environ, rank.rank, host, log_path) if environ.get(HUB_VARIABLE) else None
        try:
            problem = _make(orders.cwd, orders.log_dir)
            if problem and hub:
                hub.say({"refused": 1, "problem": problem})
                return 0
            if problem:
                raise DavincirunError(problem)
            done = _supervise(orders, rank, environ, (wakeup, lifeline_fd), hub, log_path)
        finally:
            if hub is not None:
                hub.close()
    return lifecycle.exit_status(done) if hub is None else 0


def _make(cwd: str, log_dir: str) -> Optional[str]:
    """Make the working directory, which mpirun would replace by the home directory, and that of the logs."""
    try:
        os.makedirs(cwd, exist_ok=True)
    except OSError as error:
        return f"{cwd}: the working directory can't be made: {os.strerror(error.errno or 0)}; --workdir names another"
    with contextlib.suppress(OSError):  # opening the log will say so; the rank's output goes on to the console
        os.makedirs(log_dir, exist_ok=True)
    return None


def _supervise(
    orders: Orders,
    rank: Rank,
    environ: Mapping[str, str],
    signals: Tuple[Wakeup, int],
    hub: Optional[_Hub],
    log_path: str,
) -> Launch:
    subreaper = become_subreaper()
    out, err = Sink(1 if hub is None else hub.output.fileno()), Sink(2)
    messages = Messages(err, "[davincirun] ")
    with select.epoll() as poll, select.epoll() as flow:
        style = Style(prefix=orders.prefix, colour=orders.colour, terminal=orders.terminal)
        processes = Processes(poll, f"DAVINCIRUN_RUN_ID={orders.run_id}".encode(), subreaper)
        output = Output(flow, Console(out, style), messages.warning)

        def on_event(launch: Launch, event: lifecycle.Event) -> None:
            if hub is not None:
                _tell(hub, event, processes, output)
            elif isinstance(event, StartFailed):
                messages.error(f"rank {event.rank}: {event.problem}")

        command = WorkerCommand(rank.rank, orders.argv, _environment(orders, rank, environ), orders.cwd, log_path)
        supervisor = _ShimSupervisor(
            [command], poll, flow, processes, output, [out, err], *signals, orders.grace_seconds, on_event
        )
        supervisor.listen(hub)
        done = supervisor.run()
        supervisor.show_the_rest()
        output.close()
        processes.close()
    return done


def _tell(hub: _Hub, event: lifecycle.Event, processes: Processes, output: Output) -> None:
    """Let node 0 know at once how the worker ended; what it left behind is cleaned up after."""
    if isinstance(event, WorkerExited):
        tail = output.tail(event.rank, TAIL_LINES) if event.exit.status else []
        pid = processes.pids[event.rank]
        hub.say({"exit": list(event.exit), "seconds": event.seconds, "pid": pid, "tail": tail})
    elif isinstance(event, StartFailed):
        hub.say({"refused": event.status, "problem": event.problem})


def _environment(orders: Orders, rank: Rank, environ: Mapping[str, str]) -> Mapping[str, str]:
    host = this_host()
    names = (*host.names, *(name.split(".", 1)[0] for name in host.names), *host.addresses)
    node = node_index(orders.hosts, names, rank)
    cpu_count = len(os.sched_getaffinity(0))
    return environment(worker_changes(rank, node, orders, host.names[0], cpu_count, environ), environ)
