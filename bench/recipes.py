#!/usr/bin/env python3
"""Runs the built-in recipes to their end and checks what they promise.

    python3 bench/recipes.py --titles DIR --text FILE [--only adder,thucnews,shakespeare] [--write FILE]

--titles is a folder with `train.txt`, `dev.txt` (lines of title<TAB>label) and `class.txt`, --text a plain
text file. Builds lessen in release (or takes --lessen PATH), then trains one recipe after another with its
defaults, evaluates each run again with `lessen eval`, and asks for

    adder        at least 99 % of the held-out sums within 2 minutes of training
    thucnews     at least 88 % of dev.txt after 3 epochs
    shakespeare  a validation loss below 1.75 nats per character within 10 minutes
    each         measured memory of the process at most what was planned, and within 1 MiB of it; `lessen eval` gives
                 the run's own figure again

The table goes to stdout; --write also writes it as Markdown. Exit code 1 where something is not met.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

from step import ROOT, build_lessen, load_before, machine, mib, write_aside

RECIPES = {
    "adder": ("dev_accuracy", 0.99, 120),
    "thucnews": ("dev_accuracy", 0.88, None),
    "shakespeare": ("dev_loss", 1.75, 600),
}


def call(command):
    """Runs lessen; returns its JSON object and the seconds it took."""
    begin = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, cwd=ROOT, text=True)
    if done.returncode != 0:
        sys.exit(f"recipes: {' '.join(command)} ended with exit code {done.returncode}; its message stands above")
    return json.loads(done.stdout), time.perf_counter() - begin


def measure(lessen, recipe, data, work):
    out = os.path.join(work, recipe)
    command = [lessen, "train", recipe, "--out", out, "--json"] + (["--data", data] if data else [])
    report, seconds = call(command)
    again, _ = call([lessen, "eval", out, "--json"])
    return dict(report, seconds=seconds, again=again)


def rows(recipe, got):
    """Lines of name, value, whether the requirement is met (None where there is none)."""
    key, limit, most_seconds = RECIPES[recipe]
    value, again = got[key], got["again"][key]
    if key == "dev_accuracy":
        shown, met, form = f"{100 * value:.2f} %", value >= limit, f"at least {100 * limit:.0f} %"
    else:
        shown, met, form = f"{value:.4f} nats per character", value < limit, f"below {limit}"
    planned, measured = got["peak_bytes"]["planned"], got["peak_bytes"]["measured"]
    in_time = most_seconds is None or got["seconds"] <= most_seconds
    time_form = "" if most_seconds is None else f"at most {most_seconds} s"
    return [
        ("result on dev", shown, met, form),
        ("`lessen eval` of the run", f"{again:.6f} against {value:.6f}", again == value, "the same"),
        ("whole command, data and evaluation included", f"{got['seconds']:.0f} s", in_time, time_form),
        ("steps, median of one", f"{got['steps']}, {got['step_ms']:.1f} ms", None, ""),
        ("compiled in", f"{got['compile_ms']:.1f} ms", None, ""),
        ("planned peak", f"{mib(planned)} MiB", None, ""),
        ("measured peak", f"{mib(measured)} MiB", 0 <= planned - measured <= 2**20, "as planned, within 1 MiB"),
    ]


def markdown(results, load):
    head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    text = [
        "# The built-in recipes",
        "",
        "Written by `bench/recipes.py`, which anyone can run again:",
        "",
        "```",
        "python3 bench/recipes.py --titles DIR --text FILE --write docs/results/recipes.md",
        "```",
        "",
        f"- Machine: {machine()}; load before the first run {load:.2f}",
        f"- Commit {head.stdout.strip()}; all recipes with their defaults, `train.seed = 1`, all cores. One run each:"
        " results are the same bits on any number of threads",
        "- Titles: 89,755 Chinese news titles of 10 classes to learn from, 10,000 in `dev.txt`; text: tiny"
        " Shakespeare, whose end is held out",
    ]
    for recipe, got in results.items():
        text += ["", f"## {recipe}", "", "| | | required |", "|---|---|---|"]
        for name, value, met, form in rows(recipe, got):
            needs = f"{'yes' if met else 'NO'} ({form})" if form else ""
            text.append(f"| {name} | {value} | {needs} |")
        if got["showcase"]:
            text += ["", "What the run showed at its end:", "", "```text"]
            text += [line for piece in got["showcase"] for line in piece.split("\n")] + ["```"]
    return "\n".join(text) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--titles", metavar="DIR", help="for thucnews")
    parser.add_argument("--text", metavar="FILE", help="for shakespeare")
    parser.add_argument("--only", default=",".join(RECIPES))
    parser.add_argument("--lessen", help="use this lessen and build none")
    parser.add_argument("--work", metavar="DIR", help="keep the runs here")
    parser.add_argument("--write", metavar="FILE", help="also write the results as Markdown")
    args = parser.parse_args()
    data = {"adder": None, "thucnews": args.titles, "shakespeare": args.text}
    only = args.only.split(",")
    for recipe in only:
        if recipe not in RECIPES:
            sys.exit(f"recipes: there is no recipe {recipe!r} here; take from {', '.join(RECIPES)}")
        if recipe != "adder" and data[recipe] is None:
            parser.error(f"{recipe} needs {'--titles' if recipe == 'thucnews' else '--text'}")
    data = {name: path and os.path.abspath(path) for name, path in data.items()}
    load = load_before("recipes")
    lessen = os.path.abspath(args.lessen) if args.lessen else build_lessen()

    results, met = {}, True
    with tempfile.TemporaryDirectory() as temporary:
        for recipe in only:
            got = measure(lessen, recipe, data[recipe], args.work or temporary)
            results[recipe] = got
            print(recipe)
            for name, value, ok, form in rows(recipe, got):
                met &= ok is not False
                print(f"   {'    ' if ok is None else 'ok  ' if ok else 'FAIL'} {name}: {value} {form and f'({form})'}")
    if args.write:
        write_aside(args.write, markdown(results, load))
    print("recipes: met" if met else "recipes: NOT met")
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
