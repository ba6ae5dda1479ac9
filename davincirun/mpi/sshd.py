"""The nodes' ssh servers: node 0 waits for all of them, the other nodes see that theirs is running."""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from typing import Dict, List, Mapping, Optional, Tuple

from davincirun.errors import PlatformError
from davincirun.messages import Messages
from davincirun.mpi.hub import Hub, NodeSignalled
from davincirun.mpi.plan import MpiPlan
from davincirun.pausing import Interrupted
from davincirun.report import duration
from davincirun.wakeup import STOPPING, Wakeup

_PLATFORMS_CONFIG = "/home/ma-user/etc/ssh/sshd_config"  # where the platform's guide for own images puts it
_ASK_SECONDS = 1.0
_PAUSE_SECONDS = (0.1, 2.0)  # first and longest between two rounds
_PROGRESS_SECONDS = (2, 10, 60, 300)  # when a wait says that it goes on; then every five minutes
_LAUNCHER_SECONDS = 10.0  # how long an sshd may be there without its node's launcher


class Progress:
    """When a wait that goes on is mentioned."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self._times = list(_PROGRESS_SECONDS)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    def is_due(self) -> bool:
        if self.seconds < self._times[0]:
            return False
        last = self._times.pop(0)
        if not self._times:
            self._times.append(last + _PROGRESS_SECONDS[-1])
        return True


def await_nodes(
    plan: MpiPlan, seconds: float, poll: select.epoll, hub: Hub, signals: Tuple[Wakeup, int], messages: Messages
) -> None:
    """Wait until every other node's sshd answers, and its launcher has come where the platform starts one.

    PlatformError names those that don't within `seconds`; Interrupted: a signal came, here or on another node.
    """
    hosts = dict(list(enumerate(plan.nodes.hosts))[1:])
    if not hosts:
        return
    pause = Watch(poll, hub, signals)
    progress = Progress()
    wait_seconds = _PAUSE_SECONDS[0]
    answered: Dict[int, float] = {}
    try:
        while True:
            problems = {}
            for index, host in hosts.items():
                problem = None if index in answered else ask(host, plan.nodes.port)
                if problem is None:
                    answered.setdefault(index, time.monotonic())
                else:
                    problems[index] = problem
                pause(0)
            silent = [index for index in hosts if plan.place.is_told and index not in hub.nodes]
            patient = [index for index in silent if time.monotonic() - answered.get(index, 0) < _LAUNCHER_SECONDS]
            if not problems and not patient:
                for index in silent:
                    messages.warning(f"{hosts[index]}: its sshd answers, but no launcher has come from there")
                return
            texts = [f"{hosts[index]} ({problem})" for index, problem in problems.items()]
            if problems and progress.seconds > seconds:
                raise PlatformError(
                    f"no sshd on port {plan.nodes.port} after {duration(progress.seconds)}: {', '.join(texts)}."
                    " Does davincirun run there too? SSHD_PORT names the port, --hosts-timeout waits longer"
                )
            if problems and progress.is_due():
                messages.info(
                    f"waiting for sshd on port {plan.nodes.port} of {', '.join(texts)}:"
                    f" {duration(progress.seconds)} so far, at most {duration(seconds)} (--hosts-timeout)"
                )
            pause(wait_seconds)
            wait_seconds = min(wait_seconds * 1.5, _PAUSE_SECONDS[1])
    finally:
        pause.close()


class Watch:
    """A wait during which the hub is served, and which a signal or the guardian's end ends by Interrupted."""

    def __init__(self, poll: select.epoll, hub: Optional[Hub], signals: Tuple[Wakeup, int]) -> None:
        self._poll = poll
        self._hub = hub
        self._wakeup, self._lifeline_fd = signals
        for fd in (self._wakeup.fd, self._lifeline_fd):
            poll.register(fd, select.EPOLLIN)

    def __call__(self, seconds: float) -> List[int]:
        """The descriptors among those in `poll` that became readable and are nobody's here."""
        until = time.monotonic() + seconds
        while True:
            others = []
            for fd, _ in self._poll.poll(max(until - time.monotonic(), 0)):
                if fd == self._wakeup.fd:
                    self._interrupt()
                elif fd == self._lifeline_fd:
                    raise Interrupted(signal.SIGKILL)
                elif self._hub is not None and self._hub.owns(fd):
                    for heard in self._hub.receive(fd):
                        if isinstance(heard, NodeSignalled):
                            raise Interrupted(heard.signum)
                else:
                    others.append(fd)
            if others or time.monotonic() >= until:
                return others

    def close(self) -> None:
        for fd in (self._wakeup.fd, self._lifeline_fd):
            self._poll.unregister(fd)

    def _interrupt(self) -> None:
        for signum in self._wakeup.take():
            if signum in STOPPING:
                raise Interrupted(signum)


def ask(host: str, port: int) -> Optional[str]:
    """None when an ssh server answers at `host`, else what happens instead."""
    try:
        with socket.create_connection((host, port), _ASK_SECONDS) as sock:
            return None if sock.recv(4) == b"SSH-" else "something else than sshd listens there"
    except socket.timeout:
        return "no answer"
    except socket.gaierror as error:
        return str(error.strerror).lower()
    except OSError as error:
        return os.strerror(error.errno or 0).lower()


def server_command(port: int, environ: Mapping[str, str]) -> Tuple[str, ...]:
    """The command that runs an ssh server in the foreground. PlatformError: there is none."""
    import shutil

    path = shutil.which("sshd", path=environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin:/sbin")
    if path is None:
        raise PlatformError(
            f"no sshd listens on port {port} of this node and none is installed: node 0 starts the ranks through ssh"
            " (apt-get install openssh-server), or start it before davincirun"
        )
    config = environ.get("DAVINCIRUN_SSHD_CONFIG") or (_PLATFORMS_CONFIG if os.path.exists(_PLATFORMS_CONFIG) else "")
    return (os.path.abspath(path), "-D", "-e", *(("-f", config) if config else ()), "-p", str(port))
