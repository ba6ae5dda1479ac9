"""Reads hccn_tool's answers for the 950: `hccn_tool -g -dev_info -i LOGIC` prints tables with borders.

The grammar is another one than before (`-g` first, `-i` is the logical id), and so are the addresses: each
interface has several, and beside them stand the EIDs of the UB fabric.
"""

from __future__ import annotations

from typing import Dict, List, Optional, Tuple

from davincirun.devices.reading import Problem, cells, is_address, numbered_lines, unreadable, whole_number
from davincirun.values import Value


class Port(Value):
    """A port of the card."""

    udie_id: Optional[int]
    port_id: Optional[int]
    speed_gigabits: Optional[int]
    port_type: str  # UB, …
    link: str  # UP or DOWN


class Interface(Value):
    """A network interface of the card with all its addresses."""

    name: str
    addresses: Tuple[str, ...]


class Eid(Value):
    """An endpoint of the UB fabric."""

    name: str
    number: Optional[int]
    eid: str  # 32 hexadecimal digits in groups of four


class CardInfo(Value):
    """`-dev_info` for one card."""

    ports: Tuple[Port, ...]
    interfaces: Tuple[Interface, ...]
    eids: Tuple[Eid, ...]
    problems: Tuple[Problem, ...] = ()

    @property
    def fabric_addresses(self) -> Tuple[str, ...]:
        """The addresses for traffic between cards: those of the `ipourma` interfaces (IP over UB)."""
        return tuple(a for i in self.interfaces if i.name.startswith("ipourma") for a in i.addresses)

    @property
    def first_eid(self) -> Optional[str]:
        """The EID with the lowest index, its 32 digits without colons as rank tables have them."""
        digits = [eid.eid.replace(":", "").lower() for eid in sorted(self.eids, key=lambda eid: eid.number or 0)]
        return next((eid for eid in digits if len(eid) == 32), None)

    @property
    def ports_up(self) -> Tuple[str, ...]:
        """The ports whose link is up, as rank tables name them: die/port; all ports where no link is up."""
        ports = [port for port in self.ports if port.link == "UP"] or self.ports
        return tuple(f"{port.udie_id or 0}/{port.port_id}" for port in ports if port.port_id is not None)


def read_card_info(text: str) -> CardInfo:
    """The tables in `text`, each known by its head; a row with an empty first cell goes on with the one above."""
    heads: Tuple[str, ...] = ()
    ports: List[Port] = []
    interfaces: Dict[str, List[str]] = {}
    eids: List[Eid] = []
    problems: List[Problem] = []
    name = ""
    for number, line in numbered_lines(text):
        row = cells(line)
        if row is None:
            continue
        if any(head in row for head in ("Port ID", "IP Address", "EID")):
            heads, name = row, ""
            continue
        name = row[0] or name
        values = dict(zip(heads, row)) if len(row) == len(heads) else {}
        if is_address(values.get("IP Address", "")):
            interfaces.setdefault(name, []).append(values["IP Address"])
        elif values.get("EID"):
            eids.append(Eid(name, whole_number(values.get("EID Index", "")), values["EID"]))
        elif whole_number(values.get("Port ID", "")) is not None:
            ports.append(_port(values))
        else:
            problems.append(Problem(number, line, f"not a row below {', '.join(heads) or 'a head'}"))
    if not (ports or interfaces or eids):
        raise unreadable("hccn_tool -g -dev_info", text, "table of ports, addresses or EIDs")
    named = tuple(Interface(name, tuple(addresses)) for name, addresses in interfaces.items())
    return CardInfo(tuple(ports), named, tuple(eids), tuple(problems))


def _port(values: Dict[str, str]) -> Port:
    return Port(
        whole_number(values.get("UDie ID", "")),
        whole_number(values["Port ID"]),
        whole_number(values.get("Speed Ability(Gbps)", "")),
        values.get("Port Type", ""),
        values.get("Link Status", ""),
    )
