"""What one platform's variables say, each fact with its source; and how numbers in them are read."""

from __future__ import annotations

from typing import Generic, Mapping, Optional, Tuple, TypeVar

from davincirun.errors import PlatformError
from davincirun.values import Value

T = TypeVar("T")


class Fact(Generic[T]):
    """A value and where it stands, for messages: "VC_TASK_INDEX is 1"."""

    __slots__ = ("source", "value")

    def __init__(self, value: T, source: str) -> None:
        self.value = value
        self.source = source


class Claim(Value):
    """What a platform says of this launcher; None for what it doesn't say."""

    platform: str
    job_id: Optional[str] = None
    node_rank: Optional[Fact[int]] = None
    node_count: Optional[Fact[int]] = None
    hosts: Optional[Fact[Tuple[str, ...]]] = None  # by node rank
    host: Optional[str] = None  # this machine's name there
    address: Optional[str] = None  # this machine's address there
    meeting_hosts: Tuple[str, ...] = ()  # where node 0 can be reached, the best first
    note: Optional[str] = None


def number(environ: Mapping[str, str], name: str) -> Optional[Fact[int]]:
    """The non-negative integer in a variable, None where it is unset or empty; PlatformError for anything else."""
    text = environ.get(name, "").strip()
    if not text:
        return None
    if not text.isdigit():
        raise PlatformError(f"{name} is {text!r}, which is no number: unset or correct it")
    return Fact(int(text), f"{name} is {text}")


def first_number(environ: Mapping[str, str], *names: str) -> Optional[Fact[int]]:
    """The number in the first of these variables that is set."""
    return next((fact for fact in (number(environ, name) for name in names) if fact is not None), None)


def names_in(environ: Mapping[str, str], name: str) -> Optional[Fact[Tuple[str, ...]]]:
    """The host names in a comma list, without ports; None where the variable is unset or empty."""
    hosts = tuple(without_port(part.strip()) for part in environ.get(name, "").split(",") if part.strip())
    return Fact(hosts, f"{name} names {len(hosts)}") if hosts else None


def without_port(text: str) -> str:
    """`host` of `host:port`; an IPv6 address has more colons and stays."""
    host, colon, port = text.partition(":")
    return host if colon and port.isdigit() else text
