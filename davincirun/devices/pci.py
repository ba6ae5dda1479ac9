"""Huawei's accelerators on the PCI bus, where they are also seen while their driver is in trouble."""

from __future__ import annotations

from typing import Iterable, Optional, Tuple

from davincirun.devices.reading import numbered_lines
from davincirun.values import Value

PCI_VENDOR = "0x19e5"
_GENERATIONS = {"d801": "910", "d802": "910B", "d806": "950"}  # by PCI device id of vendor 19e5


class PciCard(Value):
    """One accelerator on the bus."""

    bus_id: str  # with or without the domain, as printed
    pci_device_id: Optional[str]  # d802
    generation: str  # `unknown` for ids not seen yet


def generation_of(pci_device_ids: Iterable[str]) -> str:
    """The generation of accelerators by their PCI device ids, as `0xd802`; `unknown` for none, new or mixed ones."""
    found = {_GENERATIONS.get(text.strip().lower()[-4:]) for text in pci_device_ids} - {None}
    return (found.pop() or "unknown") if len(found) == 1 else "unknown"


def read_lspci(text: str) -> Tuple[PciCard, ...]:
    """The accelerators in `lspci`, `lspci -nn` or `lspci -d 19e5:`; other devices are left out."""
    cards = []
    for _, line in numbered_lines(text):
        bus_id, _, description = line.strip().partition(" ")
        is_ours = "Huawei" in description or "19e5" in description
        if "accelerators" in description and is_ours and ":" in bus_id:
            device_id = _device_id(description)
            cards.append(PciCard(bus_id, device_id, _GENERATIONS.get(device_id or "", "unknown")))
    return tuple(cards)


def _device_id(description: str) -> Optional[str]:
    """From `Device d801 (rev 20)`, or with -nn from `[19e5:d801]`."""
    for mark in ("19e5:", "Device "):
        _, found, after = description.rpartition(mark)
        digits = after[:4].lower()
        if found and len(digits) == 4 and all(digit in "0123456789abcdef" for digit in digits):
            return digits
    return None
