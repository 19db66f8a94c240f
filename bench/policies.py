#!/usr/bin/env python3
"""Fixed policies of what backward keeps, and the memory planner within the bytes of each, on the same graphs.

    python3 bench/policies.py [--cases a,b,d,..] [--reversible g,k,..] [--steps 0] [--lessen FILE] [--write FILE]

Runs `lessen bench memory`. Bytes and estimated times are those of plans and do not depend on the machine; with --steps the
steps of every plan are measured, too, which means something on an idle machine alone.
"""

import argparse
import json
import os

import step

MIB = 1 << 20

# More than the declared error of a sum in f32, and less than that of any rounding.
INVERSION = "1e-6"


def compared(plans):
    """For each fixed policy: its plan, and the planner's within the same bytes."""
    by_name = {(plan["by_planner"], plan["name"]): plan for plan in plans}
    fixed = [plan for plan in plans if not plan["by_planner"]]
    return [(plan, by_name.get((True, f"as {plan['name']}"))) for plan in fixed]


def verdict(fixed, planner):
    if planner is None:
        return "below the planner's floor"
    ratio = planner["estimated_ms"] / fixed["estimated_ms"]
    return f"{ratio:.3f}" + ("" if ratio <= 1 else " (slower)")


def row(case, plan, fastest, keep, note):
    name = f"planner, {plan['name']}" if plan["by_planner"] else plan["name"]
    cells = [case, name, f"{plan['arena_bytes'] / MIB:,.0f}", f"{plan['arena_bytes'] / keep:.2f}"]
    cells += [f"{plan['estimated_ms']:,.1f}", f"{plan['estimated_ms'] / fastest:.3f}"]
    measured = plan["measured_ms"]
    cells += ["" if measured is None else f"{measured:,.1f}", note]
    return "| " + " | ".join(cells) + " |"


def markdown(results, args):
    command = f"python3 bench/policies.py --cases {args.cases} --reversible {args.reversible} --steps {args.steps}"
    text = ["# What backward keeps: fixed policies and the memory planner", ""]
    text += ["Written by `bench/policies.py`, which anyone can run again:", "", "```", command, "```", ""]
    text += [f"- Machine: {step.machine()}"]
    text += [f"- `{letter}`: {case['title']}" for letter, case in results.items()]
    text += [
        "- Arena in MiB, without parameters and optimizer state, and as a part of that in which everything is kept. Estimated"
        " milliseconds go by assumed rates of a core, so their ratios mean more than they do; the last of them is to the"
        " fastest plan. For a fixed policy: the planner's estimated time within the same bytes, as a part of the policy's",
        "- *Tempo* recomputes what GELU and norms compute, as exactly and in as few bytes as Tempo's inversions; *row-wise* keeps"
        " products and recomputes the rest at the end of short chains, which was the rule before the planner; *every block* keeps one"
        " value of each block; *square root* recomputes segments of the square root of their number",
        f"- The reversible networks ({', '.join(args.reversible.split(','))}) are planned with `--allow-error {INVERSION}`, so"
        " that blocks may be inverted: *invert all* inverts each that can be, *knapsack* as many as the bytes ask for, in least"
        " time, where those between *invert all* and *keep all* are cut in quarters",
        "",
        "| case | plan | arena | of keep all | estimated ms | to the fastest | measured ms | planner to policy |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for letter, case in results.items():
        plans = case["plans"]
        notes = {plan["name"]: verdict(plan, planner) for plan, planner in compared(plans)}
        fastest, keep = min(plan["estimated_ms"] for plan in plans), plans[0]["arena_bytes"]
        shown = [plan for plan in plans if not (plan["by_planner"] and plan["name"].startswith("as "))]
        text += [row(letter, p, fastest, keep, "" if p["by_planner"] else notes[p["name"]]) for p in shown]
    return "\n".join(text) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", default="a,b,c,d,e,f,h,i,j,n")
    parser.add_argument("--reversible", default="g,k,l,m", help="cases that may be inverted")
    parser.add_argument("--steps", type=int, default=0, help="timed steps of each plan; 0 only plans")
    parser.add_argument("--lessen", help="use this lessen and build none")
    parser.add_argument("--write", metavar="FILE", help="also write the results as Markdown")
    args = parser.parse_args()
    lessen = os.path.abspath(args.lessen) if args.lessen else step.build_lessen()
    results = {}
    errors = {case: "0" for case in args.cases.split(",")} | {case: INVERSION for case in args.reversible.split(",")}
    for case, error in errors.items():
        command = [lessen, "bench", "memory", "--case", case, "--steps", str(args.steps), "--allow-error", error, "--json"]
        results |= json.loads(step.output_of(command, "lessen bench memory"))
    step.publish(markdown(results, args), args.write)


if __name__ == "__main__":
    main()
