"""Which cards there are when neither a device node nor npu-smi tells: those that hccn_tool answers for.

It goes by physical ids and fails for a card that isn't there or isn't mounted, so each id it may have is asked. What
/etc/hccn.conf says is no proof of a card: the file may be another machine's, or a whole host's in a container that
has a part of it. It only says which ids to ask for beyond the usual ones.
"""

from __future__ import annotations

from typing import Sequence, Tuple

from davincirun.devices import LocalDevice
from davincirun.devices.commands import Answer, Commands
from davincirun.devices.hccn_950 import read_card_info
from davincirun.devices.hccn_network import read_failure
from davincirun.devices.hccn_tool import NO_ADDRESS_STATUS, read_addresses
from davincirun.devices.queries import read_answer
from davincirun.values import Value

USUAL_IDS = range(16)  # of a server's cards; on Atlas A3 of its dies
_HIGHEST_ID = 63


class Answered(Value):
    """The cards that answered."""

    devices: Tuple[LocalDevice, ...]
    notes: Tuple[str, ...]
    generation: str  # 950 or unknown: hccn_tool's grammar tells no more


def ask_for_cards(commands: Commands, hccn_tool: str, filed_ids: Sequence[int]) -> Answered:
    """The cards that hccn_tool knows, by their physical ids; `filed_ids` are those of /etc/hccn.conf."""
    ids = sorted({*USUAL_IDS, *[number for number in filed_ids if number <= _HIGHEST_ID]})
    calls = [(number, commands.start(hccn_tool, "-i", str(number), "-ip", "-g")) for number in ids]
    found, generation = [number for number, call in calls if _is_there(call.answer())], "unknown"
    if not found:
        calls = [(number, commands.start(hccn_tool, "-g", "-dev_info", "-i", str(number))) for number in ids]
        found = [number for number, call in calls if read_answer(call.answer(), read_card_info)[0]]
        generation = "950"
    devices = tuple(
        LocalDevice(logical_id, number, source="hccn_tool answers for it") for logical_id, number in enumerate(found)
    )
    return Answered(devices, (_note(found),), generation) if found else Answered((), (), "unknown")


def _is_there(answer: Answer) -> bool:
    """A card that is there has an address, or the tool says that none is set."""
    if read_addresses(answer.stdout).addresses or answer.status == NO_ADDRESS_STATUS:
        return True
    failure = read_failure(answer.stderr + "\n" + answer.stdout)
    return failure is not None and failure.is_unset


def _note(found: Sequence[int]) -> str:
    ids = ", ".join(map(str, found))
    return (
        f"NEITHER /dev NOR npu-smi TELLS WHICH CARDS ARE HERE: taken are those that hccn_tool answers for, {ids}; "
        "their names, health and processes are not known, and whether all of them can be used is not either. "
        "If that is wrong: mend npu-smi, choose with --devices, or give a table with --rank-table"
    )
