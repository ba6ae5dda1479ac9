"""Several launches on this machine that are the nodes of one job."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from types import TracebackType
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Type

from helpers.launcher import Argument, Ended, Launcher, Running


class Job:
    """The launches of one job, by node rank."""

    def __init__(self, launch: Launcher, command: Sequence[Argument], options: Sequence[str]) -> None:
        self._launch = launch
        self._command = command
        self._options = options
        self._stack = contextlib.ExitStack()
        self.nodes: Dict[int, Running] = {}

    def start(self, rank: int, *options: str, env: Mapping[str, str] = {}, **how: Any) -> Running:
        """Start the launcher of one node."""
        return self.start_as_told(rank, "--node-rank", str(rank), *options, env=env, **how)

    def start_as_told(self, rank: int, *options: str, env: Mapping[str, str] = {}, **how: Any) -> Running:
        """The same, where the environment tells which node it is."""
        given = [*self._options, *options]
        running = self._stack.enter_context(self._launch(*self._command, options=given, env=env, **how))
        self.nodes[rank] = running
        return running

    def start_all(self, count: int, **how: Any) -> List[Running]:
        return [self.start(rank, **how) for rank in range(count)]

    def end(self) -> List[Ended]:
        """The ends of all nodes, by rank."""
        return [self.nodes[rank].end() for rank in sorted(self.nodes)]

    def __enter__(self) -> Job:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], where: Optional[TracebackType]
    ) -> None:
        self._stack.close()


def free_port() -> int:
    """A port that nobody listens at now."""
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def wait_until(is_so: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Whether it comes to be so within `seconds`."""
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def table_of(servers: Sequence[str], cards: int = 1) -> str:
    """A version-1.0 table of servers with so many cards each."""
    entries = [
        {
            "server_id": server,
            "device": [
                {"device_id": str(card), "device_ip": f"10.5.{index}.{card}", "rank_id": str(index * cards + card)}
                for card in range(cards)
            ],
        }
        for index, server in enumerate(servers)
    ]
    document = {"status": "completed", "version": "1.0", "server_count": str(len(servers)), "server_list": entries}
    return json.dumps(document)
