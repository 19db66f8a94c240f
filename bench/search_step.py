#!/usr/bin/env python3
"""Writes docs/results/search_step.md: time and memory of a step of a search, beside PyTorch.

    python3 bench/search_step.py [--rounds 3] [--batch 32] [--size 16] [--width 0.25] [--depth 1] [--lessen FILE]
                                 [--compile] [--write PAGE]

In a round `lessen search` and each side of bench/torch_search.py run in turn, each in a process of its own, and every other
round in the opposite order: the same factorised supernet in PyTorch, and the naive one with all combinations of a block
alive. Space, width, batch, norms, rounding and optimizers are the same; images are random. Lessen's steps are timed as whole
epochs over their number of steps, so that they count the making of batches: in the first epochs weights alone are trained, in
the others both are, and the difference is a step of the architecture. Memory is the most that the whole process had resident,
as the system tells it at the process's end; PyTorch's without its imports is beside. $PYTHON runs PyTorch's side, or else the
Python that runs this file.
"""

import argparse
import datetime
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

import step

# Steps of an epoch, epochs that train weights alone, and epochs in all; the first of each are not counted.
STEPS, FROZEN, EPOCHS = 4, 4, 8
CLASSES = 8
LESSEN = "Lessen"
REQUIRED_TIME, REQUIRED_MEMORY = 0.5, 0.25


def write_images(folder, batch):
    """Random images as files of CIFAR-10: as many for the weights as for the architecture, in classes of one size."""
    generator = random.Random(1)
    os.makedirs(folder)
    for name, count in (("train_10k.bin", 2 * STEPS * batch), ("test_2k.bin", batch)):
        with open(os.path.join(folder, name), "wb") as file:
            for number in range(count):
                file.write(bytes([number % CLASSES]) + generator.randbytes(3072))
    with open(os.path.join(folder, "classes.txt"), "w", encoding="utf-8") as file:
        file.writelines(f"class {number}\n" for number in range(CLASSES))



def most_resident(process):
    """The most bytes that a running process has had resident."""
    with open(f"/proc/{process.pid}/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM"))


def resident(command, environment, limit):
    """Standard output of a command, and the most bytes that it had resident; no output where it takes over `limit` s."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as told:
        process = subprocess.Popen(command, stdout=out, stderr=told, env=environment, cwd=step.ROOT, text=True)
        end = time.monotonic() + limit
        while True:
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
            if ended:
                break
            if time.monotonic() > end:
                peak = most_resident(process)
                process.kill()
                process.wait()
                return None, peak
            time.sleep(0.1)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            told.seek(0)
            sys.exit(f"search_step: {command[:3]} ended with {process.returncode}: {told.read()[-600:]}")
        out.seek(0)
        return out.read(), usage.ru_maxrss << 10


def measure_lessen(args, data, folder, environment):
    """Milliseconds of a step of the weights and of the architecture, by epoch, and the peak."""
    keys = {"batch": args.batch, "width": args.width, "depth": args.depth, "validation": 0.5, "epochs": EPOCHS}
    keys |= {"frozen_epochs": FROZEN, "checkpoint_minutes": 0}
    out = os.path.join(folder, f"search-{len(os.listdir(folder))}")
    command = [args.lessen, "search", "cifar10", "--data", data, "--out", out, "--threads", str(args.threads), "--json"]
    command += [part for name, value in keys.items() for part in ("--set", f"search.{name}={value}")]
    command += ["--set", f"image.size={args.size}"]
    _, peak = resident(command, environment, math.inf)
    with open(os.path.join(out, "metrics.jsonl"), encoding="utf-8") as file:
        epochs = [json.loads(line)["epoch_ms"] / STEPS for line in file]
    alone, both = epochs[1:FROZEN], epochs[FROZEN + 1 :]
    return {"weights": alone, "architecture": [own - statistics.median(alone) for own in both], "peak": peak}


def measure_torch(args, side, environment):
    command = [args.python, os.path.join(step.HERE, "torch_search.py"), "--supernet", side.split()[0]]
    for name in ("batch", "size", "width", "depth", "threads", "steps"):
        command += [f"--{name}", str(getattr(args, name))]
    command += ["--classes", str(CLASSES)] + (["--compile"] if "compiled" in side else [])
    out, peak = resident(command, environment, args.limit)
    return {**json.loads(out), "peak": peak} if out else {"peak": peak}


def measure(args, sides):
    environment = dict(os.environ, OMP_NUM_THREADS=str(args.threads))
    results = {side: [] for side in sides}
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "data")
        write_images(data, args.batch)
        for number in range(args.rounds):
            for side in sides if number % 2 == 0 else sides[::-1]:
                print(f"round {number + 1} of {args.rounds}: {side} ...", file=sys.stderr, flush=True)
                if side == LESSEN:
                    found = measure_lessen(args, data, folder, environment)
                else:
                    found = measure_torch(args, side, environment)
                found["load"] = os.getloadavg()[0]
                results[side].append(found)
    return results


def all_times(rounds, which):
    return [value for found in rounds for value in found.get(which, [])]


def mib(values):
    return step.spread([value / 2**20 for value in values], 0)


def page(args, results, load):
    lines = [
        "# A step of a search, beside PyTorch",
        "",
        "Time and memory of one update of the weights and one of the architecture of a supernet for architecture and precision: "
        "Lessen's, the same factorised one in PyTorch, and in PyTorch the naive one whose 144 combinations of a block are all "
        "alive.",
        "",
        "```",
        f"python3 bench/search_step.py --rounds {args.rounds} --batch {args.batch} --steps {args.steps} --limit {args.limit:g} "
        "--write docs/results/search_step.md",
        "```",
        "",
        f"- {datetime.date.today()}, {step.machine()}, {args.threads} threads",
        f"- The rows of table 2.10 in the CIFAR form with {args.width} of the channels and {args.depth} block of each at most; "
        f"random images of {args.size} x {args.size}, batches of {args.batch}, f32; one sample of the Gumbel softmax, alternating "
        "updates, norms by the range of the batch",
        f"- {args.rounds} rounds; milliseconds are the median of all steps, of Lessen of all epochs of {STEPS} steps, and in "
        "brackets the least and the most; memory is the most that a process had resident, over the rounds",
        "- Loads of the machine at the end of each measurement: "
        + ", ".join(f"{side} " + "/".join(f"{found['load']:.1f}" for found in rounds) for side, rounds in results.items())
        + f"; before all of them {load:.1f}. "
        + ("Other work ran beside all sides." if load > 0.5 else "Nothing else ran."),
        f"- PyTorch {next(found['torch'] for rounds in results.values() for found in rounds if 'torch' in found)}; its "
        "rounding is a function of its own whose derivative keeps nothing",
        "",
        "| side | weights, ms | architecture, ms | resident, MiB | without imports, MiB |",
        "|---|---|---|---|---|",
    ]
    for side, rounds in results.items():
        own = [found["peak"] - found["imported"] for found in rounds if "imported" in found]
        imports = mib(own) if own else "–"
        times = [all_times(rounds, which) for which in ("weights", "architecture")]
        cells = [step.spread(values, 1) if values else f"not within {args.limit:.0f} s of a process" for values in times]
        lines.append(f"| {side} | {' | '.join(cells)} | {mib([found['peak'] for found in rounds])} | {imports} |")
    lines += ["", f"| Lessen over | architecture | weights | memory | asked: at most {REQUIRED_TIME} and {REQUIRED_MEMORY} |"]
    lines.append("|---|---|---|---|---|")
    own = results[LESSEN]
    for side, rounds in results.items():
        if side == LESSEN:
            continue
        ratios = {}
        for which in ("architecture", "weights"):
            pairs = [(a[which], b[which]) for a, b in zip(own, rounds) if which in b]
            ratios[which] = [statistics.median(a) / statistics.median(b) for a, b in pairs]
        ratios["memory"] = [a["peak"] / b["peak"] for a, b in zip(own, rounds)]
        timed = ratios["architecture"]
        speed = "not timed" if not timed else "met" if statistics.median(timed) <= REQUIRED_TIME else "missed"
        memory = "met" if statistics.median(ratios["memory"]) <= REQUIRED_MEMORY else "missed"
        cells = [step.spread(values, 2 if statistics.median(values) >= 0.1 else 4) if values else "–" for values in ratios.values()]
        lines.append(f"| {side} | " + " | ".join(cells) + f" | time {speed}, memory {memory} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--size", type=int, default=16)
    parser.add_argument("--width", type=float, default=0.25)
    parser.add_argument("--depth", type=int, default=1)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--compile", action="store_true", help="also the factorised one under torch.compile")
    parser.add_argument("--limit", type=float, default=600, metavar="S", help="most seconds of a process of PyTorch")
    parser.add_argument("--lessen", help="the program; built in release where it is left out")
    parser.add_argument("--python", default=os.environ.get("PYTHON", sys.executable))
    parser.add_argument("--write", metavar="PAGE")
    args = parser.parse_args()
    load = step.load_before("search_step")
    if args.lessen is None:
        args.lessen = step.build_lessen()
    sides = [LESSEN, "factorised PyTorch", "naive PyTorch"]
    if args.compile:
        sides.insert(2, "factorised PyTorch, compiled")
    text = page(args, measure(args, sides), load)
    if args.write:
        step.write_aside(args.write, text)
    print(text)


if __name__ == "__main__":
    main()
