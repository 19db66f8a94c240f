#!/usr/bin/env python3
"""Writes docs/results/search.md: architecture and bits searched together, beside architecture first and bits then, exact
allocation of bits, HAQ's search, and fixed bits.

    python3 bench/search.py experiments/search/cifar10.toml [FILE..] [--out runs/search] [--only NAME] [--write PAGE]

A file names data, space, epochs and seeds. Each network is a folder that `lessen search` wrote, and is then trained from
scratch by the folder's own recipe with its bits; its error is on the test split. What is there already is not done again,
so the same command goes on after a crash. --only does the searches and trainings whose name has this part, and --write
writes the page of what is there: a cell without a run is a dash.
"""

import argparse
import datetime
import json
import os
import re
import statistics
import subprocess
import sys
import time
import tomllib

import step

# Tables 2.12 and 2.13 of Jiang (2023), CIFAR-100: error in %, MB, mJ, ms.
PUBLISHED = {
    "MobileNetV2, 8 bits": (21.85, 2.5, 5.09, 13.13),
    "FBNet-B, 8 bits": (21.36, 2.8, 8.27, 17.48),
    "HAQ, small": (22.93, 0.6, 1.17, 2.75),
    "joint, small": (22.16, 0.6, 1.00, 2.53),
    "HAQ, base": (21.89, 0.8, 1.53, 3.31),
    "joint, base": (21.27, 0.8, 1.21, 2.98),
    "architecture, then HAQ, small": (22.34, 0.5, 1.04, None),
    "architecture, then HAQ, base": (21.58, 0.9, 1.28, None),
}
FIXED = (8, 4, 3, 2)


def settings(values, section):
    """--set arguments of a table of keys."""
    found = []
    for name, value in values.items():
        shown = json.dumps(value) if isinstance(value, (bool, list)) else str(value)
        found += ["--set", f"{section}.{name}={shown}"]
    return found


class Refused(Exception):
    """What the program says where it ends with an error."""


class Runs:
    """The folders of an experiment."""

    def __init__(self, args, path):
        with open(path, "rb") as file:
            self.plan = tomllib.load(file)
        self.plan["seeds"] = [seed for seed in self.plan["seeds"] if args.seeds is None or seed in args.seeds]
        self.args, self.folder = args, os.path.join(args.out, os.path.splitext(os.path.basename(path))[0])
        self.results = {}

    def wanted(self, name):
        return not self.args.no_run and (self.args.only is None or self.args.only in name)

    def call(self, arguments, what):
        """The standard output of a command, whose other output goes to the log of the experiment."""
        os.makedirs(self.folder, exist_ok=True)
        began = time.monotonic()
        if what:
            print(what, end=" ... ", file=sys.stderr, flush=True)
        with open(os.path.join(self.folder, "log.txt"), "a+", encoding="utf-8") as log:
            at = log.seek(0, os.SEEK_END)
            done = subprocess.run([self.args.lessen, *arguments], stdout=subprocess.PIPE, stderr=log, cwd=step.ROOT, text=True)
            log.seek(at)
            said = log.read()
        if what:
            print(f"{time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        if done.returncode == 2:
            raise Refused(said.strip().splitlines()[-1])
        if done.returncode != 0:
            sys.exit(f"search: {what or arguments} ended with {done.returncode}: {said[-400:]}")
        return done.stdout

    def command(self, out, seed, keys, limit):
        """The command of a search."""
        plan = self.plan
        command = ["search", plan["recipe"], "--data", plan["data"], "--seed", str(seed), "--out", out, "--json"]
        command += ["--limit", f"{limit}mJ"] if limit else []
        command += settings({**plan["common"], **keys}, "search")
        return command + settings(plan.get("image", {}), "image")

    def least(self, architecture, bits):
        """The least cost of a network with some of these bits, as the refusal of a limit below it says."""
        keys = {"method": "allocation", "architecture": architecture, "bits": bits}
        try:
            self.call(self.command(os.path.join(self.folder, "none"), 1, keys, 1e-9), None)
        except Refused as refusal:
            return float(re.search(r"takes is ([0-9.]+)mJ", str(refusal)).group(1))
        sys.exit("search: a limit of 1e-9 mJ was met")

    def limit(self, architecture, wish, share):
        """The wish, where the network can have this cost with some bits; else a share of the way from 2 bits to 8."""
        least, most = self.least(architecture, "2"), self.least(architecture, "8")
        return wish if least <= wish <= most else least + share * (most - least)

    def search(self, name, seed, keys, limit=None):
        """The report of a search; none where it is neither there nor wanted. `limit` is a number, or tells it."""
        out = os.path.join(self.folder, f"{name} seed {seed}".replace(" ", "-").replace(",", ""))
        report = os.path.join(out, "report.json")
        if not os.path.exists(report):
            if not self.wanted(name):
                return None
            if os.path.exists(os.path.join(out, "search.toml")):
                self.call(["search", "--resume", "--out", out, "--json"], f"{name}, seed {seed}: search goes on")
            else:
                limit = limit() if callable(limit) else limit
                self.call(self.command(out, seed, keys, limit), f"{name}, seed {seed}: search")
        with open(report, encoding="utf-8") as file:
            found = json.load(file)
        found["folder"] = out
        return found

    def train(self, name, seed, found):
        """Trains the network of a search from scratch, and notes its error and costs."""
        out = os.path.join(found["folder"], "trained")
        scores = os.path.join(out, "test.json")
        if not os.path.exists(scores):
            if not self.wanted(name):
                return
            recipe = os.path.join(found["folder"], "recipe.toml")
            if os.path.isdir(out):
                command = ["train", "--resume", "--out", out, "--json"]
            else:
                command = ["train", recipe, "--data", self.plan["data"], "--out", out, "--json"]
                command += settings({"seed": seed, **self.plan["train"]}, "train")
            self.call(command, f"{name}, seed {seed}: training")
            got = json.loads(self.call(["eval", out, "--split", "test", "--json"], None))
            step.write_aside(scores, json.dumps(got))
        with open(scores, encoding="utf-8") as file:
            accuracy = json.load(file)["test_accuracy"]
        row = {
            "error": 100 * (1 - accuracy),
            "size": found["size_mb"],
            "energy": found["energy_mj"],
            "latency": found["latency_ms"],
            "b1": found["mean_bits_pointwise"],
            "b2": found["mean_bits_depthwise"],
            "found": found,
        }
        self.results.setdefault(name, {})[seed] = row

    def all(self):
        """Every search and training of the plan, one seed after another."""
        plan = self.plan
        for seed in plan["seeds"]:
            for size in plan["lambdas"]:
                self.of_lambda(size, seed)
            for network, file in plan["networks"].items():
                for bits in FIXED:
                    keys = {"method": "allocation", **plan["bits"], "architecture": file, "bits": str(bits), "epochs": 1}
                    self.one(f"{network}, {bits} bits", seed, keys, 1e6)
        return self

    def of_lambda(self, size, seed):
        """The joint search at a lambda, and those that are compared with it."""
        plan = self.plan
        lam, share, fixed = plan["lambdas"][size], plan["shares"][size], plan["bits"]
        joint = self.one(f"joint, {size}", seed, {"lambda": lam, **plan["search"]})
        if joint is None:
            return
        methods = {"exact": {"method": "allocation"}, "HAQ": {"method": "haq", **plan["haq"]}}
        keys = {"method": "architecture", "lambda": lam, **plan["search"]}
        first = self.search(f"architecture, {size}", seed, keys)
        files = {"": plan["networks"]["MobileNetV2"]}
        if first is not None:
            files["architecture, then "] = os.path.join(first["folder"], "architecture.json")
        for method, own in methods.items():
            for before, file in files.items():
                keys = {"architecture": file, **fixed, **own}
                self.one(f"{before}{method}, {size}", seed, keys, lambda: self.limit(file, joint["value"], share))

    def one(self, name, seed, keys, limit=None):
        """A search, and the training of its network."""
        found = self.search(name, seed, keys, limit)
        if found is not None:
            self.train(name, seed, found)
        return found


def cell(rows, key, digits):
    values = [row[key] for row in rows.values() if row[key] is not None]
    if not values:
        return "–"
    mean = f"{statistics.mean(values):.{digits}f}"
    return mean if len(values) == 1 else f"{mean} ± {statistics.stdev(values):.{digits}f} ({len(values)})"


def table(results):
    lines = ["| network | error, % | MB | mJ | ms | bits of 1 x 1 layers | of depthwise layers |", "|---|---|---|---|---|---|---|"]
    for name, rows in results.items():
        cells = [cell(rows, key, digits) for key, digits in (("error", 2), ("size", 4), ("energy", 4), ("latency", 4))]
        bits = [cell(rows, key, 2) for key in ("b1", "b2")]
        lines.append(f"| {name} | " + " | ".join(cells + bits) + " |")
    return lines


def verdict(results, text, better, than, key="error"):
    """A claim: the first mean is below the second by more than the pooled deviation."""
    pair = [list(results.get(name, {}).values()) for name in (better, than)]
    if not all(pair):
        return f"- {text} **Not run.**"
    means = [statistics.mean(row[key] for row in rows) for rows in pair]
    spreads = [statistics.variance(row[key] for row in rows) if len(rows) > 1 else 0.0 for rows in pair]
    pooled = (sum(spreads) / 2) ** 0.5
    difference = means[1] - means[0]
    word = "**Held**" if difference > pooled else "**Did not hold**" if difference < -pooled else "**Within the spread**"
    unit = {"error": "% error", "energy": "mJ"}.get(key, key)
    return f"- {text} {word}: {means[0]:.3f} and {means[1]:.3f} {unit}."


def depthwise_verdict(results):
    rows = [row for name, seeds in results.items() if name.startswith("joint") for row in seeds.values()]
    text = "Depthwise layers get fewer bits than 1 x 1 layers (figure 2.13)."
    if not rows:
        return f"- {text} **Not run.**"
    fewer = sum(row["b2"] < row["b1"] for row in rows)
    word = "**Held**" if fewer > len(rows) / 2 else "**Did not hold**"
    return f"- {text} {word}: in {fewer} of {len(rows)} networks of the joint search."


def section(runs):
    plan, results = runs.plan, runs.results
    lines = ["", f"## {plan['title']}", "", plan["text"], ""] + table(results) + [""]
    for size in plan["lambdas"]:
        claims = [
            ("Joint search has less error than HAQ's bits of MobileNetV2 at its energy", f"HAQ, {size}"),
            ("Joint search has less error than exact bits of MobileNetV2 at its energy", f"exact, {size}"),
            ("Joint search has less error than architecture first and HAQ's bits then (table 2.13)",
             f"architecture, then HAQ, {size}"),
        ]
        lines += [verdict(results, f"{text}, {size}.", f"joint, {size}", than) for text, than in claims]
    lines.append(verdict(results, "Joint search takes less energy than MobileNetV2 with 8 bits.", "joint, base",
                         "MobileNetV2, 8 bits", "energy"))
    lines.append(depthwise_verdict(results))
    return lines


def page(all_runs, args, load):
    lines = [
        "# Search for architecture and precision",
        "",
        "Tables 2.12 and 2.13 of Jiang (2023) at a scale for two cores: which space, images and epochs stands with each table. "
        "Energy, time and size are of an image in a batch of 16 on BitFusion (`bf_e`, one pass for each group of a depthwise "
        "layer); errors are of networks trained from scratch with their bits. A cell is the mean over the seeds ± the deviation "
        "of one, and the number of seeds; a dash was not run. Widths, epochs and images are far below the dissertation's, so "
        "that nothing here confirms or contradicts its figures.",
        "",
        "```",
        f"python3 bench/search.py {' '.join(args.files)} --write docs/results/search.md",
        "```",
        "",
        f"{datetime.date.today()}, {step.machine()}.",
    ]
    lines += [line for runs in all_runs for line in section(runs)]
    lines += ["", "## Published", "", "| network | error, % | MB | mJ | ms |", "|---|---|---|---|---|"]
    for name, figures in PUBLISHED.items():
        lines.append(f"| {name} | " + " | ".join("–" if figure is None else str(figure) for figure in figures) + " |")
    lines += [
        "",
        "With ImageNet, as folders of classes, the space of table 2.10 is searched by "
        "`lessen search imagenet.toml --data DIR --set search.space=imagenet --set search.lambda=0.01 --epochs 60`, and the "
        "network that it finds is trained by its own recipe.",
    ]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--out", default="runs/search")
    parser.add_argument("--only", metavar="NAME")
    parser.add_argument("--seeds", type=int, nargs="+", metavar="N", help="these of the files' seeds alone")
    parser.add_argument("--no-run", action="store_true", help="searches and trains nothing: tables of what is there")
    parser.add_argument("--write", metavar="PAGE")
    parser.add_argument("--lessen", help="the program; built in release where it is left out")
    args = parser.parse_args()
    load = step.load_before("search")
    if args.lessen is None:
        args.lessen = step.build_lessen()
    text = page([Runs(args, path).all() for path in args.files], args, load)
    if args.write:
        step.write_aside(args.write, text)
    print(text)


if __name__ == "__main__":
    main()
