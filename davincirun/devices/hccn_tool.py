"""Reads what `hccn_tool -i PHY -… -g` prints, up to Atlas A3; the 950 has another grammar (`hccn_950`).

Get queries print `key:value` lines to standard output, errors go to standard error, and the status says which:
13 is a card without an address. Some keys have a blank after the colon and some don't.
"""

from __future__ import annotations

from typing import List, Optional, Tuple

from davincirun.devices.reading import Problem, is_address, key_value, numbered_lines
from davincirun.values import Value

NO_ADDRESS_STATUS = 13  # "Get ipconf failed, because no ip was preset there!"
_ADDRESS_KEYS = ("ipaddr", "ipv6_address", "vnic ipaddr")
_MASK_KEYS = ("netmask", "prefix_length", "vnic netmask")


class NicAddress(Value):
    """One address of a card's network interface."""

    address: str
    mask: Optional[str] = None  # a netmask for IPv4, a prefix length for IPv6


class Addresses(Value):
    """The answer to `-ip -g`, `-ip -inet6 -g` or `-vnic -g`; no address when none is set."""

    addresses: Tuple[NicAddress, ...]
    problems: Tuple[Problem, ...] = ()


def read_addresses(text: str) -> Addresses:
    """All addresses in `text`, in order: a card with several ports prints several pairs."""
    found: List[NicAddress] = []
    problems: List[Problem] = []
    for number, line in numbered_lines(text):
        key, value = key_value(line) or ("", "")
        if key in _ADDRESS_KEYS:
            if is_address(value):
                found.append(NicAddress(value))
            else:
                problems.append(Problem(number, line, "not an IP address"))
        elif key in _MASK_KEYS and found and found[-1].mask is None:
            found[-1] = found[-1]._replace(mask=value)
    return Addresses(tuple(found), tuple(problems))
