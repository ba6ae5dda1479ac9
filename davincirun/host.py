"""What this machine knows of itself, without asking any name service."""

from __future__ import annotations

import os
import re
from typing import Iterator, List

from davincirun.identity import Host


def this_host() -> Host:
    """Our addresses, loopback left out (it is every machine's), and our host name."""
    return Host(tuple(_addresses()), (os.uname().nodename,))


def _addresses() -> Iterator[str]:
    yield from ipv4_addresses(_text("/proc/net/fib_trie"))
    yield from ipv6_addresses(_text("/proc/net/if_inet6"))


def ipv4_addresses(fib_trie: str) -> List[str]:
    """The local addresses in the kernel's routing trie: leaves marked `/32 host LOCAL`."""
    found = re.findall(r"\|-- (\d+\.\d+\.\d+\.\d+)\n\s+/32 host LOCAL", fib_trie)
    return [address for address in dict.fromkeys(found) if not address.startswith("127.")]


def ipv6_addresses(if_inet6: str) -> List[str]:
    """The addresses in /proc/net/if_inet6, which begins each line with 32 hex digits."""
    import _socket  # the C half of `socket`; ipaddress, which could do this too, takes 2 ms to load

    digits = [line.split(" ", 1)[0] for line in if_inet6.splitlines()]
    found = [_socket.inet_ntop(_socket.AF_INET6, bytes.fromhex(text)) for text in digits if len(text) == 32]
    return [address for address in found if address != "::1"]


def _text(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
