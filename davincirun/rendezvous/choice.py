"""Which way the launchers of a job meet: from --rendezvous, else from what the platform tells. Pure."""

from __future__ import annotations

import zlib
from typing import Optional, Tuple
from urllib.parse import urlsplit

from davincirun.errors import UsageError
from davincirun.platforms import JobContext
from davincirun.values import Value

DEFAULT_ETCD_PORT = 2379
POINT = "point"  # point://HOST,HOST:PORT, a meeting held by who started all nodes: not for users to write
_FORMS = "a directory that all nodes share, tcp://HOST:PORT of node 0, etcd://HOST:PORT[,HOST:PORT], or mpi"
_FIRST_PORT, _PORT_COUNT, _TRIES = 17000, 2900, 8


class Choice(Value):
    """A way to meet."""

    kind: str  # directory, tcp, etcd, mpi
    path: str = ""
    hosts: Tuple[str, ...] = ()  # of node 0, or of etcd's members
    ports: Tuple[int, ...] = ()  # of node 0: the first free one; of etcd's members: one each
    is_tls: bool = False


def choose(option: Optional[str], context: JobContext, run: str) -> Choice:
    """The way to meet; `run` is what all nodes call this run. UsageError when nothing says where."""
    if option:
        return _parsed(option, run)
    if context.platform == "openmpi" and not context.meeting_hosts:
        return Choice("mpi")
    if context.meeting_hosts:
        return Choice("tcp", hosts=context.meeting_hosts, ports=ports_of(run))
    raise UsageError(
        f"the job has {context.node_count} nodes ({', '.join(context.reasons)}), no rank table, and nothing says where"
        f" its launchers can meet: give --rendezvous, {_FORMS}; or --nodes 1, if this node is to work alone"
    )


def ports_of(run: str) -> Tuple[int, ...]:
    """Where node 0 listens when no port is given: below what Linux and HCCL use, from the run's name."""
    first = _FIRST_PORT + zlib.crc32(run.encode("utf-8", "surrogateescape")) % _PORT_COUNT
    return tuple(range(first, first + _TRIES))


def _parsed(text: str, run: str) -> Choice:
    if text == "mpi":
        return Choice("mpi")
    scheme, mark, rest = text.partition("://")
    if not mark:
        if not text.startswith(("/", ".")):
            raise UsageError(f"--rendezvous {text!r}: wanted {_FORMS}")
        return Choice("directory", path=text)
    if scheme == "file":
        return Choice("directory", path=rest)
    if scheme == POINT:
        names, _, port_text = rest.rpartition(":")
        return Choice(POINT, hosts=tuple(names.split(",")), ports=(int(port_text),))
    if scheme == "tcp":
        host, port = _endpoint(text, rest)
        return Choice("tcp", hosts=(host,), ports=ports_of(run) if port is None else (port,))
    if scheme in ("etcd", "etcds"):
        members = [_endpoint(text, part) for part in rest.rstrip("/").split(",")]
        ports = tuple(DEFAULT_ETCD_PORT if port is None else port for _, port in members)
        return Choice("etcd", hosts=tuple(host for host, _ in members), ports=ports, is_tls=scheme == "etcds")
    raise UsageError(f"--rendezvous {text!r}: wanted {_FORMS}")


def _endpoint(text: str, part: str) -> Tuple[str, Optional[int]]:
    try:
        split = urlsplit(f"//{part}")
        host, port = split.hostname, split.port
    except ValueError:
        host, port, split = None, None, urlsplit("")
    if not host or split.path or split.query or "@" in part:
        raise UsageError(f"--rendezvous {text!r}: {part!r} is no HOST:PORT")
    return host, port
