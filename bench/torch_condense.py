#!/usr/bin/env python3
"""Times dataset condensation by gradient matching in PyTorch: the other side of `lessen bench condense`.

    python3 bench/torch_condense.py [--modes eager,compile,…] [--updates N] [--epochs N] [--outer fixed,adaptive]

Each mode runs in a fresh process, on random images: ConvNet-3 with instance normalization, multi-level gradients with
the distance d1 + d2, SGD with momentum. An update of the images takes the gradients of real and synthetic images class
by class, sums the distances, differentiates them by the images and moves these; an epoch of the network is SGD over the
synthetic images. `eager` differentiates with torch.autograd.grad(create_graph=True), as the published code does;
`compile` has torch.compile around the gradient of a class, written with torch.func.grad since compiled functions have
no second derivative otherwise, around the distance and around the network. With `bfloat16` the forward passes run under
autocast, with `_last` at its end a mode has images and weights in the order channels-last.

The first update and epoch, which in `compile` include compiling, are reported apart. Peak is the process's highest
resident size (VmHWM), peak growth the same less its resident size after the imports, and running peak the highest
resident size after the first update and epoch. A mode that fails is reported with the first line of its error. --outer
also times whole outer iterations.

A table goes to stderr, one JSON object to stdout.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from torch_step import listed, measure_or_reason, status_bytes

MODES = tuple(
    kind + order
    for kind in ("eager", "compile", "bfloat16", "bfloat16_compile")
    for order in ("", "_last")
)
# Settings of Zhao, Mopuri and Bilen (2021), and the update's rates.
IMAGE_RATE, NETWORK_RATE, MOMENTUM, BATCH = 0.1, 0.01, 0.5, 256


def reset_peak():
    """Sets the high-water mark back to what is resident now."""
    try:
        with open("/proc/self/clear_refs", "w") as refs:
            refs.write("5")
    except OSError:
        pass


def epochs_after(update, schedule):
    """Epochs of the network after an update of the images, for ten images of a class."""
    if schedule == "fixed":
        return 50
    return 50 - 10 * update if update < 4 else 10 if update < 10 else 5


class Condensation:
    """Synthetic and real images, a network, and the updates of both."""

    def __init__(self, mode, classes, per_class, real, side):
        import torch

        from torch_images import ConvNet3

        self.torch = torch
        torch.manual_seed(1)
        kind, is_last = mode.removesuffix("_last"), mode.endswith("_last")
        self.format = torch.channels_last if is_last else torch.contiguous_format
        self.classes, self.per_class, self.real_count = classes, per_class, real
        images = lambda count: torch.randn(count, 3, side, side).contiguous(memory_format=self.format)
        self.real = [images(real) for _ in range(classes)]
        self.images = images(classes * per_class).requires_grad_()
        self.labels = torch.arange(classes).repeat_interleave(per_class)
        self.image_optimizer = torch.optim.SGD([self.images], lr=IMAGE_RATE, momentum=MOMENTUM)
        self.make = lambda: ConvNet3(classes=classes, side=side).to(memory_format=self.format)
        self.network = self.make()
        self.autocast = lambda: torch.autocast("cpu", torch.bfloat16, enabled=kind.startswith("bfloat16"))
        self.distance, self.trained = distance, self.network
        self.gradients = self.eager_gradients
        if "compile" in kind:
            # The gradient is compiled for batches of real and of synthetic images.
            self.functional = torch.compile(self.functional_gradients, dynamic=False)
            self.gradients = self.compiled_gradients
            self.distance, self.trained = torch.compile(distance), torch.compile(self.network)
        self.begin()

    def begin(self):
        """Draws a new network; compiled functions stay."""
        with self.torch.no_grad():
            for own, new in zip(self.network.parameters(), self.make().parameters()):
                own.copy_(new)
        self.network_optimizer = self.torch.optim.SGD(
            self.network.parameters(), lr=NETWORK_RATE, momentum=MOMENTUM
        )

    def loss(self, network, images, labels):
        with self.autocast():
            return self.torch.nn.functional.cross_entropy(network(images), labels)

    def eager_gradients(self, images, labels, create_graph):
        weights = [p for p in self.network.parameters() if p.dim() > 1]
        return self.torch.autograd.grad(
            self.loss(self.network, images, labels), weights, create_graph=create_graph
        )

    def functional_gradients(self, weights, others, images, labels):
        def loss(weights):
            call = lambda x: self.torch.func.functional_call(self.network, {**weights, **others}, (x,))
            return self.loss(call, images, labels)

        return self.torch.func.grad(loss)(weights)

    def compiled_gradients(self, images, labels, create_graph):
        named = {name: p.detach() for name, p in self.network.named_parameters()}
        weights = {name: p for name, p in named.items() if p.dim() > 1}
        others = {name: p for name, p in named.items() if p.dim() <= 1}
        with self.torch.set_grad_enabled(create_graph):
            return list(self.functional(weights, others, images, labels).values())

    def update_images(self):
        """One update: multi-level gradients of real images that are drawn anew."""
        torch, total, sums = self.torch, 0.0, None
        own = self.images.split(self.per_class)
        for c in range(self.classes):
            chosen = self.real[c][torch.randperm(self.real_count)].contiguous(memory_format=self.format)
            real = self.gradients(chosen, torch.full((self.real_count,), c), False)
            synthetic = self.gradients(own[c], torch.full((self.per_class,), c), True)
            real = [g.detach() for g in real]
            total = total + self.distance(synthetic, real)
            pair = (synthetic, real)
            sums = pair if sums is None else [[a + b for a, b in zip(*both)] for both in zip(sums, pair)]
        means = [[g / self.classes for g in side] for side in sums]
        total = total + self.classes * self.distance(*means)
        self.image_optimizer.zero_grad()
        total.backward()
        self.image_optimizer.step()
        return total.item()

    def epoch(self):
        order = self.torch.randperm(len(self.labels))
        for chosen in order.split(BATCH):
            images = self.images.detach()[chosen].contiguous(memory_format=self.format)
            loss = self.loss(self.trained, images, self.labels[chosen])
            self.network_optimizer.zero_grad()
            loss.backward()
            self.network_optimizer.step()
        return loss.item()

    def outer(self, schedule, updates):
        """A whole outer iteration."""
        self.begin()
        for update in range(updates):
            self.update_images()
            for _ in range(epochs_after(update, schedule) if update + 1 < updates else 0):
                self.epoch()


def distance(synthetic, real):
    """d1 + d2 over the rows of all layers."""
    total = 0.0
    for a, b in zip(synthetic, real):
        a, b = a.flatten(1), b.flatten(1)
        cosines = (a * b).sum(1) / (a.norm(dim=1) * b.norm(dim=1) + 1e-6)
        total = total + (1 - cosines + (a - b).norm(dim=1)).sum()
    return total


def seconds(run):
    begin = time.perf_counter()
    value = run()
    return time.perf_counter() - begin, value


def measure(mode, args):
    """One mode, in this process, which must be fresh."""
    import torch

    import torch_images  # noqa: F401

    torch.set_num_threads(args.threads)
    reset_peak()
    after_import = status_bytes("VmRSS")
    own = Condensation(mode, args.classes, args.per_class, args.real, args.side)
    first_update, first_distance = seconds(own.update_images)
    first_epoch, first_loss = seconds(own.epoch)
    seconds(own.update_images), seconds(own.epoch)
    peak = status_bytes("VmHWM")
    reset_peak()
    updates = [seconds(own.update_images)[0] for _ in range(args.updates)]
    epochs = [seconds(own.epoch)[0] for _ in range(args.epochs)]
    outer = {schedule: seconds(lambda: own.outer(schedule, args.inner))[0] for schedule in args.outer}
    running = status_bytes("VmHWM")
    return {
        "update_ms": 1e3 * statistics.median(updates),
        "epoch_ms": 1e3 * statistics.median(epochs),
        "outer_s": outer,
        "first_update_s": first_update,
        "first_epoch_s": first_epoch,
        "peak_bytes": max(peak, running),
        "peak_growth_bytes": max(peak, running) - after_import,
        "running_peak_bytes": running,
        "first_distance": first_distance,
        "first_loss": first_loss,
    }


def measure_apart(mode, args):
    """`measure` in a fresh child process."""
    command = [sys.executable, os.path.abspath(__file__), "--child", "--modes", mode, "--outer", ",".join(args.outer)]
    for name in ("updates", "epochs", "inner", "classes", "per_class", "real", "side", "threads"):
        command += [f"--{name.replace('_', '-')}", str(getattr(args, name))]
    environment = dict(os.environ, OMP_NUM_THREADS=str(args.threads))
    with tempfile.TemporaryDirectory() as cache:
        # A cache of its own, so that torch.compile's first update compiles and does not reuse an earlier run.
        environment["TORCHINDUCTOR_CACHE_DIR"] = cache
        done = subprocess.run(command, stdout=subprocess.PIPE, env=environment)
    if done.returncode != 0:
        return {"does_not_run": f"its process ended with exit code {done.returncode}"}
    return json.loads(done.stdout.splitlines()[-1])


def shown(got):
    if "does_not_run" in got:
        return f"does not run: {got['does_not_run']}"
    times = f"{got['update_ms']:10.1f} {got['epoch_ms']:9.1f} {got['first_update_s']:8.1f}"
    return f"{times} {got['peak_bytes'] / 2**20:9.1f} {got['running_peak_bytes'] / 2**20:9.1f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--modes", default="eager,compile")
    parser.add_argument("--updates", type=int, default=3, help="timed updates of the images")
    parser.add_argument("--epochs", type=int, default=10, help="timed epochs of the network")
    parser.add_argument("--outer", default="", help="schedules of timed outer iterations: fixed, adaptive")
    parser.add_argument("--inner", type=int, default=10, help="updates of the images in an outer iteration")
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--per-class", type=int, default=10, help="synthetic images of a class")
    parser.add_argument("--real", type=int, default=256, help="real images of a class")
    parser.add_argument("--side", type=int, default=32, help="height and width of the images")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    modes = listed(args.modes, MODES, "mode")
    args.outer = listed(args.outer, ("fixed", "adaptive"), "schedule")
    if args.updates < 1 or args.epochs < 1:
        sys.exit("torch_condense: --updates and --epochs must be at least 1")

    if args.child:
        print(json.dumps(measure_or_reason(measure, modes[0], args)))
        return

    from importlib.metadata import version

    out = {"torch": version("torch"), "threads": args.threads, "modes": {}}
    print(f"PyTorch {out['torch']}, {args.threads} threads", file=sys.stderr)
    heading = f"{'mode':21} {'update ms':>10} {'epoch ms':>9} {'first s':>8} {'peak MiB':>9} {'running':>9}"
    print(heading, file=sys.stderr)
    for mode in modes:
        out["modes"][mode] = measure_apart(mode, args)
        print(f"{mode:21} {shown(out['modes'][mode])}", file=sys.stderr, flush=True)
    print(json.dumps(out))


if __name__ == "__main__":
    main()
