#!/usr/bin/env python3
"""Reversible networks over batch sizes: everything kept, all inverted, a knapsack of inversions, and the memory planner.

    python3 bench/reversible.py [--measured l:16,32,64 k:4,8,16] [--planned m:8,32 n:8,32] [--steps 3] [--lessen FILE]
                                [--write FILE]

The dissertation's C-mode keeps everything, its M-mode inverts every layer that can be inverted, and its knapsack chooses
the layers to invert for given bytes (chapter 3.2). Runs `lessen bench memory`. Times mean something on an idle machine alone.
"""

import argparse
import json
import os

import step

MIB = 1 << 20
INVERSION = "1e-6"
NAMES = {
    "l": "RevNet-104 (units 2, 2, 11, 2) for images of 32 x 32",
    "m": "RevNet-104 (units 2, 2, 11, 2) for images of 224 x 224",
    "n": "ResNeXt-101 32x8d, 224 x 224",
    **step.CASES,
}
SHOWN = {
    "keep all": "C-mode: keep all",
    "row-wise": "row-wise (in-place activated norms keep as much)",
    "invert all": "M-mode: invert all",
    "knapsack, 2/4 between": "knapsack, half way between",
    "no budget": "planner, no budget",
    "as invert all": "planner, in the bytes of M-mode",
    "as knapsack, 2/4 between": "planner, in the bytes of the knapsack",
    "floor": "planner, floor",
}


def plans_of(lessen, case, batch, steps):
    command = [lessen, "bench", "memory", "--case", case, "--batch", str(batch), "--steps", str(steps)]
    command += ["--allow-error", INVERSION, "--json"]
    plans = json.loads(step.output_of(command, "lessen bench memory"))[case]["plans"]
    return [plan for plan in plans if plan["name"] in SHOWN]


def table(case, by_batch, measured):
    text = ["", f"## {NAMES[case]}", "", "| batch | | arena MiB | of C-mode | ms | examples/s | time to C-mode |"]
    text += ["|---|---|---|---|---|---|---|"]
    key = "measured_ms" if measured else "estimated_ms"
    for batch, plans in by_batch.items():
        keep = plans[0]
        for plan in plans:
            cells = [str(batch), SHOWN[plan["name"]], f"{plan['arena_bytes'] / MIB:,.0f}"]
            cells += [f"{plan['arena_bytes'] / keep['arena_bytes']:.2f}", f"{plan[key]:,.1f}"]
            cells += [f"{1e3 * batch / plan[key]:,.1f}", f"{plan[key] / keep[key]:.3f}"]
            text.append("| " + " | ".join(cells) + " |")
    return text


def markdown(results, args):
    command = f"python3 bench/reversible.py --measured {' '.join(args.measured)} --planned {' '.join(args.planned)}"
    text = ["# Reversible networks: what to invert at which batch size", ""]
    text += ["Written by `bench/reversible.py`, which anyone can run again:", "", "```", f"{command} --steps {args.steps}", "```", ""]
    text += [f"- Machine: {step.machine()}"]
    text += [
        "- Arena without parameters and optimizer state. Inversion is by additive coupling alone and allowed with"
        f" `--allow-error {INVERSION}`; its gradients agree with exact ones within 1e-4",
        "- The knapsack inverts whole layers, for the least time within the bytes half way between C-mode and M-mode",
    ]
    for (case, measured), by_batch in results.items():
        text += table(case, by_batch, measured)
        text.append("" if measured else "\nPlanned: milliseconds are estimates by assumed rates of a core.")
    return "\n".join(text).rstrip("\n") + "\n"


def listed(words):
    """Cases with their batch sizes, of words such as l:16,32."""
    pairs = [word.split(":") for word in words]
    return {case: [int(batch) for batch in batches.split(",")] for case, batches in pairs}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measured", nargs="*", default=["l:16,32,64", "k:4,8,16"])
    parser.add_argument("--planned", nargs="*", default=["m:8,32", "n:8,32"])
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--lessen", help="use this lessen and build none")
    parser.add_argument("--write", metavar="FILE", help="also write the results as Markdown")
    args = parser.parse_args()
    lessen = os.path.abspath(args.lessen) if args.lessen else step.build_lessen()
    results = {}
    for words, steps in ((args.measured, args.steps), (args.planned, 0)):
        for case, batches in listed(words).items():
            results[case, steps > 0] = {batch: plans_of(lessen, case, batch, steps) for batch in batches}
    step.publish(markdown(results, args), args.write)


if __name__ == "__main__":
    main()
