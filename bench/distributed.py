#!/usr/bin/env python3
"""Trainings that two processes share: beside PyTorch's DDP and FSDP2 over gloo, with separate and with fused
reductions, over slow networks, and forecasts of more processes.

    python3 bench/distributed.py [--rounds 3] [--steps 40] [--mpiexec FILE] [--lessen FILE] [--write FILE]

Steps: a GPT of 4 layers x 256 on 128 characters, 8 examples and one thread for each of two processes, f32, AdamW (fused
in PyTorch), the norm of the gradient clipped at 1. In each round both run in turn, every other round in the opposite
order. Lessen's updates are forward-fused. Bytes are those that one process sends for a step: Lessen's as its report
counts them, DDP's at the interface lo, without the frames of TCP. Memory: a GPT of 8 layers x 512 in the same way,
without clipping; the growth of a process's resident memory from before the model to its highest in four steps.
Reductions: `lessen bench shared`, with threads of one core as processes and a wire that delays messages as a network
does. PyTorch's side is run by $PYTHON or, where that is not set, by the Python that runs this file. Times mean
something on an idle machine alone.
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

LENGTH, BATCH, VOCABULARY, PROCESSES = 128, 8, 67, 2
STEPS_OF = {"layers": 4, "width": 256, "heads": 4}
MEMORY_OF = {"layers": 8, "width": 512, "heads": 8}
WARMUP = 5
NETWORK = "1Gbit,10ms"
# Case a is the GPT of `lessen bench step`, k the reversible encoder; the norms are what the case is planned with.
REDUCTIONS = [("a", "rms", "1,8,64"), ("k", "layer", "1,8")]
STEPS_OF_REDUCTIONS = 2
FORECASTS = "8,64,256,1024"


def sent_over_loopback():
    """Bytes and packets that were sent over lo so far."""
    with open("/proc/net/dev") as devices:
        own = next(line for line in devices if line.strip().startswith("lo:"))
    counts = own.split(":", 1)[1].split()
    return int(counts[8]), int(counts[9])


def resident(field):
    """Bytes of a field of this process's status."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith(field))


def torch_model(size):
    import torch

    import torch_models

    torch.manual_seed(1)
    gpt = torch_models.Gpt(VOCABULARY, LENGTH, size["width"], size["layers"], size["heads"])
    return torch_models.start_small(gpt)


def torch_batch():
    import torch
    import torch.distributed as dist

    torch.manual_seed(dist.get_rank())
    text = torch.randint(VOCABULARY, (BATCH, LENGTH + 1))
    return text[:, :-1].contiguous(), text[:, 1:].contiguous()


def ddp(steps):
    """DDP's side, in each process of torchrun; the first one prints."""
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    model = DistributedDataParallel(torch_model(STEPS_OF), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1, fused=True)
    tokens, labels = torch_batch()
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
        print(json.dumps({"ms": statistics.median(times[WARMUP:]), "bytes": sent / steps / dist.get_world_size()}))
    dist.destroy_process_group()


def fsdp(steps):
    """FSDP2's side, in each process of torchrun; the first one prints."""
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    tokens, labels = torch_batch()
    growth = Growth()
    model = torch_model(MEMORY_OF)
    for module in list(model.modules()):
        if type(module).__name__ == "Block":
            fully_shard(module, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1, fused=True)
    for number in range(steps):
        optimizer.zero_grad()
        model(tokens, labels).backward()
        optimizer.step()
        growth.on_step_end(number, {})
    if dist.get_rank() == 0:
        print(json.dumps({"bytes": growth.bytes}))
    dist.destroy_process_group()


def torch_side(what, steps, *more):
    python = os.environ.get("PYTHON", sys.executable)
    run = [python, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={PROCESSES}", __file__]
    told = step.output_of([*run, "--torch", what, f"--steps={steps}", *more], what)
    return json.loads(next(line for line in told.splitlines() if line.startswith("{")))


def keys_of(size, more):
    """The keys of a training of a GPT of this size."""
    return {
        "model.layers": size["layers"],
        "model.width": size["width"],
        "model.heads": size["heads"],
        "model.ffn": 4 * size["width"],
        "model.vocab": VOCABULARY,
        "data.max_length": LENGTH,
        "train.batch": BATCH * PROCESSES,
        "train.warmup": 0,
        "train.eval_every": 0,
        "train.checkpoint_every": 0,
        "train.checkpoint_minutes": 0.0,
        **more,
    }


def keys_of_memory():
    """The keys of the training whose memory is measured."""
    more = {"train.ranks": PROCESSES, "train.clip_norm": 0.0, "train.shard_parameters": True}
    return keys_of(MEMORY_OF, more)


def text_in(place):
    """A file of random characters."""
    path = os.path.join(place, "text.txt")
    symbols = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ."
    with open(path, "w") as file:
        file.write("".join(random.Random(1).choices(symbols, k=200_000)))
    return path


def lessen_run(args, lessen, place, steps):
    """A training that processes share under MPI: its report and the milliseconds of its steps after the first ones."""
    text, out = text_in(place), tempfile.mkdtemp(dir=place)
    run = [args.mpiexec, "-n", str(PROCESSES), lessen, "train", "shakespeare", f"--data={text}", "--threads=1"]
    run += [f"--steps={steps}", f"--out={out}/run", "--json", "--quiet"]
    keys = keys_of(STEPS_OF, {"train.clip_norm": 1.0, "optimizer.placement": "forward-fused"})
    report = json.loads(step.output_of(run + [f"--set={key}={value}" for key, value in keys.items()], "lessen train"))
    with open(os.path.join(out, "run", "metrics.jsonl")) as file:
        lines = [json.loads(line) for line in file]
    return report, [line["step_ms"] for line in lines if "step_ms" in line and line["step"] > WARMUP]


def lessen_steps(args, lessen, place):
    """Steps of a training that processes share under MPI. Bytes are what more steps send than few do."""
    few, _ = lessen_run(args, lessen, place, WARMUP)
    report, times = lessen_run(args, lessen, place, WARMUP + args.steps)
    sent = report["sent_bytes"] - few["sent_bytes"]
    return {"ms": statistics.median(times), "bytes": sent / args.steps}


class Growth:
    """The growth of this process's resident memory up to the end of each step."""

    def __init__(self):
        self.before, self.bytes = resident("VmRSS"), 0
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")

    def on_step_end(self, _step, _numbers):
        self.bytes = resident("VmHWM") - self.before


def sharded(steps, place):
    """Lessen's side of memory, in each process of torchrun; the first one prints."""
    import lessen
    import torch.distributed as dist

    dist.init_process_group("gloo")
    keys = {name.replace(".", "_"): value for name, value in keys_of_memory().items()}
    text, out = os.path.join(place, "text.txt"), os.path.join(place, "run")
    growth, group = Growth(), dist.group.WORLD
    lessen.train("shakespeare", data=text, out=out, steps=steps, threads=1, group=group, callbacks=[growth], **keys)
    if dist.get_rank() == 0:
        print(json.dumps({"bytes": growth.bytes}))
    dist.destroy_process_group()


def memory_rounds(args, place):
    """Growth of FSDP2's and of Lessen's process, in turns."""
    rounds = []
    for _ in range(args.rounds):
        own = tempfile.mkdtemp(dir=place)
        text_in(own)
        rounds.append({"lessen": torch_side("lessen", 4, f"--place={own}"), "fsdp": torch_side("fsdp", 4)})
        print(json.dumps(rounds[-1]), file=sys.stderr)
    return rounds


def bench_shared(lessen, case, norm, batches, *more):
    run = [lessen, "bench", "shared", f"--case={case}", f"--norm={norm}", f"--batches={batches}", "--json", *more]
    return json.loads(step.output_of(run, "lessen bench shared"))


def shown(values, form):
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


def beside_ddp(rounds):
    yield "| | Lessen under MPI | DDP over gloo | ratio |"
    yield "|---|---|---|---|"
    rows = [("step, ms", "ms", ",.1f", 1), ("sent by a process in a step, MiB", "bytes", ",.2f", 2**20)]
    for name, key, form, unit in rows:
        sides = [[each[side][key] / unit for each in rounds] for side in ("lessen", "ddp")]
        ratios = [own / other for own, other in zip(*sides)]
        yield f"| {name} | {shown(sides[0], form)} | {shown(sides[1], form)} | {shown(ratios, '.3f')} |"


def beside_fsdp(rounds):
    own, other = ([each[side]["bytes"] / 2**20 for each in rounds] for side in ("lessen", "fsdp"))
    ratios = [one / two for one, two in zip(own, other)]
    yield "| | Lessen, parameters in pieces | FSDP2 over gloo | ratio |"
    yield "|---|---|---|---|"
    yield f"| memory of a process, MiB | {shown(own, ',.0f')} | {shown(other, ',.0f')} | {shown(ratios, '.2f')} |"


def of_reductions(rows):
    """One line for each case and number of examples: times and peaks of the placements."""
    yield "| case | examples | separate | backward-fused | forward-fused | peaks |"
    yield "|---|---|---|---|---|---|"
    for key in dict.fromkeys((row["case"], row["batch"]) for row in rows):
        own = [row for row in rows if (row["case"], row["batch"]) == key]
        base = own[0]["step_ms"]
        times = [f"{row['step_ms']:,.1f} ms ({row['step_ms'] / base:.2f})" for row in own]
        peaks = ", ".join(f"{row['peak_bytes'] / 2**20:,.1f}" for row in own)
        yield f"| {key[0]} | {key[1]} | {' | '.join(times)} | {peaks} MiB |"


def of_forecasts(rows):
    yield "| processes | placement | measured | forecast | forecast / measured |"
    yield "|---|---|---|---|---|"
    for row in rows:
        measured, error = "", ""
        if row["step_ms"] is not None:
            measured, error = f"{row['step_ms']:,.1f} ms", f"{row['forecast_ms'] / row['step_ms']:.2f}"
        forecast = f"{row['forecast_ms']:,.1f} ms"
        yield f"| {row['processes']} | {row['placement']} | {measured} | {forecast} | {error} |"


def measured(args, lessen, place):
    """The tables, with the sentence before each."""
    sides = [("lessen", lambda: lessen_steps(args, lessen, place)), ("ddp", lambda: torch_side("ddp", args.steps))]
    rounds = []
    for number in range(args.rounds):
        order = sides if number % 2 == 0 else sides[::-1]
        rounds.append({name: run() for name, run in order})
        print(json.dumps(rounds[-1]), file=sys.stderr)
    aims = "the aims are 0.8 of the time and 1.01 of the bytes"
    yield f"## Steps beside DDP\n\nGPT, 4 layers x 256, {BATCH} examples a process, clipped at 1; {aims}:", (
        beside_ddp(rounds)
    )
    memory = memory_rounds(args, place)
    yield "## Memory beside FSDP2\n\nGPT, 8 layers x 512, without a budget; the aim is 0.6:", beside_fsdp(memory)
    for network, words, aim in ((None, "at loopback", 1.02), (NETWORK, f"over {NETWORK}", 0.9)):
        more = [] if network is None else [f"--network={network}"]
        rows = []
        for case, norm, batches in REDUCTIONS:
            rows += bench_shared(lessen, case, norm, batches, "--clip-norm=1", f"--steps={STEPS_OF_REDUCTIONS}", *more)
        sentence = "a step of two processes, and its ratio to separate updates"
        sentence += f"; the aim for forward-fused ones is {aim}"
        yield f"## Fused and separate reductions {words}\n\nCases of `lessen bench step`, clipped at 1; {sentence}:", (
            of_reductions(rows)
        )
    more = [f"--network={NETWORK}", "--processes=2,4", f"--forecast={FORECASTS}", f"--steps={STEPS_OF_REDUCTIONS}"]
    rows = bench_shared(lessen, "a", "rms", "4", *more)
    sentence = f"Case a with 4 examples a process over {NETWORK}, from measured costs, of which four processes share two "
    sentence += "cores as they measure:"
    yield f"## Forecasts of more processes\n\n{sentence}", of_forecasts(rows)


def markdown(parts, args):
    command = f"python3 bench/distributed.py --rounds {args.rounds} --steps {args.steps}"
    text = ["# Trainings of several processes", "", "Written by `bench/distributed.py`, which anyone can run again:"]
    text += ["", "```", command, "```", "", f"- Machine: {step.machine()}"]
    text += [f"- {step.versions(os.environ.get('PYTHON', sys.executable))}"]
    text += [f"- {PROCESSES} processes of one thread each, f32, AdamW"]
    text += [f"- Medians of {args.rounds} rounds in turns, with the smallest and the largest"]
    for sentence, lines in parts:
        text += ["", sentence, "", *lines]
    return "\n".join(text) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--mpiexec", default="mpiexec", help="the launcher of MPI")
    parser.add_argument("--lessen", help="use this lessen and build none")
    parser.add_argument("--write", metavar="FILE", help="also write the results as Markdown")
    parser.add_argument("--torch", choices=["ddp", "fsdp", "lessen"], help=argparse.SUPPRESS)
    parser.add_argument("--place", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.torch == "ddp":
        return ddp(args.steps)
    if args.torch == "fsdp":
        return fsdp(args.steps)
    if args.torch == "lessen":
        return sharded(args.steps, args.place)
    lessen = os.path.abspath(args.lessen) if args.lessen else step.build_lessen()
    with tempfile.TemporaryDirectory() as place:
        step.publish(markdown(measured(args, lessen, place), args), args.write)


if __name__ == "__main__":
    main()
