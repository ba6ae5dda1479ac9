"""A document → text that people can read and that holds every key and value the document holds."""

from __future__ import annotations

import json
from typing import Any, Dict, Iterable

_WIDTH = 110
_encode = json.JSONEncoder().encode


def dumps(document: Dict[str, Any]) -> bytes:
    """The text of `document`: what is short on one line, else one entry a line; keys in their order, pure ASCII.

    Not json's own indent, which takes ten times as long at 131,072 devices and a line for every scalar.
    """
    return (_text(document, "") + "\n").encode("ascii")


def _text(value: Any, indent: str) -> str:
    if not isinstance(value, (dict, list)) or not value:
        return _encode(value)
    if not _holds_containers(value.values() if isinstance(value, dict) else value):
        line = _encode(value)
        if len(indent) + len(line) <= _WIDTH:
            return line
    inner = indent + "  "
    if isinstance(value, list):
        return f"[\n{inner}" + f",\n{inner}".join([_text(item, inner) for item in value]) + f"\n{indent}]"
    pairs = [f"{_encode(str(key))}: {_text(item, inner)}" for key, item in value.items()]
    return f"{{\n{inner}" + f",\n{inner}".join(pairs) + f"\n{indent}}}"


def _holds_containers(values: Iterable[Any]) -> bool:
    return any(isinstance(value, (dict, list)) for value in values)
