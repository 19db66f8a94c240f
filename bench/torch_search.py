#!/usr/bin/env python3
"""One step of a search for architecture and precision in PyTorch: the other side of bench/search_step.py.

    python3 bench/torch_search.py --supernet factorised|naive [--compile] [--batch 32] [--size 16] [--width 0.25]
                                  [--depth 1] [--steps 5] [--threads 2]

`factorised` is the supernet of `lessen search`: kernels, expansions, bits and the choice to be left out are mixed where they
enter, so that a block is one path. `naive` has the same blocks with every combination of kernel, expansion and bits alive,
each with weights of its own, and sums their results by the product of their shares. Both have norms by the range of the
batch, rounding by the magnitude of each image and each output channel, whose gradient goes straight through, and relu6.

A step of the weights is SGD with momentum and elements of gradients within 5; a step of the architecture is the derivative of
the loss by the logits alone, and Adam. The first step of each is not timed. One JSON object goes to stdout: milliseconds of
each step, the resident size after the imports and the most that was resident at once.
"""

import argparse
import itertools
import json
import math
import resource
import time

import torch
import torch.nn.functional as F

# The rows of table 2.10 in the CIFAR form: channels, stride of the first block, blocks.
ROWS = [(16, 1, 1), (24, 1, 2), (32, 2, 4), (64, 2, 4), (128, 1, 4), (160, 2, 5), (256, 1, 2)]
KERNELS, EXPANSIONS, BITS = (3, 5, 7), (1, 3, 6), (2, 4, 6, 8)
ENDS = 8


class Round(torch.autograd.Function):
    """Rounds by the magnitude of each row of the first axis; nothing is kept for the derivative, which is 1."""

    @staticmethod
    def forward(ctx, x, magnitudes, bits):
        high = 2 ** (bits - 1) - 1
        scale = (magnitudes / high).clamp_min(torch.finfo(x.dtype).tiny)
        return torch.round(x / scale).clamp_(-high, high).mul_(scale)

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None, None


def magnitudes(x):
    with torch.no_grad():
        return x.abs().amax(tuple(range(1, x.dim())), keepdim=True)


def rounded(x, bits, by=None):
    return Round.apply(x, magnitudes(x) if by is None else by, bits)


def mixed(shares, values):
    """The sum of values times their shares."""
    total = None
    for share, value in zip(shares, values):
        total = value * share if total is None else total + value * share
    return total


class RangeNorm(torch.nn.Module):
    """Normalization by mean and range of the batch."""

    def __init__(self, channels):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(channels))
        self.bias = torch.nn.Parameter(torch.zeros(channels))

    def forward(self, x):
        count = x.numel() // x.shape[1]
        mean = x.mean((0, 2, 3))
        spread = (x.amax((0, 2, 3)) - x.amin((0, 2, 3))) / math.sqrt(2 * math.log(count))
        factor = self.weight * torch.rsqrt(spread * spread + 1e-5)
        return x * factor.view(1, -1, 1, 1) + (self.bias - mean * factor).view(1, -1, 1, 1)


def weight(*shape):
    return torch.nn.Parameter(torch.randn(shape) * math.sqrt(2 / math.prod(shape[1:])))


class Path(torch.nn.Module):
    """One combination: 1 x 1, depthwise, 1 x 1."""

    def __init__(self, inputs, out, stride, kernel, expansion, bits):
        super().__init__()
        inner = inputs * expansion
        self.stride, self.bits = stride, bits
        self.expand, self.depthwise = weight(inner, inputs, 1, 1), weight(inner, 1, kernel, kernel)
        self.project = weight(out, inner, 1, 1)
        self.norms = torch.nn.ModuleList([RangeNorm(inner), RangeNorm(inner), RangeNorm(out)])

    def forward(self, x):
        b1, b2 = self.bits
        y = F.relu6(self.norms[0](F.conv2d(rounded(x, b1), rounded(self.expand, b1))))
        kernel = rounded(self.depthwise, b2)
        y = F.conv2d(rounded(y, b2), kernel, None, self.stride, kernel.shape[-1] // 2, 1, y.shape[1])
        y = F.relu6(self.norms[1](y))
        return self.norms[2](F.conv2d(rounded(y, b1), rounded(self.project, b1)))


class NaiveBlock(torch.nn.Module):
    """All combinations of a block beside each other."""

    def __init__(self, inputs, out, stride):
        super().__init__()
        self.can_skip = stride == 1 and inputs == out
        self.choices = list(itertools.product(*(range(len(own)) for own in (KERNELS, EXPANSIONS, BITS, BITS))))
        paths = [Path(inputs, out, stride, KERNELS[k], EXPANSIONS[e], (BITS[a], BITS[b])) for k, e, a, b in self.choices]
        self.paths = torch.nn.ModuleList(paths)

    def forward(self, x, shares):
        kernels, expansions, first, second, stay = shares
        total = None
        for (k, e, a, b), path in zip(self.choices, self.paths):
            own = path(x) * (kernels[k] * expansions[e] * first[a] * second[b])
            total = own if total is None else total + own
        return x + total * stay[0] if self.can_skip else total


class FactorisedBlock(torch.nn.Module):
    """One path, in which choices are mixed where they enter."""

    def __init__(self, inputs, out, stride):
        super().__init__()
        self.can_skip, self.stride = stride == 1 and inputs == out, stride
        inner, largest = inputs * EXPANSIONS[-1], KERNELS[-1]
        self.expand, self.depthwise = weight(inner, inputs, 1, 1), weight(inner, 1, largest, largest)
        self.project = weight(out, inner, 1, 1)
        self.norms = torch.nn.ModuleList([RangeNorm(inner), RangeNorm(inner), RangeNorm(out)])
        alive = torch.zeros(len(EXPANSIONS), inner)
        for at, expansion in enumerate(EXPANSIONS):
            alive[at, : inputs * expansion] = 1
        centres = torch.zeros(len(KERNELS), 1, 1, largest, largest)
        for at, kernel in enumerate(KERNELS):
            edge = (largest - kernel) // 2
            centres[at, :, :, edge : largest - edge, edge : largest - edge] = 1
        self.register_buffer("alive", alive)
        self.register_buffer("centres", centres)

    def of_bits(self, x, shares, by=None):
        by = magnitudes(x) if by is None else by
        return mixed(shares, (rounded(x, bits, by) for bits in BITS))

    def of_channels(self, x, expansions):
        """Magnitudes of images whose channels count by the shares of the expansions that have them."""
        with torch.no_grad():
            counted = x.abs().amax((2, 3)) * (expansions.view(-1, 1) * self.alive).sum(0)
            return counted.amax(1).view(-1, 1, 1, 1)

    def forward(self, x, shares):
        kernels, expansions, first, second, stay = shares
        y = F.relu6(self.norms[0](F.conv2d(self.of_bits(x, first), self.of_bits(self.expand, first))))
        kernel = mixed(kernels, (self.of_bits(self.depthwise * own, second) for own in self.centres))
        y = self.of_bits(y, second, self.of_channels(y, expansions))
        y = F.conv2d(y, kernel, None, self.stride, kernel.shape[-1] // 2, 1, y.shape[1])
        y = F.relu6(self.norms[1](y))
        back = mixed(expansions, (self.of_bits(self.project * own.view(1, -1, 1, 1), first) for own in self.alive))
        y = self.norms[2](F.conv2d(self.of_bits(y, first, self.of_channels(y, expansions)), back))
        return x + y * stay[0] if self.can_skip else y


class Supernet(torch.nn.Module):
    """The supernet, and the numbers of possibilities of its choices."""

    def __init__(self, block, width, depth, classes):
        super().__init__()
        channels = lambda own: max(1, math.floor(own * width / 4 + 0.5)) * 4
        inputs = channels(32)
        self.stem, self.stem_norm = weight(inputs, 3, 3, 3), RangeNorm(inputs)
        self.blocks = torch.nn.ModuleList()
        for out, stride, count in ROWS:
            for number in range(min(count, depth)):
                self.blocks.append(block(inputs, channels(out), stride if number == 0 else 1))
                inputs = channels(out)
        last = channels(1280)
        self.last, self.last_norm = weight(last, inputs, 1, 1), RangeNorm(last)
        self.classifier = weight(classes, last)
        self.bias = torch.nn.Parameter(torch.zeros(classes))
        self.counts = [len(KERNELS), len(EXPANSIONS), len(BITS), len(BITS), 2]

    def forward(self, x, shares):
        x = F.relu6(self.stem_norm(F.conv2d(rounded(x, ENDS), rounded(self.stem, ENDS), None, 1, 1)))
        for block, own in zip(self.blocks, shares.split(sum(self.counts))):
            x = block(x, [part.softmax(0) for part in own.split(self.counts)])
        x = F.relu6(self.last_norm(F.conv2d(rounded(x, ENDS), rounded(self.last, ENDS))))
        return F.linear(rounded(x.mean((2, 3)), ENDS), rounded(self.classifier, ENDS), self.bias)


def most_resident():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--supernet", choices=("factorised", "naive"), required=True)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--size", type=int, default=16)
    parser.add_argument("--width", type=float, default=0.25)
    parser.add_argument("--depth", type=int, default=1)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    imported = most_resident()
    block = {"factorised": FactorisedBlock, "naive": NaiveBlock}[args.supernet]
    net = Supernet(block, args.width, args.depth, args.classes)
    logits = torch.zeros(len(net.blocks) * sum(net.counts), requires_grad=True)
    params = list(net.parameters())
    weights = torch.optim.SGD(params, 0.1, 0.9, weight_decay=4e-5)
    architecture = torch.optim.Adam([logits], 0.01, weight_decay=5e-4)
    forward = torch.compile(net) if args.compile else net
    images = torch.randn(args.batch, 3, args.size, args.size)
    labels = torch.arange(args.batch) % args.classes

    def loss():
        noise = -torch.log(-torch.log(torch.rand_like(logits).clamp_(1e-9, 1 - 1e-7)))
        return F.cross_entropy(forward(images, (logits + noise) / 5), labels)

    def update_weights():
        for param, gradient in zip(params, torch.autograd.grad(loss(), params)):
            param.grad = gradient.clamp_(-5, 5)
        weights.step()

    def update_architecture():
        for param in params:
            param.requires_grad_(False)
        (logits.grad,) = torch.autograd.grad(loss(), [logits])
        architecture.step()
        for param in params:
            param.requires_grad_(True)

    result = {"torch": torch.__version__, "imported": imported}
    for name, update in (("weights", update_weights), ("architecture", update_architecture)):
        update()
        times = []
        for _ in range(args.steps):
            begun = time.perf_counter()
            update()
            times.append(1e3 * (time.perf_counter() - begun))
        result[name] = times
        result[f"{name}_peak"] = most_resident()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
