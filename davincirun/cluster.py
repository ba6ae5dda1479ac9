"""What a rank table says, as values: devices on servers, ranks across the cluster.

A `Cluster` can only be made by `Cluster.of`, which refuses one whose ranks make no sense.
"""

from __future__ import annotations

from itertools import chain, repeat
from operator import attrgetter
from typing import Any, Iterable, Iterator, Optional, Sequence, Tuple

from davincirun.values import Value

_rank_of = attrgetter("rank")  # C speed: there may be 131,072 of them


class Device(Value):
    """One NPU device (on Atlas A3: one die), as the rank table names it."""

    rank: int  # global, contiguous from 0
    device_id: int  # physical: the N of /dev/davinciN
    device_ip: Optional[str] = None  # the device's own NIC, not the host's; several are joined by commas
    super_device_id: Optional[str] = None  # the SDID inside an A3 super pod
    eid: Optional[str] = None  # the 950's address in the UB fabric: 32 hexadecimal digits
    ports: Tuple[str, ...] = ()  # of the 950 behind that address: die/port


class DeviceColumns(Sequence[Device]):
    """Devices by the column, each made when somebody looks at it: a launch looks at one server among thousands."""

    __slots__ = ("addresses", "device_ids", "own_ids", "ranks")

    def __init__(
        self,
        ranks: Sequence[int],
        device_ids: Sequence[int],
        addresses: Sequence[Optional[str]],
        own_ids: Optional[Sequence[Optional[str]]] = None,
    ) -> None:
        """All of the same length; `own_ids` are the super_device_ids, None where no device has one."""
        self.ranks = ranks
        self.device_ids = device_ids
        self.addresses = addresses
        self.own_ids = own_ids

    def __len__(self) -> int:
        return len(self.ranks)

    def __iter__(self) -> Iterator[Device]:
        own_ids: Iterable[Optional[str]] = repeat(None) if self.own_ids is None else self.own_ids
        columns = (self.ranks, self.device_ids, self.addresses, own_ids, repeat(None), repeat(()))
        return map(Device._make, zip(*columns))

    def __getitem__(self, index: Any) -> Any:
        return tuple(self)[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (tuple, DeviceColumns)) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))


def ranks_of(devices: Sequence[Device]) -> Sequence[int]:
    """The ranks of `devices`, which are not made for that."""
    return devices.ranks if isinstance(devices, DeviceColumns) else list(map(_rank_of, devices))


class Server(Value):
    """One entry of `server_list`: a machine, or a container that owns some of a machine's devices."""

    server_id: str  # any text: an address, a host name, a pod's UID
    devices: Sequence[Device]  # in table order; the position is the local rank
    addresses: Tuple[str, ...] = ()  # what else the table calls this machine: host_ip, container_ip, pod_ip, server_ip

    @property
    def lowest_rank(self) -> int:
        return min(ranks_of(self.devices))


class Pod(Value):
    """One instance of the group_list form: the devices that one launcher is to start."""

    pod_name: str
    server_id: str
    devices: Sequence[Device]


class SuperPod(Value):
    """Servers whose devices share one Atlas A3 super pod."""

    super_pod_id: str
    server_ids: Tuple[str, ...]


class Cluster(Value):
    """All servers of a job, in table order."""

    servers: Tuple[Server, ...]
    pods: Tuple[Pod, ...] = ()  # only the group_list form names them
    super_pods: Tuple[SuperPod, ...] = ()  # only 1.2 names them
    names_servers: bool = True  # False for 2.0, whose table doesn't say which rank sits on which machine

    @property
    def world_size(self) -> int:
        return sum(len(server.devices) for server in self.servers)

    @classmethod
    def of(
        cls,
        servers: Iterable[Server],
        pods: Iterable[Pod] = (),
        super_pods: Iterable[SuperPod] = (),
        names_servers: bool = True,
    ) -> Cluster:
        """A cluster whose ranks are 0..N-1, each once, and whose server ids are unique; else ValueError."""
        cluster = cls(tuple(servers), tuple(pods), tuple(super_pods), names_servers)
        if not cluster.servers:
            raise ValueError("a cluster needs at least one server")
        by_server = [ranks_of(server.devices) for server in cluster.servers]
        if not _are_one_run(by_server):
            ranks = sorted(chain.from_iterable(by_server))
            if ranks != list(range(len(ranks))):
                raise ValueError(f"ranks must be 0..{len(ranks) - 1}, each once")
        if len({server.server_id for server in cluster.servers}) != len(cluster.servers):
            raise ValueError("server ids must be unique")
        return cluster


def _are_one_run(by_server: Iterable[Sequence[int]]) -> bool:
    """Whether the ranks are ranges that follow each other from 0: so they are in nearly all big tables."""
    following = 0
    for ranks in by_server:
        if type(ranks) is not range or ranks.start != following:
            return False
        following = ranks.stop
    return True
