"""Checks that a training of several processes has the losses of PyTorch's DistributedDataParallel over gloo; a part of
`parity.py`.

The steps of `parity.py` are done by two processes on both sides, each with half of a batch. Beside PyTorch's own
process with the whole batch, they are to have the same losses within the same bounds.
"""

import os
import subprocess
import sys
import tempfile

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

PROCESSES = 2


def part(batch, rank):
    """The examples of one process."""
    inputs, labels = batch
    own = slice(rank * len(labels) // PROCESSES, (rank + 1) * len(labels) // PROCESSES)
    return {name: tensor[own] for name, tensor in inputs.items()}, labels[own]


class Parallel(torch.nn.Module):
    """A model in processes whose gradients are averaged, with the parameters' own names."""

    def __init__(self, model):
        super().__init__()
        self.wrapped = DistributedDataParallel(model)

    def forward(self, **inputs):
        return self.wrapped(**inputs)


def side(given, train):
    """PyTorch's side, in each process of torchrun: `train` does the steps, and the first process writes the losses."""
    dist.init_process_group("gloo")
    model, batches = torch.load(given, weights_only=False)
    rank = dist.get_rank()
    losses, _ = train(Parallel(model), [part(batch, rank) for batch in batches])
    all_losses = torch.tensor(losses, dtype=torch.float64)
    dist.all_reduce(all_losses)
    if rank == 0:
        torch.save((all_losses / PROCESSES).tolist(), given)
    dist.destroy_process_group()


def losses(model, batches, script):
    """The losses of the same steps in two processes of PyTorch."""
    with tempfile.TemporaryDirectory() as place:
        given = os.path.join(place, "given.pt")
        torch.save((model, batches), given)
        run = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={PROCESSES}"]
        subprocess.run([*run, script, "--torch", given], check=True)
        return torch.load(given)
