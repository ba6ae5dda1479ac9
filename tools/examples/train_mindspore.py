#!/usr/bin/env python3
"""A small real training job with MindSpore on CPUs: davincirun --simulate 4 python train_mindspore.py

Each worker computes the gradients of its own share of the data with MindSpore; their mean goes through plain sockets,
because MindSpore's own collectives on CPU need msrun's scheduler process. On NPUs `mindspore.communication.init` and
`mindspore.nn.DistributedGradReducer` take the sockets' place, by the variables that every worker has already.
"""

from __future__ import annotations

import importlib.util
import os
import sys

STEPS = 30
SAMPLES = 256  # of each worker
FEATURES = 4
HIDDEN = 16


def main() -> int:
    try:
        rank, world_size = int(os.environ["RANK_ID"]), int(os.environ["RANK_SIZE"])
    except KeyError as missing:
        sys.exit(f"{missing} is not set: start me with a launcher, davincirun --simulate 4 python {sys.argv[0]}")
    if not importlib.util.find_spec("mindspore"):
        sys.exit('mindspore is not installed here: pip install mindspore "numpy<2"')
    losses, agreed = train(rank, world_size)
    say(rank, f"{world_size} workers trained together: loss {losses[0]:.4f} -> {losses[-1]:.4f}")
    if not agreed:
        sys.exit(f"rank {rank}: the workers' weights differ")
    return 0 if losses[-1] < losses[0] else 1


def train(rank: int, world_size: int) -> tuple[list[float], bool]:
    """The loss of each step, over all workers, and whether all ended with the same weights."""
    import mindspore
    import numpy as np
    from mindspore import nn
    from socket_group import SocketGroup

    mindspore.set_device("CPU")
    group = SocketGroup(rank, world_size, os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    say(rank, f"{world_size} workers, MindSpore {mindspore.__version__} on CPU: gradients over plain sockets")
    shard = np.random.RandomState(1 + rank).randn(SAMPLES, FEATURES).astype(np.float32)
    features, wanted = mindspore.Tensor(shard), mindspore.Tensor(np.sin(shard.sum(1, keepdims=True)))
    mindspore.set_seed(0)  # the same first weights everywhere
    network = nn.SequentialCell(nn.Dense(FEATURES, HIDDEN), nn.Tanh(), nn.Dense(HIDDEN, 1))
    parameters = network.trainable_params()
    mean_square_error = nn.MSELoss()
    loss_and_gradients = mindspore.value_and_grad(lambda x, y: mean_square_error(network(x), y), None, parameters)
    optimizer = nn.SGD(parameters, learning_rate=0.1, momentum=0.9)
    losses = []
    for step in range(STEPS):
        loss, gradients = loss_and_gradients(features, wanted)
        *shared, mean_loss = averaged(group, [*gradients, loss])
        optimizer(tuple(mindspore.Tensor(gradient) for gradient in shared))
        losses.append(float(mean_loss))
        if step % (STEPS // 6) == 0:
            say(rank, f"step {step:3}  loss {losses[-1]:.4f}")
    weights = averaged(group, parameters)
    agreed = all(np.allclose(mine.asnumpy(), mean, atol=1e-6) for mine, mean in zip(parameters, weights))
    group.close()
    return losses, agreed


def averaged(group, tensors):
    """The means of `tensors` over all workers, as numpy arrays of the same shapes, in one exchange."""
    import numpy as np

    arrays = [tensor.asnumpy() for tensor in tensors]
    flat = group.mean(np.concatenate([array.ravel() for array in arrays])).astype(np.float32)
    ends = np.cumsum([array.size for array in arrays])[:-1]
    return [part.reshape(array.shape) for part, array in zip(np.split(flat, ends), arrays)]


def say(rank: int, text: str) -> None:
    """What the job says, it says once: rank 0 prints."""
    if rank == 0:
        print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
