"""Which variables must never be printed or written to a report: told by their names."""

from __future__ import annotations

import re

# Matched against the name's words, in capitals with blanks between. KEYBOARD, MONKEY, TASK_ID, PWD, SSH_AUTH_SOCK
# and TOKENIZERS_PARALLELISM are no secrets.
_SECRET = re.compile(
    r"""
      SECRET | PASSW                      # inside a word too: PGPASSWORD, CLIENTSECRET
    | TOKENS?\b                           # at a word's end: HFTOKEN
    | \b(API|ACCESS|PRIVATE|SSH)?KEYS?\b
    | \bPASS(PHRASE)?\b
    | \bCRED(S|ENTIALS?)?\b
    | \b(AK|SK|AKSK)\b                    # Huawei Cloud's access key and secret key
    | \bAUTHORIZATION\b
    | .\b(AUTH|PWD)$                      # REDIS_AUTH, MYSQL_PWD
    """,
    re.VERBOSE,
)


def is_secret(name: str) -> bool:
    """Whether a variable of this name probably holds a credential; in doubt, yes."""
    words = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)  # apiKey
    return bool(_SECRET.search(re.sub(r"[^A-Z]+", " ", words.upper()).strip()))
