"""What the launcher does on all nodes but node 0: it sees that an sshd is there, and waits for node 0's end.

Its connection to node 0 is at once the report that this node is ready, the wait for the end and the sign of life.
The ranks here are children of the sshd, each with a shim that looks after it.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from typing import Mapping, Optional, Sequence, Tuple

from davincirun import modelarts
from davincirun.descendants import become_subreaper
from davincirun.errors import PlatformError
from davincirun.messages import Messages
from davincirun.mpi import sshd, wire
from davincirun.mpi.hosts import Nodes, Place
from davincirun.options import Options
from davincirun.pausing import Interrupted
from davincirun.processes import Processes, StartError
from davincirun.report import duration
from davincirun.wakeup import Wakeup

_SSHD_SECONDS = 10.0  # from its start to its first answer
_CLEANUP_SECONDS = 5.0  # for what is left here to end by itself
_AFTER_ALL_SECONDS = 0.5  # the same once node 0 has ended: all ranks have, and Open MPI's daemon alone may be slow
_PAUSE_SECONDS = (0.1, 2.0)
_SSHD = 0  # its place among the ranks in `Processes`


def described(nodes: Nodes, place: Place, port: int) -> str:
    """The plan of such a node, for people."""
    return (
        f"this is node {place.node_rank} of {len(nodes.nodes)} ({place.reason}): see that an sshd answers on port"
        f" {nodes.port}, then wait for the end of {nodes.hosts[0]}:{port}, which starts the ranks"
    )


def follow(
    nodes: Nodes,
    place: Place,
    job: Tuple[int, str],
    options: Options,
    environ: Mapping[str, str],
    signals: Tuple[Wakeup, int],
    messages: Messages,
) -> int:
    """Take part in node 0's job; its exit status. `job` is the port and the key at which node 0 is found.

    PlatformError: no sshd can be had, or node 0 never comes, or it is gone.
    """
    become_subreaper()
    with select.epoll() as poll:
        processes = Processes(poll, b"", True)
        pause = sshd.Watch(poll, None, signals)
        patience_seconds = _CLEANUP_SECONDS
        try:
            _have_sshd(nodes.port, environ, _sshd_log(options, environ), processes, pause, messages)
            node_0 = _join(nodes, place, job, options.hosts_timeout_seconds, pause, messages)
            messages.info(f"node {place.node_rank} is ready; waiting for the end of node 0, {nodes.hosts[0]}")
            status = _wait_for_end(node_0, nodes.hosts[0], options.grace_seconds, poll, pause, messages)
            patience_seconds = _AFTER_ALL_SECONDS
            return status
        finally:
            pause.close()
            _clean_up(processes, poll, signals[0], patience_seconds)
            processes.close()


def _sshd_log(options: Options, environ: Mapping[str, str]) -> str:
    job_id = options.job_id or modelarts.job_id(environ, os.uname().nodename)
    log_dir = os.path.abspath(options.log_dir or modelarts.log_dir(environ, os.path.isdir))
    return os.path.join(log_dir, f"{job_id}-sshd.txt")


def _have_sshd(
    port: int, environ: Mapping[str, str], log_path: str, processes: Processes, pause: sshd.Watch, messages: Messages
) -> None:
    if sshd.ask("127.0.0.1", port) is None:
        messages.detail(f"an sshd listens on port {port}")
        return
    argv = sshd.server_command(port, environ)
    if os.geteuid() == 0:
        os.makedirs("/run/sshd", 0o755, exist_ok=True)  # sshd refuses to start without
    _start(argv, environ, log_path, processes)
    deadline = time.monotonic() + _SSHD_SECONDS
    while sshd.ask("127.0.0.1", port) is not None:
        if processes.look_at(_SSHD) is not None or time.monotonic() > deadline:
            raise PlatformError(
                f"{' '.join(argv)}: doesn't come up: {_last_line(log_path)}; host keys are made by ssh-keygen -A,"
                " DAVINCIRUN_SSHD_CONFIG names another configuration"
            )
        pause(0.1)
    messages.info(f"started {' '.join(argv)}; its log is {log_path}")


def _start(argv: Sequence[str], environ: Mapping[str, str], log_path: str, processes: Processes) -> None:
    try:
        os.makedirs(os.path.dirname(log_path), exist_ok=True)
        log_fd = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    except OSError:
        log_fd = os.dup(2)
    null_fd = os.open(os.devnull, os.O_RDONLY)
    try:
        processes.start(_SSHD, argv, environ, None, null_fd, log_fd)
    except StartError as error:
        raise PlatformError(error.problem) from None
    finally:
        os.close(log_fd)
        os.close(null_fd)


def _last_line(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return (file.read().strip() or "it says nothing").rsplit("\n", 1)[-1].strip()
    except OSError:
        return "its own words stand above"


def _join(
    nodes: Nodes, place: Place, job: Tuple[int, str], seconds: float, pause: sshd.Watch, messages: Messages
) -> socket.socket:
    port, key = job
    progress = sshd.Progress()
    wait_seconds = _PAUSE_SECONDS[0]
    while True:
        try:
            return wire.join(nodes.hosts[:1], port, key, {"kind": "node", "number": place.node_rank})
        except PlatformError as error:
            if progress.seconds > seconds:
                raise PlatformError(f"node 0 has not come after {duration(progress.seconds)}: {error}") from None
            if progress.is_due():
                messages.info(
                    f"waiting for node 0, {nodes.hosts[0]}: {duration(progress.seconds)} so far,"
                    f" at most {duration(seconds)} (--hosts-timeout)"
                )
        pause(wait_seconds)
        wait_seconds = min(wait_seconds * 1.5, _PAUSE_SECONDS[1])


def _wait_for_end(
    node_0: socket.socket,
    host: str,
    grace_seconds: float,
    poll: select.epoll,
    pause: sshd.Watch,
    messages: Messages,
) -> int:
    """Node 0's status. A signal to us is node 0's business: it stops the whole job, and then tells us."""
    lines = wire.Lines()
    poll.register(node_0.fileno(), select.EPOLLIN)
    deadline: Optional[float] = None
    signum = 0
    while deadline is None or time.monotonic() < deadline:
        try:
            ready = pause(3600 if deadline is None else max(deadline - time.monotonic(), 0))
        except Interrupted as interruption:
            if deadline is not None or interruption.exit_status == 128 + signal.SIGKILL:
                raise
            signum = interruption.exit_status - 128
            deadline = time.monotonic() + grace_seconds + 2 * _CLEANUP_SECONDS
            node_0.send(wire.line({"signal": signum}))
            continue
        status = _heard_end(node_0, host, lines) if node_0.fileno() in ready else None
        if status is not None:
            messages.info(f"node 0 has ended with exit status {status}")
            return status
    messages.warning(f"node 0, {host}, has not ended within the grace")
    return 128 + signum


def _heard_end(node_0: socket.socket, host: str, lines: wire.Lines) -> Optional[int]:
    try:
        data = node_0.recv(65536)
    except OSError:
        data = b""
    if not data:
        raise PlatformError(f"node 0, {host}, is gone without saying how the job ended: look at its log")
    return next((int(message["end"]) for message in lines.feed(data) if "end" in message), None)


def _clean_up(processes: Processes, poll: select.epoll, wakeup: Wakeup, patience_seconds: float) -> None:
    """End our sshd and whatever is left below it, shims and their workers too."""
    poll.register(wakeup.fd, select.EPOLLIN)
    deadline = time.monotonic() + patience_seconds
    processes.stop(signal.SIGTERM)
    while time.monotonic() < deadline + _CLEANUP_SECONDS:
        rank, nobody_left = processes.reap_strangers()
        if rank is not None:
            processes.reap(rank)
            continue
        if nobody_left:
            return
        if time.monotonic() >= deadline:
            processes.kill()
        poll.poll(0.1)
        wakeup.take()
