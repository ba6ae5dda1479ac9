"""Cards for machines that have none: real in all but the silicon, and the same each time."""

from __future__ import annotations

from typing import Optional, Tuple

from davincirun.devices import Detected, LocalDevice
from davincirun.devices.selection import parse_ids
from davincirun.errors import UsageError
from davincirun.values import Value

_FORMS = "wanted COUNT, GENERATION:COUNT or GENERATION:IDS, as in 8, a3:16, 910b:0,3,4,7"
_MAXIMUM_COUNT = 128
_FIRST_ADDRESS = (10 << 24) + (20 << 16) + 1  # 10.20.0.1


class _Kind(Value):
    generation: str
    name: str
    chips_per_npu: int = 1
    has_network: bool = True
    maximum_device_id: int = _MAXIMUM_COUNT - 1


_KINDS = {
    "310": _Kind("310", "310", chips_per_npu=4, has_network=False),
    "310p": _Kind("310P", "310P3", has_network=False),
    "310b": _Kind("310B", "310B4", has_network=False),
    "910": _Kind("910", "910A"),
    "910b": _Kind("910B", "910B3"),
    "a3": _Kind("A3", "Ascend910", chips_per_npu=2, maximum_device_id=31),  # an SDID has four bits for the NPU
    "950": _Kind("950", "Ascend950PR"),
}
_ALIASES = {"a2": "910b", "910_93": "a3", "910c": "a3", "a5": "950"}


def simulate(spec: str, node_rank: int = 0) -> Detected:
    """The devices that `spec` asks for: `8`, `910b:8`, `a3:16`, `310p:2`, or the physical ids `910b:0,3,4-7`.

    A bare count means Atlas A2 (910b). `node_rank` gives each simulated machine of a job addresses of its own.
    Anything else is a UsageError.
    """
    kind_text, colon, ids_text = spec.strip().rpartition(":")
    kind_text = kind_text.strip().lower()
    kind = _KINDS.get(_ALIASES.get(kind_text, kind_text)) if colon else _KINDS["910b"]
    if kind is None:
        raise UsageError(f"simulate {spec!r}: no generation {kind_text!r}, only {', '.join(_KINDS)}; {_FORMS}")
    device_ids = _device_ids(spec, ids_text, kind)
    devices = tuple(_device(kind, logical_id, id_, node_rank) for logical_id, id_ in enumerate(device_ids))
    return Detected(devices, ("simulated devices: nothing runs on an NPU",), kind.generation, _super_pod_id(kind))


def _device_ids(spec: str, text: str, kind: _Kind) -> Tuple[int, ...]:
    text = text.strip()
    is_count = text.isdigit()
    try:
        ids = parse_ids(text)
    except ValueError as error:
        raise UsageError(f"simulate {spec!r}: {error}; {_FORMS}") from None
    if is_count:
        ids = tuple(range(ids[0])) if ids[0] <= kind.maximum_device_id + 1 else (ids[0],)
    if not ids or ids[-1] > kind.maximum_device_id:
        raise UsageError(f"simulate {spec!r}: wanted 1 to {kind.maximum_device_id + 1} devices of {kind.generation}")
    return ids


def _device(kind: _Kind, logical_id: int, device_id: int, node_rank: int) -> LocalDevice:
    npu_id, chip_id = divmod(device_id, kind.chips_per_npu)
    return LocalDevice(
        logical_id=logical_id,
        device_id=device_id,
        device_ip=_address(node_rank * 256 + device_id) if kind.has_network else None,
        npu_id=npu_id,
        chip_id=chip_id,
        name=kind.name,
        health="OK",
        ports=("0/4", "0/5") if kind.generation == "950" else (),
        super_device_id=_super_device_id(node_rank, npu_id, chip_id, device_id) if kind.generation == "A3" else None,
        source="simulated",
    )


def _super_device_id(server_index: int, npu_id: int, die: int, device_id: int) -> str:
    """An SDID as Atlas A3 composes it."""
    return str(server_index << 22 | npu_id << 18 | die << 16 | device_id)


def _super_pod_id(kind: _Kind) -> Optional[str]:
    return "0" if kind.generation == "A3" else None


def _address(offset: int) -> str:
    return ".".join(str(byte) for byte in (_FIRST_ADDRESS + offset).to_bytes(4, "big"))
