"""Times steps of two modules: eager PyTorch with fused AdamW, torch.compile, and lessen.compile.

    python bench/torch_speed.py [--cases gpt,bert] [--engines eager,compile,lessen] [--rounds 3] [--steps 10]
        [--budget gpt=SIZE,bert=SIZE] [--release] [--json FILE]

The modules are a GPT of 6 layers x 384 without dropout, and transformers' BERT-base of 12 layers x 768 with dropout
0.1, batches of 8 x 128 tokens. Each measurement has a process of its own, and the engines take turns. Compile seconds
are those from the module to the end of the first step, export and planning included. Peak growth is the highest
resident size (VmHWM) over the resident size after the imports; the running peak is the same after the first steps,
whose compilers have ended. Both count the module's own parameters, which stay in PyTorch unless `--release` lets them
go. Libraries are what a compiled layer of 2 x 2 adds before the module is built. Ratios are to eager in the same round;
tables have medians over the rounds, with the least and greatest step. The budget is Lessen's. Needs torch and
transformers.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

from torch_memory import peak_since, resident

CASES, ENGINES, BATCH, TOKENS, WARMUP = {"gpt": "a", "bert": "j"}, ("eager", "compile", "lessen"), 8, 128, 2


def measure(case: str, engine: str, steps: int, threads: int, settings: dict[str, Any]) -> dict[str, Any]:
    """One case with one engine, in this process, which must be fresh."""
    import torch
    import torch_models

    torch_models.has_transformers()
    if engine == "lessen":
        import lessen
        import lessen._torch  # noqa: F401
    torch.set_num_threads(threads)
    held = resident()
    tiny, ones = torch.nn.Linear(2, 2), torch.ones(2, 2)
    if engine == "compile":
        torch.compile(tiny)(ones).sum().backward()
    if engine == "lessen":
        lessen.compile(tiny, (ones, ones), loss="mse", optimizer="sgd", lr=0.1).step(ones, ones)
    libraries = resident() - held
    model, inputs, _ = torch_models.build(CASES[case])
    inputs = {name: part[:BATCH, :TOKENS] if part.dim() > 1 else part[:BATCH] for name, part in inputs.items()}
    inputs = {name: part.contiguous() for name, part in inputs.items()}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    loss_of = torch.compile(model) if engine == "compile" else model

    def step() -> float:
        optimizer.zero_grad()
        loss = loss_of(**inputs)
        loss.backward()
        optimizer.step()
        return loss.item()

    begun, planned = time.perf_counter(), None
    if engine == "lessen":
        compiled = lessen.compile(model, inputs, optimizer=optimizer, threads=threads, **settings)
        planned, step = compiled.plan(), lambda: compiled.step(inputs)
    losses = [step()]
    compile_s = time.perf_counter() - begun
    losses += [step() for _ in range(WARMUP)]
    peak = peak_since(held)
    resident()
    times = []
    for _ in range(steps):
        begun = time.perf_counter()
        losses.append(step())
        times.append((time.perf_counter() - begun) * 1e3)
    row = {"step_ms": statistics.median(times), "compile_s": compile_s, "losses": [losses[0], losses[-1]]}
    row |= {"peak_bytes": max(peak, peak_since(held)), "running_bytes": peak_since(held), "libraries_bytes": libraries}
    row["own_bytes"] = row["running_bytes"] - libraries
    return row | (
        {"planned_bytes": planned["peak_bytes"], "measured_bytes": compiled.plan()["measured_bytes"]} if planned else {}
    )


def apart(case: str, engine: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """A measurement in a process of its own, with an empty cache of torch.compile."""
    command = [sys.executable, __file__, "--one", "--cases", case, "--engines", engine]
    command += ["--steps", str(arguments.steps), "--threads", str(arguments.threads)]
    command += ["--budget", arguments.budget] if arguments.budget else []
    command += ["--release"] if arguments.release else []
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"OMP_NUM_THREADS": str(arguments.threads), "TORCHINDUCTOR_CACHE_DIR": cache}
        done = subprocess.run(command, stdout=subprocess.PIPE, env=environment, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--engines", default=",".join(ENGINES))
    for name, default in dict(rounds=3, steps=10, threads=2).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--budget", default="")
    parser.add_argument("--release", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    cases, engines = arguments.cases.split(","), arguments.engines.split(",")
    if arguments.one:
        budgets = dict(part.split("=") for part in arguments.budget.split(",") if part)
        settings = {"budget": budgets.get(cases[0]), "release": arguments.release}
        print(json.dumps(measure(cases[0], engines[0], arguments.steps, arguments.threads, settings)))
        return
    rows: dict[str, dict[str, list[dict[str, Any]]]] = {case: {engine: [] for engine in engines} for case in cases}
    for turn in range(arguments.rounds):
        for case in cases:
            for engine in engines if turn % 2 == 0 else engines[::-1]:
                rows[case][engine].append(apart(case, engine, arguments))
    print(
        "| module | engine | step ms | least to greatest | of eager | compile s | peak MiB | running MiB | of eager "
        "| libraries MiB | of eager without them |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for case in cases:
        for engine in engines:
            own, eager = rows[case][engine], rows[case].get("eager", rows[case][engine])
            middle = lambda key, own=own: statistics.median(row[key] for row in own)  # noqa: E731
            ratio = lambda key, own=own, eager=eager: statistics.median(  # noqa: E731
                row[key] / other[key] for row, other in zip(own, eager, strict=True)
            )
            times = [row["step_ms"] for row in own]
            print(
                f"| {case} | {engine} | {middle('step_ms'):.1f} | {min(times):.1f} to {max(times):.1f} "
                f"| {ratio('step_ms'):.2f} | {middle('compile_s'):.1f} | {middle('peak_bytes') / 2**20:.0f} "
                f"| {middle('running_bytes') / 2**20:.0f} | {ratio('running_bytes'):.2f} "
                f"| {middle('libraries_bytes') / 2**20:.0f} | {ratio('own_bytes'):.2f} |"
            )
        for row in rows[case].get("lessen", [])[:1]:
            print(f"\nOf {case} Lessen plans {row['planned_bytes']:,} bytes and measures {row['measured_bytes']:,}.\n")
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
