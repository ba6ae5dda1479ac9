"""trains_ddp.py [fails]: steps of data-parallel training on gloo; says "weights SUM". With "fails", rank 2 raises."""

import os
import sys

import torch
from torch.nn.parallel import DistributedDataParallel

torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
assert (rank, torch.distributed.get_world_size()) == (int(os.environ["RANK_ID"]), int(os.environ["RANK_SIZE"]))
torch.manual_seed(rank)  # different data, different first weights: DDP makes them one
model = DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(5):
    if "fails" in sys.argv and rank == 2 and step == 3:
        raise ValueError("rank 2 has had enough")
    optimizer.zero_grad()
    model(torch.randn(16, 8)).square().mean().backward()
    optimizer.step()
total = sum(parameter.sum().item() for parameter in model.parameters())
os.write(1, ("weights %.6f\n" % total).encode())
torch.distributed.destroy_process_group()
