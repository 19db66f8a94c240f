#!/usr/bin/env python3
"""Steps of two processes that share a training: Lessen under MPI, and PyTorch's DDP over gloo.

    python3 bench/distributed.py [--processes 2] [--rounds 3] [--steps 40] [--mpiexec FILE] [--lessen FILE]
                                 [--write FILE]

A GPT of 4 layers x 256 on 128 characters, 8 examples and one thread for each process, f32, AdamW (fused in PyTorch),
the norm of the gradient clipped at 1. In each round both run in turn, every other round in the opposite order. Bytes
are those that one process sends for a step: Lessen's as its report counts them, DDP's at the interface lo, both without
the frames of the transport. PyTorch's side is run by $PYTHON or, where that is not set, by the Python that runs this
file.
Times mean something on an idle machine alone.
"""

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time

import step

LAYERS, WIDTH, HEADS, LENGTH, BATCH, VOCABULARY = 4, 256, 4, 128, 8, 67
WARMUP = 5


def sent_over_loopback():
    """Bytes and packets that were sent over lo so far."""
    with open("/proc/net/dev") as devices:
        own = next(line for line in devices if line.strip().startswith("lo:"))
    counts = own.split(":", 1)[1].split()
    return int(counts[8]), int(counts[9])


def ddp(steps):
    """PyTorch's side, in each process of torchrun; the first one prints."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    import torch_models

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    torch.manual_seed(1)
    gpt = torch_models.Gpt(VOCABULARY, LENGTH, WIDTH, LAYERS, HEADS)
    model = DistributedDataParallel(torch_models.start_small(gpt), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1, fused=True)
    torch.manual_seed(dist.get_rank())
    text = torch.randint(VOCABULARY, (BATCH, LENGTH + 1))
    tokens, labels = text[:, :-1].contiguous(), text[:, 1:].contiguous()
    times = []
    for number in range(WARMUP + steps):
        if number == WARMUP:
            dist.barrier()
            before = sent_over_loopback()
        begun = time.perf_counter()
        optimizer.zero_grad()
        model(tokens, labels).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        times.append((time.perf_counter() - begun) * 1e3)
    dist.barrier()
    after = sent_over_loopback()
    if dist.get_rank() == 0:
        # Frames of TCP over IP have 66 bytes beside what is sent.
        sent = after[0] - before[0] - 66 * (after[1] - before[1])
        parameters = sum(parameter.numel() for parameter in model.parameters())
        told = {"ms": statistics.median(times[WARMUP:]), "bytes": sent / steps / dist.get_world_size()}
        print(json.dumps({**told, "parameters": parameters}))
    dist.destroy_process_group()


def torch_side(args):
    python = os.environ.get("PYTHON", sys.executable)
    run = [python, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={args.processes}", __file__]
    told = step.output_of([*run, "--ddp", "--steps", str(args.steps)], "PyTorch's DDP")
    return json.loads(next(line for line in told.splitlines() if line.startswith("{")))


def lessen_side(args, lessen, place):
    text = os.path.join(place, "text.txt")
    symbols = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ."
    with open(text, "w") as file:
        file.write("".join(random.Random(1).choices(symbols, k=200_000)))
    out = tempfile.mkdtemp(dir=place)
    keys = {
        "model.layers": LAYERS,
        "model.width": WIDTH,
        "model.heads": HEADS,
        "model.ffn": 4 * WIDTH,
        "model.vocab": VOCABULARY,
        "data.max_length": LENGTH,
        "train.batch": BATCH * args.processes,
        "train.warmup": 0,
        "train.eval_every": 0,
        "train.checkpoint_every": 0,
        "train.clip_norm": 1.0,
    }
    run = [args.mpiexec, "-n", str(args.processes), lessen, "train", "shakespeare", f"--data={text}", "--threads=1"]
    run += [f"--steps={WARMUP + args.steps}", f"--out={out}/run", "--json", "--quiet"]
    report = json.loads(step.output_of(run + [f"--set={key}={value}" for key, value in keys.items()], "lessen train"))
    with open(os.path.join(out, "run", "metrics.jsonl")) as file:
        lines = [json.loads(line) for line in file]
    times = [line["step_ms"] for line in lines if "step_ms" in line and line["step"] > WARMUP]
    return {"ms": statistics.median(times), "bytes": report["sent_bytes"] / report["steps"]}


def shown(values, form):
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def markdown(rounds, args):
    command = f"python3 bench/distributed.py --processes {args.processes} --rounds {args.rounds} --steps {args.steps}"
    text = ["# Steps of several processes", "", "Written by `bench/distributed.py`, which anyone can run again:", ""]
    text += ["```", command, "```", "", f"- Machine: {step.machine()}"]
    text += [f"- {step.versions(os.environ.get('PYTHON', sys.executable))}"]
    text += [
        f"- GPT, {LAYERS} layers x {WIDTH}, {LENGTH} characters, {BATCH} examples and one thread for each of"
        f" {args.processes} processes, f32, AdamW, clipped at 1",
        f"- Medians of {args.rounds} rounds in turns, with the smallest and the largest",
        "",
        "| | Lessen under MPI | DDP over gloo | ratio |",
        "|---|---|---|---|",
    ]
    rows = [("step, ms", "ms", ",.1f", 1), ("sent by a process in a step, MiB", "bytes", ",.2f", 2**20)]
    for name, key, form, unit in rows:
        sides = [[each[side][key] / unit for each in rounds] for side in ("lessen", "ddp")]
        ratios = [own / other for own, other in zip(*sides)]
        text.append(f"| {name} | {shown(sides[0], form)} | {shown(sides[1], form)} | {shown(ratios, '.3f')} |")
    return "\n".join(text) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--mpiexec", default="mpiexec", help="the launcher of MPI")
    parser.add_argument("--lessen", help="use this lessen and build none")
    parser.add_argument("--write", metavar="FILE", help="also write the results as Markdown")
    parser.add_argument("--ddp", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.ddp:
        ddp(args.steps)
        return
    lessen = os.path.abspath(args.lessen) if args.lessen else step.build_lessen()
    rounds = []
    with tempfile.TemporaryDirectory() as place:
        sides = [("lessen", lambda: lessen_side(args, lessen, place)), ("ddp", lambda: torch_side(args))]
        for number in range(args.rounds):
            order = sides if number % 2 == 0 else sides[::-1]
            rounds.append({name: run() for name, run in order})
            print(json.dumps(rounds[-1]), file=sys.stderr)
    step.publish(markdown(rounds, args), args.write)


if __name__ == "__main__":
    main()
