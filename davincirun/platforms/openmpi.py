"""Open MPI 4 and 5 (and whatever else speaks PMIx): one launcher per node, started by mpirun."""

from __future__ import annotations

from typing import Mapping, Optional

from davincirun.errors import PlatformError
from davincirun.platforms.claim import Claim, number

NAME = "openmpi"


def read(environ: Mapping[str, str]) -> Optional[Claim]:
    """What mpirun says, or None when it didn't start us. PlatformError when it started several launchers on this node.

    Both generations set OMPI_COMM_WORLD_*, which scripts also export by hand and pass on: only with the name of a
    run (PMIX_NAMESPACE, in 4 also OMPI_MCA_ess_base_jobid) beside them has mpirun started us. A bare PMIX_RANK
    comes from `srun --mpi=pmix`, whose other variables say the rest.
    """
    size = number(environ, "OMPI_COMM_WORLD_SIZE")
    namespace = environ.get("PMIX_NAMESPACE") or environ.get("OMPI_MCA_ess_base_jobid")
    if size is None or not namespace:
        return None
    here = number(environ, "OMPI_COMM_WORLD_LOCAL_SIZE")
    if here is not None and here.value > 1:
        raise PlatformError(
            f"mpirun started {here.value} launchers on this node (OMPI_COMM_WORLD_LOCAL_SIZE); one starts all of a"
            " node's workers: mpirun --map-by ppr:1:node"
        )
    return Claim(
        NAME,
        job_id=f"mpi-{namespace}",
        node_rank=number(environ, "OMPI_COMM_WORLD_RANK"),
        node_count=size,
    )
