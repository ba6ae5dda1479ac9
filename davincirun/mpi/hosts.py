"""The nodes of a job that mpirun starts: where their names come from, host files, and which of them we are."""

from __future__ import annotations

import re
from typing import Callable, List, Mapping, Optional, Sequence, Tuple

from davincirun.errors import IdentityError, PlatformError, UsageError
from davincirun.identity import Host
from davincirun.values import Value

INDEX_VARIABLES = ("MA_TASK_INDEX", "VC_TASK_INDEX", "VK_TASK_INDEX")  # in the order of the platform's own scripts
_DEFAULT_PORT = 22


class Node(Value):
    """One node, as Open MPI and ssh call it."""

    host: str  # a name or an address, IPv6 without brackets
    slots: Optional[int] = None  # ranks it takes; None: its cards


class Nodes(Value):
    """All nodes of a job; node 0, where mpirun runs, first."""

    nodes: Tuple[Node, ...]
    port: int  # of every node's sshd
    origin: str  # what names them

    @property
    def hosts(self) -> Tuple[str, ...]:
        return tuple(node.host for node in self.nodes)


class Place(Value):
    """Which of the nodes this machine is."""

    node_rank: int
    reason: str
    is_told: bool  # by the platform, which then starts us on each node


def find_nodes(option: Optional[str], environ: Mapping[str, str], host_file: Optional[str]) -> Nodes:
    """The nodes, by `--hosts`, the text of OPENMPI_HOST_FILE_PATH, VC_WORKER_HOSTS or MA_NUM_HOSTS, else this machine.

    UsageError or PlatformError where they make no sense.
    """
    port = _port(environ.get("SSHD_PORT") or str(_DEFAULT_PORT), "SSHD_PORT")
    if option:
        return _of_list(option, "--hosts", None if not environ.get("SSHD_PORT") else port)
    if host_file is not None:
        return Nodes(read_host_file(host_file), port, "OPENMPI_HOST_FILE_PATH")
    wanted = environ.get("MA_NUM_HOSTS", "")
    if environ.get("VC_WORKER_HOSTS"):
        found = _of_list(environ["VC_WORKER_HOSTS"], "VC_WORKER_HOSTS", port if environ.get("SSHD_PORT") else None)
        if wanted.isdigit() and int(wanted) != len(found.nodes):
            raise PlatformError(
                f"MA_NUM_HOSTS is {wanted}, but VC_WORKER_HOSTS names {len(found.nodes)}: {', '.join(found.hosts)};"
                " --hosts says which nodes are meant"
            )
        return found
    if wanted.isdigit() and int(wanted) > 1:
        return Nodes(_pods(int(wanted), environ), port, "MA_NUM_HOSTS and MA_VJ_NAME")
    return Nodes((Node("localhost"),), port, "this machine alone")


def place(
    nodes: Nodes, environ: Mapping[str, str], this_host: Callable[[], Host], option: Optional[int] = None
) -> Place:
    """Which node we are: by `--node-rank`, the platform's task index, our own names and addresses; IdentityError."""
    given = [] if option is None else [("--node-rank", str(option))]
    for variable, text in (*given, *((name, environ.get(name, "")) for name in INDEX_VARIABLES)):
        if not text:
            continue
        if not text.isdigit() or int(text) >= len(nodes.nodes):
            if len(nodes.nodes) == 1:
                break  # a single node's index within something larger is of no interest here
            raise IdentityError(
                f"{variable} is {text}, but {nodes.origin} names {len(nodes.nodes)} nodes, 0 to {len(nodes.nodes) - 1}:"
                f" {', '.join(nodes.hosts)}"
            )
        return Place(int(text), f"{variable} is {text}", len(nodes.nodes) > 1)
    if len(nodes.nodes) == 1:
        return Place(0, "the only node", False)
    host = this_host()
    ours = {*host.addresses, *host.names, *(name.split(".", 1)[0] for name in host.names)}
    found = [index for index, name in enumerate(nodes.hosts) if name in ours or _first_label(name) in ours]
    if len(found) == 1:
        return Place(found[0], f"{nodes.hosts[found[0]]} is this machine", False)
    problem = "more than one of the nodes is this machine" if found else "none of the nodes is this machine"
    raise IdentityError(
        f"{problem}: {', '.join(nodes.hosts)} ({nodes.origin}); our own names and addresses are"
        f" {', '.join((*host.names, *host.addresses))}. Set {INDEX_VARIABLES[1]} to this node's index, from 0"
    )


def host_file_text(nodes: Sequence[Node], slots: int) -> str:
    """A host file as Open MPI 4 and 5 read it."""
    return "".join(f"{node.host} slots={node.slots or slots}\n" for node in nodes)


def read_host_file(text: str) -> Tuple[Node, ...]:
    """The nodes in a host file: `host`, `user@host slots=8 max_slots=8`, `host:8`; several lines of a host add up."""
    found: List[Node] = []
    for line in text.splitlines():
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        name = words[0].rsplit("@", 1)[-1]
        counts = re.findall(r"(?:slots?|cpus?|count)\s*=\s*(\d+)", " ".join(words[1:]))
        slots = int(counts[0]) if counts else None
        if name.count(":") == 1 and name.split(":")[1].isdigit():
            name, slots = name.split(":")[0], int(name.split(":")[1])
        known = next((index for index, node in enumerate(found) if node.host == name), None)
        if known is None:
            found.append(Node(name, slots))
        else:
            found[known] = Node(name, (found[known].slots or 1) + (slots or 1))
    if not found:
        raise UsageError("OPENMPI_HOST_FILE_PATH: the file names no host; a line is `host slots=8`")
    return tuple(found)


def renamed(text: str, host: str, name: str) -> str:
    """A host file in which the node `host` goes by `name`; all else stays."""
    return re.sub(
        rf"^([ \t]*(?:[^\s#@]+@)?){re.escape(host)}(?=[ \t#]|:\d+\b|$)",
        lambda found: found.group(1) + name,
        text,
        flags=re.MULTILINE,
    )


def _of_list(text: str, origin: str, port: Optional[int]) -> Nodes:
    """`a,b`, `a:2222,b:2222`, `[fd00::1]:2222,fd00::2`: one port for all, since ssh is given one."""
    hosts: List[str] = []
    ports = set() if port is None else {port}
    for item in filter(None, re.split(r"[,\s]+", text)):
        name, item_port = _split(item, origin)
        hosts.append(name)
        if item_port is not None:
            ports.add(item_port)
    if not hosts:
        raise UsageError(f"{origin}: {text!r} names no host")
    if len(set(hosts)) != len(hosts):
        raise UsageError(f"{origin}: a host is named twice: {text}")
    if len(ports) > 1:
        raise UsageError(
            f"{origin}: {text}: the nodes' sshds must listen on one port, not on {', '.join(map(str, sorted(ports)))};"
            " ports of single hosts belong into ~/.ssh/config"
        )
    return Nodes(tuple(map(Node, hosts)), ports.pop() if ports else _DEFAULT_PORT, origin)


def _split(item: str, origin: str) -> Tuple[str, Optional[int]]:
    match = re.fullmatch(r"\[([0-9A-Fa-f:.%\w]+)\](?::(\d+))?", item) or re.fullmatch(r"([^:\[\]]+)(?::(\d+))?", item)
    if match:
        return match.group(1), _port(match.group(2), origin) if match.group(2) else None
    if re.fullmatch(r"[0-9A-Fa-f:.]+(%\w+)?", item):
        return item, None
    raise UsageError(f"{origin}: {item!r} is no host, host:port, IPv6 address or [address]:port")


def _port(text: str, origin: str) -> int:
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise UsageError(f"{origin}: {text!r} is no port, 1 to 65535")
    return int(text)


def _pods(count: int, environ: Mapping[str, str]) -> Tuple[Node, ...]:
    """The names under which ModelArts' pods know each other."""
    job = environ.get("MA_VJ_NAME")
    if not job:
        raise PlatformError(
            f"MA_NUM_HOSTS is {count}, but neither VC_WORKER_HOSTS nor MA_VJ_NAME tells the nodes' names:"
            " name them with --hosts node0,node1"
        )
    task = environ.get("MA_TASK_NAME") or "worker"
    return tuple(Node(f"{job}-{task}-{index}.{job}") for index in range(count))


def _first_label(name: str) -> str:
    return name if ":" in name or name.replace(".", "").isdigit() else name.split(".", 1)[0]
