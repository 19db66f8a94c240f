#!/usr/bin/env python3
"""Times one training step in PyTorch: the other side of `lessen bench step`.

    python3 bench/torch_step.py [--cases a,b,c] [--modes eager,eager_fused,bfloat16,compile,…] [--steps N] [--batch N]

Each case and mode runs in a fresh process. A step is zero_grad, forward, backward and AdamW on fixed inputs,
float32, two threads. AdamW has no weight decay, as that of `lessen bench step`. `eager` takes it otherwise as its
constructor gives it, `eager_fused` passes fused=True, `bfloat16` does so, too, and runs the forward pass under
autocast, `compile` runs torch.compile(model) with the default AdamW, `compile_half` with an activation memory budget of
0.5, `bfloat16_compile` under autocast with fused=True; `checkpoint` has torch.utils.checkpoint around each block. With
`_last` at its end, a mode has images and weights in the order channels-last and a fused AdamW. The first step, which in
`compile` includes compiling, is reported apart; then come some untimed steps. Peak growth is the process's highest
resident size (VmHWM) over its resident size after the imports (VmRSS), before model and data exist. A mode that fails
is reported with the first line of its error.

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
import traceback

MODES = (
    "eager",
    "eager_fused",
    "bfloat16",
    "compile",
    "compile_half",
    "checkpoint",
    "eager_last",
    "bfloat16_last",
    "compile_last",
    "bfloat16_compile",
    "bfloat16_compile_last",
)


def status_bytes(key):
    """A size out of /proc/self/status, in bytes."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(key + ":"):
                return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {key}; peak memory can only be measured on Linux")


def measure(case, mode, steps, warmup, threads, batch=0):
    """One case in one mode, in this process, which must be fresh."""
    import torch

    import torch_models

    if case in "bj":
        torch_models.has_transformers()
    torch.set_num_threads(threads)
    try:
        # Sets the high-water mark back to what is resident now, so that the imports' own peak does not count.
        with open("/proc/self/clear_refs", "w") as refs:
            refs.write("5")
    except OSError:
        pass
    after_import = status_bytes("VmRSS")

    model, inputs, name = torch_models.build(case)
    if batch:
        # The case's own examples, again and again.
        inputs = {key: value[torch.arange(batch) % len(value)] for key, value in inputs.items()}
    options = {"weight_decay": 0.0}
    kind, channels_last = mode.removesuffix("_last"), mode.endswith("_last")
    half = kind.startswith("bfloat16")
    if kind == "eager_fused" or half or channels_last:
        options["fused"] = True
    if channels_last:
        model = model.to(memory_format=torch.channels_last)
        images = inputs.get("images")
        if images is not None:
            inputs["images"] = images.contiguous(memory_format=torch.channels_last)
    autocast = torch.autocast("cpu", torch.bfloat16, enabled=half)
    optimizer = torch.optim.AdamW(model.parameters(), lr=torch_models.LEARNING_RATE[case], **options)
    if kind == "compile_half":
        torch._functorch.config.activation_memory_budget = 0.5
    if kind == "checkpoint":
        torch_models.checkpoint_blocks(model)
    loss_of = torch.compile(model) if "compile" in kind else model

    def step():
        optimizer.zero_grad()
        with autocast:
            loss = loss_of(**inputs)
        loss.backward()
        optimizer.step()
        return loss.item()

    begin = time.perf_counter()
    losses = [step()]
    first = time.perf_counter() - begin
    losses += [step() for _ in range(warmup)]
    times = []
    for _ in range(steps):
        begin = time.perf_counter()
        losses.append(step())
        times.append(1000 * (time.perf_counter() - begin))
    return {
        "model": name,
        "step_ms": statistics.median(times),
        "step_ms_min": min(times),
        "step_ms_max": max(times),
        "steps": steps,
        "first_step_s": first,
        "peak_growth_bytes": status_bytes("VmHWM") - after_import,
        "parameters": sum(p.numel() for p in model.parameters()),
        "first_loss": losses[0],
        "last_loss": losses[-1],
    }


def reason(error):
    """What an error says in one line; of one from compiling, its cause."""
    error = getattr(error, "inner_exception", None) or error
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0].strip()}" if lines else type(error).__name__


def measure_or_reason(measure, *case):
    """What `measure` finds, or why it does not run."""
    try:
        return measure(*case)
    except Exception as error:  # Whatever PyTorch raises belongs into the report.
        traceback.print_exc()
        return {"does_not_run": reason(error)}


def measure_apart(case, mode, steps, warmup, threads, batch):
    """`measure` in a fresh child process."""
    command = [sys.executable, os.path.abspath(__file__), "--child", "--cases", case, "--modes", mode]
    command += ["--steps", str(steps), "--warmup", str(warmup), "--threads", str(threads), "--batch", str(batch)]
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), TOKENIZERS_PARALLELISM="false")
    with tempfile.TemporaryDirectory() as cache:
        # A cache of its own, so that torch.compile's first step compiles and does not reuse an earlier run.
        environment["TORCHINDUCTOR_CACHE_DIR"] = cache
        done = subprocess.run(command, stdout=subprocess.PIPE, env=environment)
    if done.returncode != 0:
        return {"does_not_run": f"its process ended with exit code {done.returncode}"}
    return json.loads(done.stdout.splitlines()[-1])


def shown(got):
    """The line of a case in a mode."""
    if "does_not_run" in got:
        return f"does not run: {got['does_not_run']}"
    times = f"{got['step_ms']:9.1f} {got['step_ms_min']:9.1f} {got['step_ms_max']:9.1f} {got['first_step_s']:8.2f}"
    losses = f"{got['first_loss']:7.4f}>{got['last_loss']:7.4f}"
    return f"{times} {got['peak_growth_bytes'] / 2**20:9.1f} {losses}  {got['model']}"


def listed(text, allowed, what):
    chosen = [part for part in text.split(",") if part]
    for part in chosen:
        if part not in allowed:
            sys.exit(f"torch_step: there is no {what} {part!r}; take from {', '.join(allowed)}")
    return chosen


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", default="a,b,c")
    parser.add_argument("--modes", default="eager,compile")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=0, help="examples in a batch, instead of the case's own")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    cases, modes = listed(args.cases, "abcdefghijk", "case"), listed(args.modes, MODES, "mode")
    if args.steps < 1:
        sys.exit("torch_step: --steps must be at least 1")

    if args.child:
        case = (cases[0], modes[0], args.steps, args.warmup, args.threads, args.batch)
        print(json.dumps(measure_or_reason(measure, *case)))
        return

    from importlib.metadata import version

    out = {"torch": version("torch"), "threads": args.threads, "cases": {}}
    print(f"PyTorch {out['torch']}, {args.threads} threads, {args.steps} steps each", file=sys.stderr)
    heading = f"{'case':4} {'mode':21} {'step ms':>9} {'min':>9} {'max':>9} {'first s':>8} {'peak MiB':>9}"
    print(f"{heading} {'loss':>15}  model", file=sys.stderr)
    for case in cases:
        out["cases"][case] = {}
        for mode in modes:
            got = measure_apart(case, mode, args.steps, args.warmup, args.threads, args.batch)
            out["cases"][case][mode] = got
            print(f"{case:4} {mode:21} {shown(got)}", file=sys.stderr, flush=True)
    print(json.dumps(out))


if __name__ == "__main__":
    main()
