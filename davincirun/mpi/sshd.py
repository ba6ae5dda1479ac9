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
    if len(plan.nodes.hosts) == 1:
        return
    watch = Watch(poll, hub, signals)
    others = _Others(plan, hub)
    progress = Progress()
    wait_seconds = _PAUSE_SECONDS[0]
    try:
        while not others.are_ready(watch):
            if others.problems and progress.seconds > seconds:
                raise PlatformError(
                    f"{others} after {duration(progress.seconds)}. Does davincirun run there too?"
                    " SSHD_PORT names the port, --hosts-timeout waits longer"
                )
            if others.problems and progress.is_due():
                so_far, most = duration(progress.seconds), duration(seconds)
                messages.info(f"waiting: {others}: {so_far} so far, at most {most} (--hosts-timeout)")
            watch(wait_seconds)
            wait_seconds = min(wait_seconds * 1.5, _PAUSE_SECONDS[1])
        for host in others.without_launcher():
            messages.warning(f"{host}: its sshd answers, but no launcher has come from there")
    finally:
        watch.close()


class _Others:
    """The nodes that node 0 waits for."""

    def __init__(self, plan: MpiPlan, hub: Hub) -> None:
        self._hosts = dict(list(enumerate(plan.nodes.hosts))[1:])
        self._port = plan.nodes.port
        self._hub = hub
        self._have_launchers = plan.place.is_told
        self._answered: Dict[int, float] = {}  # when its sshd first answered, time.monotonic()
        self.problems: Dict[int, str] = {}  # why it doesn't

    def are_ready(self, watch: Watch) -> bool:
        """Ask those that have not answered; whether all have, and their launchers had time to come."""
        for index, host in self._hosts.items():
            if index in self._answered:
                continue
            problem = ask(host, self._port)
            if problem is None:
                self._answered[index] = time.monotonic()
                self.problems.pop(index, None)
            else:
                self.problems[index] = problem
            watch(0)
        return not self.problems and not any(map(self._may_come, self._hosts))

    def without_launcher(self) -> List[str]:
        return [host for index, host in self._hosts.items() if self._have_launchers and index not in self._hub.nodes]

    def __str__(self) -> str:
        texts = [f"{self._hosts[index]} ({problem})" for index, problem in sorted(self.problems.items())]
        return f"no sshd on port {self._port} of {', '.join(texts)}"

    def _may_come(self, index: int) -> bool:
        if not self._have_launchers or index in self._hub.nodes:
            return False
        return time.monotonic() - self._answered[index] < _LAUNCHER_SECONDS


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
