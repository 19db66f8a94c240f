"""Measures by how much a process grows for each module that it compiles, trains for two steps and drops.

    python bench/torch_growth.py [--modules 50]

Needs torch. Prints the resident size that modules after the first ten add, and what 1,000 would by that.
"""

import argparse
import gc

import torch
from torch import nn

import lessen
from torch_memory import resident

FIRST = 10


def once(seed: int) -> None:
    torch.manual_seed(seed)
    module = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
    x, y = torch.randn(6, 8), torch.randint(0, 3, (6,))
    compiled = lessen.compile(module, (x,), loss="cross_entropy", optimizer="adamw", lr=1e-3, threads=1)
    for _ in range(2):
        compiled.step(x, y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--modules", type=int, default=50)
    count = parser.parse_args().modules
    held = 0
    for number in range(FIRST + count):
        if number == FIRST:
            gc.collect()
            held = resident()
        once(number)
    gc.collect()
    grown = resident() - held
    print(f"{count} modules add {grown / 2**20:.2f} MiB; 1,000 would add {grown / count * 1000 / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
