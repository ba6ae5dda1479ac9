"""TUNE_ENV_FILE: the platform's list of variables to broadcast, and users' own files for mpirun's `--tune`.

The platform's page fills it with plain KEY=VALUE lines and passes it by `-tune`. Open MPI takes such lines for MCA
parameters: 4.1 sets no variable, 5.0 sets OMPI_MCA_KEY or ends at the first blank. So the file is written for those
who look into it, and the variables travel by `-x NAME`.
"""

from __future__ import annotations

import re
from typing import Dict, List, Mapping

_BROADCAST = re.compile(r"(MA_|AWS_|S3_|PATH|VC_WORKER_|SCC|CRED)\w*", re.ASCII)
_LINE_BYTES = 2047  # 5.0 refuses a longer line, 4.1 crashes beyond 16 KiB


def broadcast_names(environ: Mapping[str, str]) -> List[str]:
    """The variables of node 0 that all nodes get, as the platform chooses them: by their names' beginnings."""
    return sorted(name for name, value in environ.items() if value and _BROADCAST.fullmatch(name))


def tune_text(environ: Mapping[str, str]) -> str:
    """The file as the platform's own scripts make it (`env | grep`)."""
    return "".join(f"{name}={environ[name]}\n" for name in broadcast_names(environ))


def is_users(text: str) -> bool:
    """Whether a file is somebody's own: it has a line that the platform's scripts wouldn't write."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return any(re.match(r"\s*--?(x|mca|gmca)\s", line) for line in lines) or (
        bool(lines) and not any(_BROADCAST.match(line.partition("=")[0]) for line in lines)
    )


def doubts(text: str, path: str) -> List[str]:
    """What Open MPI won't take as it is meant, line by line; the same for 4.1 and 5.0, so what one of them spoils."""
    found: Dict[int, str] = {}
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        match = re.match(r"-x\s+(\w+)=(.*)$", line)
        if len(line.encode("utf-8", "surrogateescape")) > _LINE_BYTES:
            found[number] = f"longer than {_LINE_BYTES} bytes, which Open MPI 5 refuses"
        elif match and re.search(r"\s", match.group(2).rstrip("\r")):
            found[number] = "a blank in the value: Open MPI 4 cuts it there, 5 refuses the file"
        elif match and ";" in match.group(2):
            found[number] = "a semicolon in the value: Open MPI 4 cuts it there"
        elif match and not match.group(2):
            found[number] = "an empty value: Open MPI 4 doesn't set it"
    if lines[-1]:
        found[len(lines)] = "no newline at the end: Open MPI 5 loses the last character"
    return [f"{path}: line {number}: {problem}" for number, problem in sorted(found.items())]
