"""Rules about single values that several forms share. A `where` is the JSON path of the thing a rule is about."""

from __future__ import annotations

from typing import Any, Dict, Generator, Iterator, List, NamedTuple, Optional

from davincirun.ranktable.finding import Finding, error, kind, number, shown, warning

LONGEST_SERVER_ID = 64  # HCCL's SERVERID_MAX_LENGTH
PORTS = range(1, 65536)

Reading = Generator[Finding, None, Optional[int]]


class Entry(NamedTuple):
    """One device of a table, with the place it stands at."""

    where: str
    fields: Dict[str, Any]
    server: str  # the server's id, for messages
    rank: Optional[int]  # None when the table gives none that can be read
    device_id: Optional[int]

    @property
    def name(self) -> str:
        return f"{self.server} device {'?' if self.device_id is None else self.device_id}"


def missing(key: str, where: str, hccl: str = "EI0017", remedy: str = "") -> Finding:
    """A finding for a key that isn't there; its code names the key."""
    return error(f"missing-{key.replace('_', '-')}", where, f"there is no {key}", remedy or f"add {key}", hccl)


def objects(holder: Dict[str, Any], key: str, where: str) -> Generator[Finding, None, List[Dict[str, Any]]]:
    """The list of objects under `key`, which must not be empty; entries of another type become {}."""
    place = f"{where}.{key}" if where else key
    if key not in holder:
        yield missing(key, where)
        return []
    values = holder[key]
    if not isinstance(values, list):
        yield error("type", place, f"it is {kind(values)}, it must be a list", hccl="EI0017")
        return []
    if not values:
        yield error("empty", place, f"{key} is empty", "the platform has listed nothing yet", "EI0014")
    for index, value in enumerate(values):
        if not isinstance(value, dict):
            yield error("type", f"{place}[{index}]", f"it is {kind(value)}, it must be an object", hccl="EI0017")
    return [value if isinstance(value, dict) else {} for value in values]


def not_text(where: str, value: object, remedy: str = "", numbers_pass: bool = False) -> Finding:
    """A finding for a `value` that is no string; with `numbers_pass` a number does no harm, as conversion writes it."""
    if numbers_pass and type(value) is int:
        message = f"{value} is a number, HCCL itself wants a string"
        return warning("type", where, message, "harmless, since the table is converted")
    return error("type", where, f"{shown(value)} is {kind(value)}, it must be a string", remedy, "EI0017")


def text_number(fields: Dict[str, Any], key: str, where: str, numbers_pass: bool = False) -> Reading:
    """The number in the string under `key`, as HCCL reads it."""
    if key not in fields:
        yield missing(key, where)
        return None
    value = fields[key]
    if isinstance(value, str) and value.isdigit() and value.isascii() and len(value) < 20:
        found: Optional[int] = int(value)
        if value == str(found):
            return found  # as ever
    place = f"{where}.{key}"
    if not isinstance(value, str):
        yield not_text(place, value, f'write "{value}"' if type(value) is int else "write a string", numbers_pass)
        return value if type(value) is int and value >= 0 else None
    found = number(value)
    if found is None:
        yield error("not-a-number", place, f"{shown(value)} is no number from 0", "write decimal digits", "EI0014")
    elif value != str(found):
        message = f"{shown(value)}: HCCL reads {found} from it, others may not"
        yield warning("lenient-number", place, message, f'write "{found}"')
    return found


def count(
    fields: Dict[str, Any], key: str, where: str, length: int, contents: str, numbers_pass: bool = False
) -> Iterator[Finding]:
    """`key` must say `length`, which `contents` tells in words ("server_list has 2 entries")."""
    if key not in fields:
        return
    value = fields[key]
    place = f"{where}.{key}" if where else key
    if not isinstance(value, str):
        yield not_text(place, value, f'write "{length}"', numbers_pass)
    found = value if type(value) is int else number(value)
    if found is not None and found != length:
        message = f"{key} is {shown(value)} but {contents}"
        yield error(key.replace("_", "-"), place, message, "correct the one that is wrong", "EI0014")
    elif found is None and isinstance(value, str):
        yield error("not-a-number", place, f"{shown(value)} is no number", f'write "{length}"', "EI0014")


def port(fields: Dict[str, Any], key: str, where: str) -> Reading:
    """A port number as a string; 0 is reserved, and the manual warns of those below 1024."""
    if key not in fields:
        return None
    found = yield from text_number(fields, key, where)
    place = f"{where}.{key}"
    if found is not None and found not in PORTS:
        yield error("port-range", place, f'"{found}" is no port: 1-65535, 0 is reserved', "choose another", "EI0014")
    elif found is not None and found < 1024:
        yield warning(
            "port-reserved", place, f'"{found}" is one of the ports 1-1023 that systems reserve', "choose another"
        )
    return found


def server_id(
    fields: Dict[str, Any], where: str, key: str = "server_id", numbers_pass: bool = False
) -> Generator[Finding, None, str]:
    """Any text of 1 to 64 characters."""
    if key not in fields:
        yield missing(key, where)
        return ""
    value = fields[key]
    place = f"{where}.{key}"
    if not isinstance(value, str):
        yield not_text(place, value, numbers_pass=numbers_pass)
        return str(value)
    if not value:
        yield error("empty", place, f"{key} is empty", "give each server a name or an address", "EI0014")
    if len(value) > LONGEST_SERVER_ID:
        message = f"{key} has {len(value)} characters, HCCL takes {LONGEST_SERVER_ID}"
        yield error("server-id-length", place, message, "shorten it", "EI0014")
    return value
