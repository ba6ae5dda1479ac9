"""What this machine knows of itself, read from the kernel's files."""

from __future__ import annotations

from davincirun.host import ipv4_addresses, ipv6_addresses, this_host

FIB_TRIE = """Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 10.4.0.0/16 2 0 2
        |-- 10.4.0.0
           /16 link UNICAST
        |-- 10.4.7.9
           /32 host LOCAL
        |-- 10.4.255.255
           /32 link BROADCAST
     +-- 127.0.0.0/8 2 0 2
        |-- 127.0.0.1
           /32 host LOCAL
Local:
     |-- 10.4.7.9
        /32 host LOCAL
     |-- 172.17.0.1
        /32 host LOCAL
"""
IF_INET6 = """00000000000000000000000000000001 01 80 10 80       lo
fd000000000000000000000000000007 02 40 00 80     eth0
fe80000000000000024204fffe0a0709 02 40 20 80     eth0
broken
"""


def test_local_addresses_are_read_once_each_without_loopback() -> None:
    assert ipv4_addresses(FIB_TRIE) == ["10.4.7.9", "172.17.0.1"]


def test_ipv6_addresses_are_written_short() -> None:
    assert ipv6_addresses(IF_INET6) == ["fd00::7", "fe80::242:4ff:fe0a:709"]


def test_nothing_is_read_from_nothing() -> None:
    assert ipv4_addresses("") == ipv6_addresses("") == []


def test_this_machine_has_a_name_and_no_loopback_address() -> None:
    host = this_host()
    assert host.names and all(host.names)
    assert not any(address.startswith("127.") or address == "::1" for address in host.addresses)
