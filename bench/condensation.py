#!/usr/bin/env python3
"""Dataset condensation: an outer iteration of Lessen beside PyTorch on the same cores.

    python3 bench/condensation.py [--modes eager,compile,…] [--precision f32,bf16] [--rounds 3] [--write FILE]

Builds lessen in release, then measures in rounds: within a round `lessen bench condense` and every mode of
bench/torch_condense.py run in turn, each in a process of its own, and every other round in the opposite order. Both
match the gradients of ConvNet-3 (multi-level, d1 + d2) for 256 real images and 10 synthetic ones of each of 10 classes,
32 x 32 pixels with three channels. An outer iteration is 10 updates of the images and, between them, 450 epochs of the
network by the fixed schedule or 190 by the adaptive one; its time is put together from the measured update and epoch,
and --outer measures whole ones, too, of Lessen and of PyTorch's fastest mode. A ratio is taken within each round;
PyTorch's side of a precision is its fastest mode there: in bf16 of those that begin with bfloat16, in f32 of all
others.

PyTorch is run by $PYTHON or, where that is not set, by the Python that runs this file. The table goes to stdout;
--write also writes it as Markdown.
"""

import argparse
import datetime
import json
import os
import statistics
import sys

import step

HERE = os.path.dirname(os.path.abspath(__file__))
MODES = "eager,eager_last,compile,compile_last,bfloat16,bfloat16_last,bfloat16_compile,bfloat16_compile_last"
# Updates of the images in an outer iteration for ten images of a class, and epochs of the network by schedule.
UPDATES = 10
EPOCHS = {"fixed": 450, "adaptive": 190}
# `lessen bench condense` names the fixed schedule by its epochs between two updates.
WORDS = {"fixed": "50", "adaptive": "adaptive"}
REQUIRED_TIME, REQUIRED_MEMORY = 0.5, 0.4
MIB = 1 << 20


def measure_lessen(args, precision, outer=""):
    command = [args.lessen, "bench", "condense", "--precision", precision, "--json", *sizes(args)]
    command += ["--updates", str(args.updates), "--epochs", str(args.epochs)]
    if outer:
        command += ["--outer", ",".join(WORDS[schedule] for schedule in outer.split(","))]
    if args.budget:
        command += ["--budget", args.budget]
    environment = dict(os.environ, LESSEN_THREADS=str(args.threads))
    got = json.loads(step.output_of(command, "lessen bench condense", environment))
    got["outer_s"] = {name: got["outer_s"][word] for name, word in WORDS.items() if word in got["outer_s"]}
    return got


def measure_torch(args, mode, outer=""):
    command = [args.python, os.path.join(HERE, "torch_condense.py"), "--modes", mode, *sizes(args)]
    command += ["--updates", str(args.updates), "--epochs", str(args.epochs), "--threads", str(args.threads)]
    if outer:
        command += ["--outer", outer]
    got = json.loads(step.output_of(command, "bench/torch_condense.py"))
    return got["modes"][mode]


def sizes(args):
    given = {"classes": args.classes, "per-class": args.per_class, "real": args.real, "side": args.side}
    return [word for name, value in given.items() for word in (f"--{name}", str(value))]


def measure(args, precisions, modes):
    """{side: [one result per round]}; the sides are precisions of Lessen and modes of PyTorch."""
    results = {side: [] for side in [*precisions, *modes]}
    for round_ in range(args.rounds):
        sides = list(results)
        for side in sides if round_ % 2 == 0 else reversed(sides):
            print(f"round {round_ + 1} of {args.rounds}, {side} ...", file=sys.stderr, flush=True)
            if side in precisions:
                got = measure_lessen(args, side)
            elif not step.does_run(results[side]):
                # It would take as long to fail again.
                got = results[side][0]
            else:
                got = measure_torch(args, side)
            results[side].append(got)
    return results


def outer_seconds(result, schedule):
    """An outer iteration, put together from its parts."""
    return (UPDATES * result["update_ms"] + EPOCHS[schedule] * result["epoch_ms"]) / 1e3


def fastest(results, modes, precision):
    """The modes of PyTorch that run in a precision, the one with the shortest fixed outer iteration first."""
    own = [mode for mode in step.modes_in(precision, modes) if step.does_run(results[mode])]
    key = lambda mode: statistics.median(outer_seconds(result, "fixed") for result in results[mode])
    return sorted(own, key=key)


def reference_flop(args):
    """Two forward and backward passes of ConvNet-3 over the real images of an update: products and convolutions."""
    width, side, inputs, flop = 128, args.side, 3, 0
    for block in range(3):
        forward = 2 * side * side * width * inputs * 9
        # The derivative by the images themselves is not needed.
        flop += (2 if block == 0 else 3) * forward
        inputs, side = width, side // 2
    flop += 3 * 2 * width * side * side * args.classes
    return 2 * args.classes * args.real * flop


def quotients(ours, theirs, of):
    return [of(a) / of(b) for a, b in zip(ours, theirs)]


def rows(args, results, modes, precision):
    """The lines about one precision: name, value, whether the requirement is met."""
    ours, ran = results[precision], fastest(results, modes, precision)
    name, lines = f"Lessen {precision}", []
    parts = {
        "update of the images, ms": lambda r: r["update_ms"],
        "epoch of the network, ms": lambda r: r["epoch_ms"],
        "outer iteration, fixed, s": lambda r: outer_seconds(r, "fixed"),
        "outer iteration, adaptive, s": lambda r: outer_seconds(r, "adaptive"),
    }
    for what, of in parts.items():
        digits = 1 if what.endswith("s") else 0
        lines.append((f"{name}: {what}", step.spread([of(r) for r in ours], digits), ""))
        for mode in ran[:1]:
            theirs = results[mode]
            lines.append((f"PyTorch {mode}: {what}", step.spread([of(r) for r in theirs], digits), ""))
            ratios = quotients(ours, theirs, of)
            middle = statistics.median(ratios)
            needs = step.verdict(middle, REQUIRED_TIME, ".2f") if what.startswith("outer") else ""
            lines.append((f"Lessen / PyTorch: {what.rsplit(',', 1)[0]}", step.spread(ratios, 3), needs))
    for key, what, limit in (
        ("peak_bytes", "highest resident size", REQUIRED_MEMORY),
        ("peak_growth_bytes", "growth of the resident size", None),
    ):
        lines.append((f"{name}: {what}, MiB", step.spread([r[key] / MIB for r in ours], 0), ""))
        for mode in ran[:1]:
            theirs = [r[key] / MIB for r in results[mode]]
            lines.append((f"PyTorch {mode}: {what}, MiB", step.spread(theirs, 0), ""))
            ratios = quotients(ours, results[mode], lambda r: r[key])
            needs = step.verdict(statistics.median(ratios), limit, ".2f") if limit else ""
            lines.append((f"Lessen / PyTorch: {what}", step.spread(ratios, 3), needs))
    planned, measured = ours[-1]["planned_peak_bytes"], ours[-1]["measured_peak_bytes"]
    same = f"{'yes' if planned == measured else 'NO'} (as planned)"
    lines.append((f"{name}: states, constants, results and arena, planned, MiB", step.mib(planned), ""))
    lines.append((f"{name}: the same, measured, MiB", step.mib(measured), same))
    flop = reference_flop(args)
    peaks = step.spread(step.column(ours, "peak_gflops"), 0)
    lines.append((f"{name}: machine's peak GFLOP/s in f32, same run", peaks, ""))
    passes = [flop / r["peak_gflops"] / 1e6 for r in ours]
    images = args.classes * args.real
    lines.append((f"two passes over {images:,} images at the peak, ms", step.spread(passes, 0), ""))
    shares = [100 * ms / r["update_ms"] for ms, r in zip(passes, ours)]
    lines.append((f"{name}: these / update of the images", step.spread(shares, 0) + " %", ""))
    for mode in ran[:1]:
        shares = [100 * ms / r["update_ms"] for ms, r in zip(passes, results[mode])]
        lines.append((f"PyTorch {mode}: these / update of the images", step.spread(shares, 0) + " %", ""))
    return lines


def all_modes(results, modes):
    """A line for each side."""
    lines = []
    for side, found in results.items():
        if side in modes and not step.does_run(found):
            lines.append((f"PyTorch {side}", step.failure(found), "", "", "", ""))
            continue
        values = [
            step.spread(step.column(found, "update_ms"), 0),
            step.spread(step.column(found, "epoch_ms"), 1),
            step.spread([outer_seconds(r, "fixed") for r in found], 1),
            step.spread([r["peak_bytes"] / MIB for r in found], 0),
            step.spread([r["running_peak_bytes"] / MIB for r in found], 0) if side in modes else "",
        ]
        lines.append((f"PyTorch {side}" if side in modes else f"Lessen {side}", *values))
    return lines


def whole_outer(args, results, precisions, modes):
    """Whole outer iterations of Lessen and of PyTorch's fastest mode: side, schedule, measured and composed seconds."""
    lines = []
    for precision in precisions:
        for side in [precision, *fastest(results, modes, precision)[:1]]:
            print(f"whole outer iterations, {side} ...", file=sys.stderr, flush=True)
            take = measure_lessen if side == precision else measure_torch
            got = take(args, side, args.outer)
            name = f"{'Lessen' if side == precision else 'PyTorch'} {side}"
            for schedule, seconds in got["outer_s"].items():
                lines.append((name, schedule, f"{seconds:.1f}", f"{outer_seconds(got, schedule):.1f}"))
    return lines


def table(heading, lines):
    text = ["| " + " | ".join(heading) + " |", "|---" * len(heading) + "|"]
    return text + ["| " + " | ".join(line) + " |" for line in lines]


def markdown(args, results, precisions, modes, whole, load):
    command = f"python3 bench/condensation.py --modes {','.join(modes)} --precision {','.join(precisions)}"
    command += f" --rounds {args.rounds} --updates {args.updates} --epochs {args.epochs} --threads {args.threads}"
    if args.outer:
        command += f" --outer {args.outer}"
    text = [
        "# Condensing a dataset: Lessen and PyTorch",
        "",
        "Written by `bench/condensation.py`, which anyone can run again:",
        "",
        "```",
        command,
        "```",
        "",
        f"- Date: {datetime.date.today().isoformat()}",
        f"- Machine: {step.machine()}; load before the first round {load:.2f}",
        f"- Versions: {step.versions(args.python)}",
        f"- Both sides: {args.threads} threads; ConvNet-3 of width 128 with instance normalization, {args.classes}"
        f" classes, {args.real} real and {args.per_class} synthetic images of a class, {args.side} x {args.side} x 3,"
        " random; multi-level gradients, d1 + d2, SGD with momentum for images and network",
        f"- {args.rounds} round(s) in which the sides take turns, each run in a process of its own; a run's time is the"
        f" median of {args.updates} updates and {args.epochs} epochs after warming up, a figure the median over the"
        " rounds, with the smallest and largest in brackets; a ratio is taken within each round",
        "- An outer iteration is 10 updates of the images and 450 epochs of the network (fixed) or 190 (adaptive), put"
        " together from the measured times of both",
        "- PyTorch differentiates with `torch.autograd.grad(create_graph=True)` in eager modes; compiled modes have"
        " `torch.compile` around the gradient of a class by `torch.func.grad`, around the distance and around the"
        " network. `_last` is channels-last, bf16 is autocast",
        "- The highest resident size is that of the whole process, PyTorch's with its imports and, where it compiles,"
        " with what compiling takes in the process; the growth leaves out what the imports take",
        "- The reference point is the time of two forward and backward passes over the real images of an update at the"
        " machine's measured peak of products in f32",
    ]
    head = len(text)
    for precision in precisions:
        text += ["", f"## {precision}", ""]
        text += table(("", "", "required"), rows(args, results, modes, precision))
    text += ["", "## All modes", ""]
    heading = ("", "update, ms", "epoch, ms", "outer, fixed, s", "peak MiB", "peak MiB after the first update")
    text += table(heading, all_modes(results, modes))
    if whole:
        text += ["", "## Whole outer iterations, measured once", ""]
        text += table(("", "schedule", "measured, s", "from its parts, s"), whole)
    text.insert(head, step.missed(text))
    return "\n".join(text) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--modes", default=MODES, help="those of bench/torch_condense.py")
    parser.add_argument("--precision", default="f32,bf16", help="of f32, bf16")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=3, help="timed updates of the images per run")
    parser.add_argument("--epochs", type=int, default=10, help="timed epochs of the network per run")
    parser.add_argument("--outer", default="", help="schedules of whole outer iterations: fixed, adaptive")
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--per-class", type=int, default=10)
    parser.add_argument("--real", type=int, default=256)
    parser.add_argument("--side", type=int, default=32)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--budget", help="most memory of Lessen: 512MiB")
    parser.add_argument("--lessen", help="use this lessen and build none")
    parser.add_argument("--write", metavar="FILE", help="also write the results as Markdown")
    args = parser.parse_args()
    modes, precisions = args.modes.split(","), args.precision.split(",")
    for word, known, what in [(m, MODES.split(","), "mode") for m in modes] + [
        (p, ["f32", "bf16"], "precision") for p in precisions
    ]:
        if word not in known:
            sys.exit(f"condensation: there is no {what} {word!r}; take from {', '.join(known)}")
    if min(args.rounds, args.updates, args.epochs) < 1:
        sys.exit("condensation: --rounds, --updates and --epochs must be at least 1")
    args.python = os.environ.get("PYTHON", sys.executable)
    load = step.load_before("condensation")
    args.lessen = os.path.abspath(args.lessen) if args.lessen else step.build_lessen()

    results = measure(args, precisions, modes)
    whole = whole_outer(args, results, precisions, modes) if args.outer else []
    page = markdown(args, results, precisions, modes, whole, load)
    print(page)
    if args.write:
        step.write_aside(args.write, page)


if __name__ == "__main__":
    main()
