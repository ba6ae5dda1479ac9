"""trains_mindspore.py: a few steps of training with MindSpore on the CPU; says "rank R of N: loss falls"."""

import os

import mindspore
from mindspore import nn, ops

mindspore.set_context(mode=mindspore.PYNATIVE_MODE, device_target="CPU")
mindspore.set_seed(1)
inputs, targets = ops.randn(64, 8), ops.zeros((64, 1))
net, loss_of = nn.Dense(8, 1), nn.MSELoss()
optimizer = nn.SGD(net.trainable_params(), learning_rate=0.1)
step = mindspore.value_and_grad(lambda x, y: loss_of(net(x), y), None, optimizer.parameters)
losses = []
for _ in range(10):
    loss, gradients = step(inputs, targets)
    optimizer(gradients)
    losses.append(float(loss.asnumpy()))
verdict = b"falls" if losses[-1] < losses[0] else b"doesn't fall"
rank, size = (os.environb[name] for name in (b"RANK_ID", b"RANK_SIZE"))
os.write(1, b"rank %s of %s: loss %s\n" % (rank, size, verdict))
