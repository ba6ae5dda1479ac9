#!/usr/bin/env python3
"""Build dist/davincirun.py: the whole launcher in one executable file, for Python 3.7 and later.

usage: python tools/build_zipapp.py [OUTPUT]

A zip behind a `#!` line, which Python runs like a script. The same sources give the same bytes on every machine and
Python: sorted names, one date, one mode, and nothing compressed (zlib's output differs between versions).
"""

from __future__ import annotations

import io
import os
import sys
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SHEBANG = b"#!/usr/bin/env python3\n"
MAIN = b"from davincirun.cli import run\n\nrun()\n"
EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest date a zip can hold
READABLE_FILE = 0o100644 << 16


def main(arguments: list[str]) -> int:
    output_path = arguments[0] if arguments else os.path.join(ROOT, "dist", "davincirun.py")
    os.makedirs(os.path.dirname(os.path.abspath(output_path)), exist_ok=True)
    write_executable(output_path, single_file())
    print(output_path)
    return 0


def single_file() -> bytes:
    """The bytes of the single file: `#!` line, the package's sources, and the `__main__` that starts it."""
    archive = io.BytesIO()
    archive.write(SHEBANG)
    with zipfile.ZipFile(archive, "a", zipfile.ZIP_STORED) as contents:
        for name, source in sorted([("__main__.py", MAIN), *package_sources()]):
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.create_system = 3  # Unix, also where it isn't
            entry.external_attr = READABLE_FILE
            contents.writestr(entry, source)
    return archive.getvalue()


def package_sources() -> list[tuple[str, bytes]]:
    """The package's modules: (name in the archive, source)."""
    sources = []
    for folder, _, names in os.walk(os.path.join(ROOT, "davincirun")):
        for name in names:
            if name.endswith(".py"):
                path = os.path.join(folder, name)
                with open(path, "rb") as source:
                    sources.append((os.path.relpath(path, ROOT).replace(os.sep, "/"), source.read()))
    return sources


def write_executable(path: str, content: bytes) -> None:
    """Replace `path` by an executable file in one step: a job may be starting from the old one."""
    partial_path = f"{path}.{os.getpid()}"
    with open(partial_path, "wb") as output:
        output.write(content)
    os.chmod(partial_path, 0o755)
    os.replace(partial_path, path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
