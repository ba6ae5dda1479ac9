"""The rules about the network layers of version 2.0 that reach over several addresses, or several ranks."""

from __future__ import annotations

from typing import Any, Dict, Iterator, Sequence, Tuple

from davincirun.ranktable.finding import Finding, error, shown
from davincirun.ranktable.rules.shared import Entry

HOST_PORT = "d2h"  # no port of the device's: the way to its host


def ports_once(layer: Dict[str, Any], where: str) -> Iterator[Finding]:
    """A port stands behind one address of a layer."""
    first: Dict[str, int] = {}
    for index, address in enumerate(_addresses(layer)):
        ports = address.get("ports")
        for port in ports if isinstance(ports, list) else ():
            if isinstance(port, str) and port != HOST_PORT and first.setdefault(port, index) != index:
                message = f"port {shown(port)} is already behind rank_addr_list[{first[port]}]"
                place = f"{where}.rank_addr_list[{index}].ports"
                yield error("port-twice", place, message, "give each port one address", "EI0014")


def equal_address_counts(entries: Sequence[Entry]) -> Iterator[Finding]:
    """The ranks of one network instance have equally many addresses in its layer."""
    first: Dict[Tuple[int, str], Tuple[Entry, int]] = {}
    for entry in entries:
        for index, layer in enumerate(_objects(entry.fields.get("level_list"))):
            number, instance, count = layer.get("net_layer"), layer.get("net_instance_id"), len(_addresses(layer))
            if type(number) is not int or not isinstance(instance, str):
                continue
            other, wanted = first.setdefault((number, instance), (entry, count))
            if count != wanted:
                message = f"{count} addresses in {shown(instance)}, where rank {shown(other.rank)} has {wanted}"
                place = f"{entry.where}.level_list[{index}].rank_addr_list"
                yield error("addr-count", place, message, "give all ranks of an instance as many", "EI0014")


def _addresses(layer: Dict[str, Any]) -> Sequence[Dict[str, Any]]:
    return _objects(layer.get("rank_addr_list"))


def _objects(values: Any) -> Sequence[Dict[str, Any]]:
    return [value for value in values if isinstance(value, dict)] if isinstance(values, list) else []
