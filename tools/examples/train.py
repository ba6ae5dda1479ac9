#!/usr/bin/env python3
"""A small real training job: davincirun --simulate 8 python train.py

Every worker holds its own share of the data and the same small network, and all take each step together: with
PyTorch's DistributedDataParallel over gloo where torch is installed, else with numpy and plain sockets. Nothing but
RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT tells a worker who it is.
"""

from __future__ import annotations

import importlib.util
import os
import sys

STEPS = 100
SAMPLES = 256  # of each worker
FEATURES = 4
HIDDEN = 16


def main() -> int:
    try:
        rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    except KeyError as missing:
        sys.exit(f"{missing} is not set: start me with a launcher, davincirun --simulate 8 python {sys.argv[0]}")
    if importlib.util.find_spec("torch"):
        losses, agreed = train_with_torch(rank, world_size)
    elif importlib.util.find_spec("numpy"):
        losses, agreed = train_with_numpy(rank, world_size)
    else:
        sys.exit("neither torch nor numpy is installed here: pip install torch, or pip install numpy")
    say(rank, f"{world_size} workers trained together: loss {losses[0]:.4f} -> {losses[-1]:.4f}")
    if not agreed:
        sys.exit(f"rank {rank}: the workers' weights differ")
    return 0 if losses[-1] < losses[0] else 1


def train_with_torch(rank: int, world_size: int) -> tuple[list[float], bool]:
    """The loss of each step, over all workers, and whether all ended with the same weights."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    say(rank, f"{world_size} workers, torch {torch.__version__}: DistributedDataParallel over gloo")
    features = torch.randn(SAMPLES, FEATURES, generator=torch.Generator().manual_seed(rank))
    wanted = torch.sin(features.sum(1, keepdim=True))
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(FEATURES, HIDDEN), torch.nn.Tanh(), torch.nn.Linear(HIDDEN, 1))
    model = DistributedDataParallel(network)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(STEPS):
        loss = torch.nn.functional.mse_loss(model(features), wanted)
        optimizer.zero_grad()
        loss.backward()  # DistributedDataParallel averages the gradients here
        optimizer.step()
        losses.append(torch_mean(loss.detach()).item())
        report(rank, step, losses[-1])
    weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    agreed = torch.allclose(weights, torch_mean(weights))
    dist.destroy_process_group()
    return losses, agreed


def torch_mean(values):
    """The mean of a tensor over all workers."""
    import torch.distributed as dist

    total = values.clone()
    dist.all_reduce(total)
    return total / dist.get_world_size()


def train_with_numpy(rank: int, world_size: int) -> tuple[list[float], bool]:
    """The same as with torch, the gradients by hand."""
    import numpy as np
    from socket_group import SocketGroup

    group = SocketGroup(rank, world_size, os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    say(rank, f"{world_size} workers, no torch here: numpy {np.__version__} and plain sockets")
    features = np.random.RandomState(1 + rank).randn(SAMPLES, FEATURES)
    wanted = np.sin(features.sum(1, keepdims=True))
    first = np.random.RandomState(0).randn(FEATURES, HIDDEN) / 2
    second = np.random.RandomState(1).randn(HIDDEN, 1) / 4
    speed = np.zeros(first.size + second.size)
    losses = []
    for step in range(STEPS):
        hidden = np.tanh(features @ first)
        error = hidden @ second - wanted
        towards_hidden = error @ second.T * (1 - hidden**2)
        gradient = np.concatenate([(features.T @ towards_hidden).ravel(), (hidden.T @ error).ravel()]) * 2 / SAMPLES
        shared = group.mean(np.append(gradient, (error**2).mean()))
        speed = 0.9 * speed - 0.1 * shared[:-1]
        first += speed[: first.size].reshape(first.shape)
        second += speed[first.size :].reshape(second.shape)
        losses.append(float(shared[-1]))
        report(rank, step, losses[-1])
    weights = np.append(first, second)
    agreed = np.allclose(weights, group.mean(weights))
    group.close()
    return losses, bool(agreed)


def report(rank: int, step: int, loss: float) -> None:
    if step % (STEPS // 10) == 0:
        say(rank, f"step {step:3}  loss {loss:.4f}")


def say(rank: int, text: str) -> None:
    """What the job says, it says once: rank 0 prints."""
    if rank == 0:
        print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
