"""What can be said about a rank table: one finding per place, in words its author can act on."""

from __future__ import annotations

import json
import re
from typing import Any, Dict, Optional

from davincirun.errors import RankTableError
from davincirun.values import Value

ERROR = "error"  # HCCL, or the launch, fails or hangs
WARNING = "warning"  # it runs, but not as its author may think
NOT_READY = "not-ready"  # the file is still being written

_LONGEST = 60  # characters of a value that a message repeats
_NUMBER = re.compile(r"[ \t\n\v\f\r]*\+?([0-9]{1,20})")


class Finding(Value):
    """One thing to say about one place of a rank table."""

    severity: str  # ERROR, WARNING or NOT_READY
    code: str  # a stable word for tools: "rank-duplicate"
    where: str  # JSON path (server_list[1].device[0].rank_id), empty for the whole file
    message: str  # the value found and the value wanted
    remedy: str = ""  # what its author does about it
    hccl: str = ""  # the code HCCL would end with: "EI0014"

    @property
    def text(self) -> str:
        """Message, HCCL's code and remedy in one line."""
        code = f" (HCCL: {self.hccl})" if self.hccl else ""
        return f"{self.message}{code}" + (f"; {self.remedy}" if self.remedy else "")


def error(code: str, where: str, message: str, remedy: str = "", hccl: str = "") -> Finding:
    """A finding that makes the table unusable."""
    return Finding(ERROR, code, where, message, remedy, hccl)


def warning(code: str, where: str, message: str, remedy: str = "", hccl: str = "") -> Finding:
    """A finding that leaves the table usable."""
    return Finding(WARNING, code, where, message, remedy, hccl)


def as_error(path: str, finding: Finding) -> RankTableError:
    """The exception that says what `finding` says."""
    return RankTableError(path, finding.where, finding.text)


def shown(value: object) -> str:
    """`value` as JSON, short enough for a message and printable anywhere."""
    if isinstance(value, (dict, list)):
        return f"{kind(value)} with {len(value)} entries"
    text = json.dumps(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text)} characters)"


def kind(value: object) -> str:
    """The JSON type of `value`, with its article."""
    for types, name in _KINDS.items():
        if isinstance(value, types):
            return name
    return "null"


def number(text: object) -> Optional[int]:
    """What HCCL reads from `text` (std::stoull: blanks, a plus and trailing text are let through), or None."""
    match = _NUMBER.match(text) if isinstance(text, str) else None
    return int(match.group(1)) if match else None


_KINDS: Dict[Any, str] = {
    bool: "a boolean",
    str: "a string",
    (int, float): "a number",
    dict: "an object",
    list: "a list",
}
