"""Reads what hccn_tool says of a card's network besides its addresses: link, health, gateway, TLS, neighbour, …

A wording that isn't known is a ReaderError with the line: what it means for a job can't be guessed.
"""

from __future__ import annotations

from typing import Dict, Iterator, List, Optional, Tuple

from davincirun.devices.reading import (
    Problem,
    ReaderError,
    decimal,
    is_address,
    key_value,
    numbered_lines,
    unreadable,
    whole_number,
)
from davincirun.values import Value

TOOL = "hccn_tool"
NET_HEALTH_WORDS = (  # every word of the tool's source; Init is a card without a detect address, not a fault
    "Success",
    "Socket fail",
    "Socket failed",
    "Receive timeout",
    "Unreachable",
    "Time exceeded",
    "Fault",
    "Init",
    "Thread error",
    "Detect ip set",
    "Unknown",
)
_FAILURES = (  # part of the line, whether it only says that nothing is set
    ("no ip was preset there", True),
    ("no gateway was preset there", True),
    ("was preset there", True),
    ("execute failed!", False),
    ("permission denied", False),
    ("Failed to check the route network segment", False),
)


class Gateway(Value):
    """`-gateway -g`."""

    address: str
    interface: Optional[str]


class Tls(Value):
    """`-tls -g`: the switch must be the same on all hosts of a job."""

    device_id: Optional[int]
    enabled: bool


class Neighbour(Value):
    """`-lldp -g`: the switch port at the other end of the cable, one for each answer in the text."""

    ports: Tuple[str, ...]
    management_address: Optional[str] = None


class Ping(Value):
    """`-ping` and, on the 950, `-ub_ping`."""

    sent: int
    received: int


class LinkHistory(Value):
    """`-link_stat -g`: how often the link came up and its last changes, newest first."""

    up_count: Optional[int]
    changes: Tuple[str, ...]


class HccnFailure(Value):
    """An error of hccn_tool."""

    text: str
    is_unset: bool  # nothing is configured, which is an answer rather than a fault


def read_link(text: str) -> str:
    """`UP` or `DOWN`, from `-link -g`."""
    return _one_of(text, ("link status", "vnic link status"), ("UP", "DOWN"))


def read_net_health(text: str) -> str:
    """One of NET_HEALTH_WORDS, from `-net_health -g`."""
    return _one_of(text, ("net health status",), NET_HEALTH_WORDS)


def read_net_detect(text: str) -> str:
    """The address that the card pings to check its network, from `-netdetect -g`."""
    number, line, value = _value(text, ("netdetect address", "netdetect addr"))
    if not is_address(value):
        raise ReaderError(TOOL, str(Problem(number, line, "not an IP address")))
    return value


def read_gateway(text: str) -> Gateway:
    """The default gateway and its interface, from `-gateway -g`."""
    number, line, value = _value(text, ("default gateway",))
    address, _, rest = value.partition(",")
    if not is_address(address.strip()):
        raise ReaderError(TOOL, str(Problem(number, line, "not an IP address")))
    pair = key_value(rest)
    return Gateway(address.strip(), pair[1] if pair and pair[0] == "Iface" else None)


def read_tls(text: str) -> Tls:
    """The TLS switch, from `-tls -g`: `dev_id:0, tls switch[0](0:disable, 1:enable), …`."""
    for _, line in numbered_lines(text):
        before, found, after = line.partition("tls switch[")
        if found and after[:2] in ("0]", "1]"):
            key, value = key_value(before.rstrip(", ")) or ("", "")
            return Tls(whole_number(value) if key == "dev_id" else None, after[0] == "1")
    raise unreadable(TOOL, text, "'tls switch[0]' or 'tls switch[1]'")


def read_neighbour(text: str) -> Neighbour:
    """The port names and the management address of the neighbour, from `-lldp -g`."""
    ports: List[str] = []
    address: Optional[str] = None
    for _, key, value in _pairs(text):
        if key == "Ifname" and value:
            ports.append(value)
        elif key in ("IPv4", "IPv6") and address is None and is_address(value):
            address = value
    if not ports:
        raise unreadable(TOOL, text, "line 'Ifname: …'")
    return Neighbour(tuple(ports), address)


def read_ping(text: str) -> Ping:
    """The summary line: `3 packets transmitted, 3 received, 0.00% packet loss`."""
    for _, line in numbered_lines(text):
        words = line.split()
        if words[1:3] == ["packets", "transmitted,"] and words[4:5] == ["received,"]:
            sent, received = whole_number(words[0]), whole_number(words[3])
            if sent is not None and received is not None:
                return Ping(sent, received)
    raise unreadable(TOOL, text, "line 'N packets transmitted, N received'")


def read_speed(text: str) -> float:
    """Megabits a second, from `-speed -g`."""
    number, line, value = _value(text, ("Speed",))
    speed = decimal(value.split()[0]) if value.endswith("Mb/s") else None
    if speed is None:
        raise ReaderError(TOOL, str(Problem(number, line, "not 'Speed: N Mb/s'")))
    return speed


def read_fec(text: str) -> str:
    """The word before `FEC mode`, from `-fec -g`: rs, base, no."""
    number, line, value = _value(text, ("fec mode",))
    mode = value.split()[0] if value else ""
    if not mode:
        raise ReaderError(TOOL, str(Problem(number, line, "no mode")))
    return mode


def read_link_history(text: str) -> LinkHistory:
    """The changes of the link, from `-link_stat -g`, whose lines begin with `[devid 0]` or `[device 0]`."""
    up_count: Optional[int] = None
    changes: List[str] = []
    for _, line in numbered_lines(text):
        bare = line.partition("]")[2].strip() if line.lstrip().startswith("[dev") else line.strip()
        if bare.endswith(("LINK UP", "LINK DOWN")):
            changes.append("UP" if bare.endswith("UP") else "DOWN")
        elif bare.startswith("link up count"):
            up_count = whole_number((key_value(bare) or ("", ""))[1])
    if up_count is None and not changes:
        raise unreadable(TOOL, text, "link count and no change of the link")
    return LinkHistory(up_count, tuple(changes))


def read_optical(text: str) -> Dict[str, str]:
    """The optical module's values by the tool's own keys, from `-optical -g`.

    `present` may say `not present` where all the other values are real.
    """
    values = {key: value for _, key, value in _pairs(text) if value}
    if "present" not in values:
        raise unreadable(TOOL, text, "line 'present : …'")
    return values


def read_failure(text: str) -> Optional[HccnFailure]:
    """The error that `text`, the tool's standard error, reports; None if no line of it is one we know."""
    for _, line in numbered_lines(text):
        for part, is_unset in _FAILURES:
            if part in line:
                return HccnFailure(line.strip(), is_unset)
    return None


def _one_of(text: str, keys: Tuple[str, ...], words: Tuple[str, ...]) -> str:
    number, line, value = _value(text, keys)
    if value not in words:
        raise ReaderError(TOOL, str(Problem(number, line, f"wanted one of {', '.join(words)}")))
    return value


def _value(text: str, keys: Tuple[str, ...]) -> Tuple[int, str, str]:
    """The first of the keys in the text: its line's number, the line, and the value."""
    for number, line in numbered_lines(text):
        key, value = key_value(line) or ("", "")
        if key in keys:
            return number, line, value
    raise unreadable(TOOL, text, f"line '{keys[0]}: …'")


def _pairs(text: str) -> Iterator[Tuple[int, str, str]]:
    for number, line in numbered_lines(text):
        pair = key_value(line)
        if pair:
            yield (number, *pair)
