"""The shim's orders, as words that any mpirun passes on unharmed.

mpirun reads its ranks' arguments: `:` starts a second program, 5.0 changes `--map-by` and its like. A few words
of base64 hold nothing it could find.
"""

from __future__ import annotations

import base64
import json
import zlib
from typing import List, Sequence, Tuple

from davincirun.values import Value

_WORD_BYTES = 96 * 1024  # the kernel takes 128 KiB in one argument


class Orders(Value):
    """What every rank's shim has to know, the same for all."""

    argv: Tuple[str, ...]
    cwd: str
    log_dir: str
    job_id: str
    run_id: str
    grace_seconds: float
    hosts: Tuple[str, ...]
    master_addr: str
    master_port: int
    has_own_gpu: bool  # each rank shall see one GPU alone
    prefix: bool  # as console.Style
    colour: bool
    terminal: bool


def encode(orders: Orders) -> List[str]:
    """`orders` in words of letters, digits, `+`, `/` and `=`."""
    text = base64.b64encode(zlib.compress(json.dumps(orders._asdict()).encode())).decode()
    return [text[start : start + _WORD_BYTES] for start in range(0, len(text), _WORD_BYTES)]


def decode(words: Sequence[str]) -> Orders:
    """What `encode` was given; ValueError for anything else."""
    try:
        fields = json.loads(zlib.decompress(base64.b64decode("".join(words), validate=True)))
        return Orders(**{**fields, "argv": tuple(fields["argv"]), "hosts": tuple(fields["hosts"])})
    except (zlib.error, TypeError, KeyError) as error:
        raise ValueError(str(error)) from None
