"""A launch through mpirun, in reading order: which node we are, the plan, the wait for the others, the job, its end."""

from __future__ import annotations

import os
import select
import socket
import sys
import time
import zlib
from typing import Mapping, Tuple, Union

from davincirun import files
from davincirun.console import Console, Style
from davincirun.descendants import become_subreaper
from davincirun.errors import DavincirunError, PlatformError
from davincirun.host import this_host
from davincirun.lifecycle import Event, Launch, StartFailed, WorkerExited, exit_status
from davincirun.messages import Messages
from davincirun.mpi import follower, sshd, view, wire
from davincirun.mpi.conductor import MPIRUN, Conductor
from davincirun.mpi.hosts import Nodes
from davincirun.mpi.hub import Hub
from davincirun.mpi.plan import Look, MpiPlan, make_plan, our_place
from davincirun.mpi.summary import summary
from davincirun.mpi.worker import HUB_VARIABLE, KEY_VARIABLE
from davincirun.options import Options
from davincirun.output import Output
from davincirun.processes import Processes
from davincirun.report import TAIL_LINES, duration
from davincirun.sink import Sink
from davincirun.wakeup import Wakeup

Sinks = Tuple[Sink, Sink]  # stdout, stderr
_LOWEST_PORT, _PORTS = 30000, 2768  # below those that Linux hands out by itself


def show_plan(options: Options, environ: Mapping[str, str], messages: Messages) -> int:
    """Print what a launch would do on this node, and create nothing."""
    environ = _with_home(environ)
    nodes, place = our_place(options, environ)
    if place.node_rank != 0:
        _print(follower.described(nodes, place, _job_port(options, environ, nodes)) + "\n")
        return 0
    plan = make_plan(options, environ, nodes, place, Look(options.prefix, os.isatty(1), False))
    _print(view.as_json(plan) + "\n" if options.json else view.as_text(plan))
    return 0


def _print(text: str) -> None:
    """Arguments that are no text leave as the bytes that they came as."""
    sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
    sys.stdout.flush()


def launch(
    options: Options, environ: Mapping[str, str], wakeup: Wakeup, lifeline_fd: int, sinks: Sinks, messages: Messages
) -> int:
    """Launch the job, or on the other nodes take part in it; the exit status."""
    environ = _with_home(environ)
    nodes, place = our_place(options, environ)
    port, key = _job_port(options, environ, nodes), _job_key(options, environ, nodes)
    if place.node_rank != 0:
        return follower.follow(nodes, place, (port, key), options, environ, (wakeup, lifeline_fd), messages)
    out, _ = sinks
    colour = out.is_terminal and not environ.get("NO_COLOR")
    with select.epoll() as poll:
        listening = _listen(len(nodes.nodes), port, place.is_told)
        hub = Hub(poll, listening, os.urandom(16).hex(), key, out)
        status = 1
        try:
            plan = make_plan(options, environ, nodes, place, Look(options.prefix, out.is_terminal, colour))
            _create(plan, messages)
            _announce(plan, messages)
            sshd.await_nodes(plan, options.hosts_timeout_seconds, poll, hub, (wakeup, lifeline_fd), messages)
            status = _carry_out(
                plan, environ, poll, hub, (wakeup, lifeline_fd), sinks, messages, options.hosts_timeout_seconds
            )
        except DavincirunError as error:
            status = error.exit_status
            raise
        finally:
            _let_in_the_late(poll, hub)
            hub.end(status)
    return status


def _with_home(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Open MPI 5 doesn't even tell its version without a HOME."""
    return environ if environ.get("HOME") else {**environ, "HOME": os.path.expanduser("~")}


def _job_key(options: Options, environ: Mapping[str, str], nodes: Nodes) -> str:
    """What the launchers of one job all know. It keeps jobs apart and is no secret: all it opens is the exit status."""
    job = options.job_id or environ.get("BATCH_JOB_ID") or environ.get("MA_VJ_NAME") or ""
    return environ.get("DAVINCIRUN_JOB_KEY") or " ".join((job, *nodes.hosts))


def _job_port(options: Options, environ: Mapping[str, str], nodes: Nodes) -> int:
    """The port on node 0 at which the other nodes' launchers look for it, the same on all of them."""
    given = environ.get("DAVINCIRUN_HUB_PORT", "")
    if given.isdigit():
        return int(given)
    key = _job_key(options, environ, nodes)
    return _LOWEST_PORT + zlib.crc32(key.encode("utf-8", "surrogateescape")) % _PORTS


def _listen(node_count: int, port: int, is_told: bool) -> socket.socket:
    if node_count == 1:
        return wire.listener("127.0.0.1", 0)
    try:
        return wire.listener(None, port)
    except OSError as error:
        if is_told:
            raise PlatformError(
                f"port {port}: {os.strerror(error.errno or 0)}: the other nodes' launchers look for this one there;"
                " set DAVINCIRUN_HUB_PORT to another port on all nodes"
            ) from None
        return wire.listener(None, 0)


def _create(plan: MpiPlan, messages: Messages) -> None:
    for file in plan.files:
        try:
            files.write_atomically(file.path, file.data, file.mode)
        except OSError as error:
            raise PlatformError(f"{file.path}: can't be written: {os.strerror(error.errno or 0)}") from None
    try:
        os.makedirs(plan.orders.log_dir, exist_ok=True)
    except OSError as error:
        messages.warning(f"{plan.orders.log_dir} can't be made: {os.strerror(error.errno or 0)}")


def _announce(plan: MpiPlan, messages: Messages) -> None:
    count = len(plan.nodes.nodes)
    nodes = f" on {count} nodes: {', '.join(plan.nodes.hosts)}" if count > 1 else ""
    messages.info(f"job {plan.job_id}: {plan.ranks} ranks{nodes} ({plan.cards}), Open MPI {plan.version.text}")
    messages.info(f"logs in {plan.orders.log_dir} on each node")
    for note in plan.notes:
        messages.detail(note)
    for warning in plan.warnings:
        messages.warning(warning)


def _carry_out(
    plan: MpiPlan,
    environ: Mapping[str, str],
    poll: select.epoll,
    hub: Hub,
    signals: Tuple[Wakeup, int],
    sinks: Sinks,
    messages: Messages,
    start_seconds: float,
) -> int:
    started = time.monotonic()

    def on_event(launch: Launch, event: Event) -> None:
        if isinstance(event, (WorkerExited, StartFailed)) and launch.cause is event:
            messages.error(_first_word(event))

    processes = Processes(poll, f"DAVINCIRUN_RUN_ID={plan.orders.run_id}".encode(), become_subreaper())
    with select.epoll() as flow:
        err = sinks[1]
        output = Output(flow, Console(err, Style(terminal=err.is_terminal)), messages.warning)
        env = {**environ, HUB_VARIABLE: _hub_address(plan, hub), KEY_VARIABLE: hub.run_key}
        unique_sinks = [*dict.fromkeys(sinks)]
        conductor = Conductor(
            plan, env, start_seconds, poll, flow, processes, output, unique_sinks, signals, hub, on_event
        )
        done = conductor.run()
        conductor.show_the_rest()
        if done.cause is not None or messages.is_talkative:
            seconds = time.monotonic() - started
            messages.block(_summary(done, plan, hub, processes, output, seconds))
        conductor.show_the_rest()
        output.close()
        processes.close()
    return exit_status(done)


def _summary(done: Launch, plan: MpiPlan, hub: Hub, processes: Processes, output: Output, seconds: float) -> str:
    """The closing report; mpirun's last words are in it where no shim could say anything."""
    failed = done.cause.rank if isinstance(done.cause, (WorkerExited, StartFailed)) else -1
    left = [f"pid {pid}" for pid in processes.left()]
    count = len(plan.nodes.nodes)
    text = summary(done, plan.ranks, count, hub.fates.get(failed), plan.log_path, seconds, left)
    if isinstance(done.cause, StartFailed) and failed not in hub.fates:
        text += "".join(f"  | {line}\n" for line in output.tail(MPIRUN, TAIL_LINES) if line.strip())
    return text


def _hub_address(plan: MpiPlan, hub: Hub) -> str:
    if len(plan.nodes.nodes) == 1:
        return f"{hub.port} 127.0.0.1"
    return " ".join((str(hub.port), plan.nodes.hosts[0], *this_host().addresses))


def _let_in_the_late(poll: select.epoll, hub: Hub) -> None:
    """Launchers of other nodes that have just knocked are told the end too."""
    deadline = time.monotonic() + 0.5
    while time.monotonic() < deadline:
        ready = [fd for fd, _ in poll.poll(0.05) if hub.owns(fd)]
        if not ready:
            return
        for fd in ready:
            if hub.owns(fd):
                hub.receive(fd)


def _first_word(cause: Union[WorkerExited, StartFailed]) -> str:
    if isinstance(cause, StartFailed):
        return f"rank {cause.rank}: {cause.problem}"
    return f"rank {cause.rank}: {cause.exit} after {duration(cause.seconds)}; stopping the others"
