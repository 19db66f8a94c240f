#!/usr/bin/env python3
"""Training steps under memory budgets, measured, beside PyTorch with its own ways to save activations.

    python3 bench/budgets.py [--cases a,j,k,g] [--modes eager,checkpoint,compile,compile_half] [--rounds 1] [--steps 5]
                             [--lessen FILE] [--write FILE]

For each case `lessen bench memory` says what the plans take: that in which everything is kept, half and a quarter of its
arena, and the floor. `lessen bench step` then runs each of them, and bench/torch_step.py PyTorch's modes, in processes of
their own, one after the other in each round and in the opposite order in every other one. A mode in which PyTorch cannot
run a case is reported with the first line of its error. Times mean something on an idle machine alone.
"""

import argparse
import json
import os
import statistics
import sys

import step

MIB = 1 << 20

# By how much longer a step may take than the fastest one, by the part of the arena.
REQUIRED = {"half": 1.03, "a quarter": 1.15, "floor": 1.45}
REQUIRED_ROUNDED = 1.08
REQUIRED_GROWTH = {"a": 0.27}
REQUIRED_FORECAST = 0.10

# Errors that are allowed: none; that of sums, which inverts; that of what is rounded.
INVERSION, ROUNDED = "1e-6", "0.004"
REVERSIBLE = "gk"


def plans_of(lessen, case, error):
    """Bytes of the plans of a case by name, and of the arena in which everything is kept."""
    command = [lessen, "bench", "memory", "--case", case, "--allow-error", error, "--cost", "measured", "--json"]
    plans = json.loads(step.output_of(command, "lessen bench memory"))[case]["plans"]
    keep = next(plan for plan in plans if plan["name"] == "keep all")
    floor = next(plan for plan in plans if plan["by_planner"] and plan["name"] == "floor")
    return keep, floor


def budgets(lessen, case):
    """The steps to run: what each is called, its budget in bytes, and the allowed error."""
    keep, floor = plans_of(lessen, case, "0")
    fixed, arena = keep["peak_bytes"] - keep["arena_bytes"], keep["arena_bytes"]
    rows = [("all", keep["peak_bytes"], "0"), ("half", fixed + arena // 2, "0")]
    rows += [("a quarter", fixed + arena // 4, "0"), ("floor", floor["peak_bytes"], "0")]
    rows = [row for row in rows if row[1] >= floor["peak_bytes"]]
    if case in REVERSIBLE:
        _, floor = plans_of(lessen, case, INVERSION)
        if fixed + arena // 4 >= floor["peak_bytes"]:
            rows.append(("a quarter, inverting", fixed + arena // 4, INVERSION))
        rows.append(("floor, inverting", floor["peak_bytes"], INVERSION))
    else:
        _, floor = plans_of(lessen, case, ROUNDED)
        more = [("half, rounded", fixed + arena // 2, ROUNDED), ("a quarter, rounded", fixed + arena // 4, ROUNDED)]
        rows += [row for row in more if row[1] >= floor["peak_bytes"]]
    return rows


def run_lessen(lessen, case, row, steps, threads):
    name, budget, error = row
    environment = dict(os.environ, LESSEN_THREADS=str(threads))
    command = [lessen, "bench", "step", "--case", case, "--budget", f"{budget}B", "--allow-error", error]
    command += ["--cost", "measured", "--steps", str(steps), "--json"]
    got = json.loads(step.output_of(command, f"lessen bench step ({name})", environment))
    found, peak = got["cases"][case], got["peak_gflops"]
    return {
        "ms": found["step_ms"],
        "growth": found["resident_growth_bytes"],
        "arena": found["arena_bytes"],
        "estimated": found["estimated_ms"],
        # Millions of floating-point operations of matrix products in a step, with those that are computed again.
        "work": found["step_ms"] * found["gflops"],
        "peak": peak,
    }


def run_torch(python, case, mode, known, steps, threads):
    if not step.does_run(known):
        return known[0]
    got = step.measure_torch(python, case, mode, steps, threads)
    if "does_not_run" in got:
        return got
    return {"ms": got["step_ms"], "growth": got["peak_growth_bytes"], "torch": got["torch"]}


def measure(lessen, python, args):
    """{case: [(side, budget, [one result per round])]}"""
    results = {}
    for case in args.cases:
        rows = budgets(lessen, case)
        results[case] = [(row[0], row[1], []) for row in rows] + [(mode, None, []) for mode in args.modes]
        for round_ in range(args.rounds):
            sides = list(zip([*rows, *args.modes], results[case]))
            for side, (name, budget, into) in sides if round_ % 2 == 0 else reversed(sides):
                print(f"round {round_ + 1} of {args.rounds}, case {case}, {name} ...", file=sys.stderr, flush=True)
                if budget is None:
                    into.append(run_torch(python, case, side, into, args.steps, args.threads))
                else:
                    into.append(run_lessen(lessen, case, side, args.steps, args.threads))
    return results


def middle(runs, key):
    return statistics.median(run[key] for run in runs)


def share_of_peak(runs, kept):
    """The share of the machine's peak that a step reaches, in which only the products of the step that keeps everything
    count; where others are computed again, in brackets the share with them. PyTorch's peak is that of the same round."""

    def share(works):
        each = [work / run["ms"] / run.get("peak", all_["peak"]) for work, run, all_ in zip(works, runs, kept)]
        return f"{100 * statistics.median(each):.0f} %"

    least = [all_["work"] for all_ in kept]
    own = [run.get("work", work) for run, work in zip(runs, least)]
    again = any(work > 1.001 * needed for work, needed in zip(own, least))
    return share(least) + (f" ({share(own)})" if again else "")


def verdicts(case, name, runs, fastest, eager):
    """What is required of a row, and whether it is met."""
    said = []
    ratio = middle(runs, "ms") / fastest
    limit = REQUIRED_ROUNDED if name == "a quarter, rounded" else REQUIRED.get(name.removesuffix(", inverting"))
    if limit is not None:
        said.append(f"time at most {limit:.2f}: {'yes' if ratio <= limit else 'NO'}")
    if name == "a quarter" and case in REQUIRED_GROWTH and eager:
        share = middle(runs, "growth") / middle(eager, "growth")
        said.append(f"growth at most {REQUIRED_GROWTH[case]} of eager: {'yes' if share <= REQUIRED_GROWTH[case] else 'NO'}")
    return "; ".join(said)


def table(case, rows):
    lessen = [row for row in rows if row[1] is not None]
    fastest = min(middle(runs, "ms") for _, _, runs in lessen)
    kept = lessen[0][2]
    keep = middle(kept, "arena")
    eager = next((runs for name, _, runs in rows if name == "eager" and step.does_run(runs)), None)
    heads = ["arena MiB", "of keep all", "growth MiB", "of eager", "step ms", "to Lessen's fastest", "share of the peak"]
    text = ["| | " + " | ".join([*heads, "forecast", "required"]) + " |", "|---" * 10 + "|"]
    for name, budget, runs in rows:
        if not step.does_run(runs):
            text.append(f"| PyTorch, `{name}` |  |  |  |  | {step.failure(runs)} |  |  |  |  |")
            continue
        ms, growth = middle(runs, "ms"), middle(runs, "growth")
        of_eager = f"{growth / middle(eager, 'growth'):.2f}" if eager else ""
        arena = ["", ""]
        forecast = ""
        if budget is not None:
            bytes_ = middle(runs, "arena")
            arena = [f"{bytes_ / MIB:,.0f}", f"{bytes_ / keep:.2f}"]
            forecast = f"{middle(runs, 'estimated'):,.1f} ({middle(runs, 'estimated') / ms:.2f})"
        times = step.spread([run["ms"] for run in runs], 1)
        label = f"Lessen, {name}" if budget is not None else f"PyTorch, `{name}`"
        cells = [label, *arena, f"{growth / MIB:,.0f}", of_eager, times, f"{ms / fastest:.3f}"]
        cells += [share_of_peak(runs, kept), forecast]
        cells.append(verdicts(case, name, runs, fastest, eager) if budget is not None else "")
        text.append("| " + " | ".join(cells) + " |")
    return text


def said_of_rounds(rounds):
    """What the number of rounds means for a figure."""
    if rounds == 1:
        return "- One round: a figure is a single run's median over its steps, without a spread"
    return f"- {rounds} rounds in which the sides take turns; a figure is the median over them"


def markdown(results, args):
    command = f"python3 bench/budgets.py --cases {','.join(args.cases)} --modes {','.join(args.modes)}"
    command += f" --rounds {args.rounds} --steps {args.steps}"
    versions = {run["torch"] for rows in results.values() for _, _, runs in rows for run in runs if "torch" in run}
    text = ["# Training steps under memory budgets", ""]
    text += ["Written by `bench/budgets.py`, which anyone can run again:", "", "```", command, "```", ""]
    text += [f"- Machine: {step.machine()}", f"- PyTorch {', '.join(sorted(versions))}, float32"]
    text += [
        "- *all* is the budget of the plan in which everything is kept, *half* and *a quarter* allow those parts of its arena"
        " beside parameters and optimizer state, *floor* is the least that there is a plan for. *inverting* allows an error of"
        f" {INVERSION} (`--allow-error`), *rounded* one of {ROUNDED}; all others are exact",
        "- Growth is the highest resident size over that before the model; a forecast is that of the plan, and its ratio to"
        " the measured time",
        "- The share of the peak is that of the products of a step in which everything is kept, in the time of the step, at"
        " the machine's peak of products in f32 as measured in the same run, or round; in brackets that with the products"
        " that Lessen computes again",
        "- `checkpoint` is torch.utils.checkpoint around each block, `compile_half` torch.compile with an activation memory"
        " budget of 0.5",
    ]
    text += [said_of_rounds(args.rounds)]
    head = len(text)
    for case, rows in results.items():
        text += ["", f"## ({case}) {step.CASES[case]}", "", *table(case, rows)]
    text.insert(head, step.missed(text))
    spent = "[memory](../reference/memory.md#what-smaller-budgets-cost)"
    text.insert(head + 1, f"- What the slower steps take longer for, beside the planner's bound: {spent}")
    return "\n".join(text) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", default="a,j,k,g")
    parser.add_argument("--modes", default="eager,checkpoint,compile,compile_half")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--lessen", help="use this lessen and build none")
    parser.add_argument("--write", metavar="FILE", help="also write the results as Markdown")
    args = parser.parse_args()
    args.cases, args.modes = args.cases.split(","), [mode for mode in args.modes.split(",") if mode]
    lessen = os.path.abspath(args.lessen) if args.lessen else step.build_lessen()
    results = measure(lessen, os.environ.get("PYTHON", sys.executable), args)
    step.publish(markdown(results, args), args.write)


if __name__ == "__main__":
    main()
