#!/usr/bin/env python3
"""Writes docs/results/search.md: architecture and bits searched together, beside architecture first and bits then, exact
allocation of bits, HAQ's search, and fixed bits.

    python3 bench/search.py experiments/search/cifar10.toml [FILE..] [--out runs/search] [--only NAME] [--rows FILE]
                            [--write PAGE]

A file names data, space, epochs and seeds. Each network is a folder that `lessen search` wrote, and is then trained from
scratch by the folder's own recipe with its bits; its error is on the test split. What is there already is not done again,
so the same command goes on after a crash. --only does the searches and trainings whose name has this part, and --write
writes the page of what is there: a cell without a run is a dash. --rows keeps the figures of each network and seed in a
JSON file: what the file has is not run again, so that seeds can be added after the folders of earlier ones are gone.
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
ROWS = "docs/results/search/rows.json"
FIXED = (8, 4, 3, 2)
# What the program says of a loss that is NaN.
DIVERGED = "is no number (NaN)"
METHODS = ("HAQ", "exact", "architecture, then HAQ", "architecture, then exact", "joint")


def settings(values, section):
    """--set arguments of a table of keys."""
    found = []
    for name, value in values.items():
        shown = json.dumps(value) if isinstance(value, (bool, list)) else str(value)
        found += ["--set", f"{section}.{name}={shown}"]
    return found


def kept_rows(args):
    """The figures that the file of --rows has: by experiment, network and seed."""
    if not os.path.exists(args.rows):
        return {}
    with open(args.rows, encoding="utf-8") as file:
        return json.load(file)


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
        for name, rows in kept_rows(args).get(self.plan["title"], {}).items():
            self.results[name] = {int(seed): row for seed, row in rows.items()}

    def wanted(self, name):
        return not self.args.no_run and (self.args.only is None or self.args.only in name)

    def has(self, name, seed):
        """Whether the figures of a network are there."""
        return seed in self.results.get(name, {})

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
            try:
                self.call(command, f"{name}, seed {seed}: training")
                got = json.loads(self.call(["eval", out, "--split", "test", "--json"], None))
            except Refused as refusal:
                if DIVERGED not in str(refusal):
                    raise
                got = {"test_accuracy": None}
            step.write_aside(scores, json.dumps(got))
        with open(scores, encoding="utf-8") as file:
            accuracy = json.load(file)["test_accuracy"]
        row = {
            "error": None if accuracy is None else 100 * (1 - accuracy),
            "size": found["size_mb"],
            "energy": found["energy_mj"],
            "latency": found["latency_ms"],
            "b1": found["mean_bits_pointwise"],
            "b2": found["mean_bits_depthwise"],
            "commit": commit(),
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
                    if not self.has(f"{network}, {bits} bits", seed):
                        self.one(f"{network}, {bits} bits", seed, keys, 1e6)
        return self

    def of_lambda(self, size, seed):
        """The joint search at a lambda, and those that are compared with it."""
        plan = self.plan
        lam, share, fixed = plan["lambdas"][size], plan["shares"][size], plan["bits"]
        if all(self.has(f"{name}, {size}", seed) for name in METHODS):
            return
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


def published(name):
    """The published figures of a network, in one cell."""
    figures = PUBLISHED.get(name)
    return "–" if figures is None else " / ".join("–" if figure is None else str(figure) for figure in figures)


def table(results):
    lines = [
        "| network | error, % | MB | mJ | ms | bits of 1 x 1 layers | of depthwise layers | published: %, MB, mJ, ms |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, rows in results.items():
        cells = [cell(rows, key, digits) for key, digits in (("error", 2), ("size", 4), ("energy", 4), ("latency", 4))]
        bits = [cell(rows, key, 2) for key in ("b1", "b2")]
        lines.append(f"| {name} | " + " | ".join([*cells, *bits, published(name)]) + " |")
    return lines


def diverged(results):
    """The trainings that ended with a loss that is NaN, which no error counts."""
    found = [f"{name} with seed {seed}" for name, rows in results.items() for seed in rows if rows[seed]["error"] is None]
    return ["", f"Diverged in training, so without an error: {', '.join(found)}."] if found else []


def figure(plan, results):
    """Figure 2.14 as a table: latency and error of constant and of mixed bits."""
    lines = ["| network | bits | ms | error, % |", "|---|---|---|---|"]
    for network in plan["networks"]:
        for bits in (8, 4, 2):
            if rows := results.get(f"{network}, {bits} bits"):
                lines.append(f"| {network} | {bits} | {cell(rows, 'latency', 4)} | {cell(rows, 'error', 2)} |")
    for name, rows in results.items():
        if not name.endswith(" bits"):
            lines.append(f"| {name} | mixed | {cell(rows, 'latency', 4)} | {cell(rows, 'error', 2)} |")
    return lines


def verdict(results, text, better, than, key="error"):
    """A claim: in the seeds that both have, the first mean is below the second by more than the pooled deviation."""
    rows, others = results.get(better, {}), results.get(than, {})
    seeds = [seed for seed in rows if seed in others and None not in (rows[seed][key], others[seed][key])]
    if not seeds:
        return f"- {text} **Not run.**"
    pair = [[own[seed][key] for seed in seeds] for own in (rows, others)]
    means = [statistics.mean(values) for values in pair]
    unit = {"error": "% error", "energy": "mJ"}.get(key, key)
    wins = sum(first < second for first, second in zip(*pair))
    told = f"{means[0]:.3f} and {means[1]:.3f} {unit}; so in {wins} of {len(seeds)} seeds"
    if len(seeds) == 1:
        word = "Held in the one seed that was run" if wins else "Did not hold in the one seed that was run"
        return f"- {text} **{word}**: {told}."
    pooled = (sum(statistics.variance(values) for values in pair) / 2) ** 0.5
    difference = means[1] - means[0]
    word = "Held" if difference > pooled else "Did not hold" if difference < -pooled else "Within the spread"
    return f"- {text} **{word}**: {told}, deviation {pooled:.3f}."


def depthwise_verdict(results):
    rows = [row for name, seeds in results.items() if name.startswith("joint") for row in seeds.values()]
    text = "Depthwise layers get fewer bits than 1 x 1 layers (figure 2.13)."
    if not rows:
        return f"- {text} **Not run.**"
    fewer = sum(row["b2"] < row["b1"] for row in rows)
    word = "Held" if fewer == len(rows) else "Did not hold" if fewer == 0 else "Mixed"
    means = [statistics.mean(row[key] for row in rows) for key in ("b2", "b1")]
    return f"- {text} **{word}**: in {fewer} of {len(rows)} networks of the joint search; {means[0]:.2f} and {means[1]:.2f} bits."


def bits_verdict(plan, results):
    """What bits alone change of the energy: the part of it that 2 bits take."""
    lines = []
    for network in plan["networks"]:
        many, few = (results.get(f"{network}, {bits} bits") for bits in (8, 2))
        if many and few:
            ratio = statistics.mean(row["energy"] for row in few.values())
            ratio /= statistics.mean(row["energy"] for row in many.values())
            lines.append((network, ratio))
    text = "Bits alone take most of a network's energy: HAQ's small MobileNetV2 has 0.23 of that with 8 bits in table 2.12."
    if not lines:
        return f"- {text} **Not run.**"
    held = all(ratio < 0.5 for _, ratio in lines)
    told = ", ".join(f"{network} {ratio:.3f}" for network, ratio in lines)
    why = (
        "" if held else " The results of a layer leave for DRAM as partial sums of 32 bits whatever its bits, and are most of the "
        "energy of layers that have few channels, so that the architecture decides the energy."
    )
    word = "Held" if held else "Did not hold"
    return f"- {text} **{word}**: 2 bits everywhere but at both ends have this part of the energy of 8: {told}.{why}"


def section(runs):
    plan, results = runs.plan, runs.results
    order = [f"{network}, {bits} bits" for network in plan["networks"] for bits in FIXED]
    for size in plan["lambdas"]:
        order += [f"{name}, {size}" for name in METHODS]
    results = {name: results[name] for name in order if name in results}
    lines = ["", f"## {plan['title']}", ""]
    lines += [line for part in plan["text"] for line in (part, "")]
    lines += ["Lambda: " + ", ".join(f"{size} {value}" for size, value in plan["lambdas"].items()) + ".", ""]
    lines += table(results) + diverged(results) + ["", "Figure 2.14, latency and error:", ""] + figure(plan, results) + [""]
    for size in plan["lambdas"]:
        claims = [
            ("Joint search has less error than HAQ's bits of MobileNetV2", f"HAQ, {size}", "error"),
            ("Joint search takes less energy than HAQ's bits of MobileNetV2", f"HAQ, {size}", "energy"),
            ("Joint search has less error than exact bits of MobileNetV2", f"exact, {size}", "error"),
            ("Joint search has less error than architecture first and HAQ's bits then (table 2.13)",
             f"architecture, then HAQ, {size}", "error"),
            ("Joint search takes less energy than architecture first and HAQ's bits then (table 2.13)",
             f"architecture, then HAQ, {size}", "energy"),
        ]
        lines += [verdict(results, f"{text}, {size}.", f"joint, {size}", than, key) for text, than, key in claims]
        for before in ("", "architecture, then "):
            lines.append(verdict(results, f"Exact bits have less error than HAQ's, {before}{size}.",
                                 f"{before}exact, {size}", f"{before}HAQ, {size}"))
    for key in ("energy", "error"):
        word = {"energy": "takes less energy", "error": "has less error"}[key]
        lines.append(verdict(results, f"Joint search, base, {word} than MobileNetV2 with 8 bits.", "joint, base",
                             "MobileNetV2, 8 bits", key))
    lines.append(depthwise_verdict(results))
    lines.append(bits_verdict(plan, results))
    return lines


def page(all_runs, args):
    every = [(seed, row) for runs in all_runs for rows in runs.results.values() for seed, row in rows.items()]
    ran, commits = {seed for seed, _ in every}, sorted({row["commit"] for _, row in every})
    at = f"commit{'s' * (len(commits) > 1)} {', '.join(commits)}"
    lines = [
        "# Search for architecture and precision",
        "",
        "Tables 2.12 and 2.13 of Jiang (2023) at a scale for two cores: which space, images and epochs stands with each table. "
        "Energy, time and size are of an image in a batch of 16 on BitFusion (`bf_e`); errors are of networks trained from "
        "scratch with their bits. A cell is the mean over the seeds ± the deviation of one, and the number of seeds; a dash was "
        "not run. Published figures are of CIFAR-100 at full size and stand beside for their order, not for their level: widths, "
        "epochs and images here are far below, so nothing here confirms or refutes them.",
        "",
        "```",
        f"python3 bench/search.py {' '.join(args.files)} --write docs/results/search.md",
        "```",
        "",
        f"- {datetime.date.today()}, {step.machine()}",
        f"- Seeds that were run, at least in part: {', '.join(map(str, sorted(ran))) or 'none'}, at {at}: "
        "[the figures of each](search/rows.json). Results depend on no clock and no load",
        "- Spaces, methods and their choices: [search](../reference/search.md); a step beside PyTorch: [search_step](search_step.md)",
    ]
    lines += [line for runs in all_runs for line in section(runs)]
    lines += [
        "",
        "## What needs more than two cores",
        "",
        "Table 2.11. With ImageNet as folders of classes and a recipe of its images, the space of table 2.10 at 224 pixels is "
        "searched, and what was found trained, by",
        "",
        "```",
        "lessen search imagenet.toml --data DIR --set search.space=imagenet --set search.lambda=0.01 --epochs 60 --out base",
        "lessen search imagenet.toml --data DIR --set search.space=imagenet --set search.lambda=0.1 --epochs 60 --out small",
        "lessen train base/recipe.toml --data DIR --set train.epochs=120",
        "```",
        "",
        "and tables 2.12 and 2.13 at full size by this page's command, with all images in `data` and without `width`, `depth`, "
        "`[image]` and the small numbers of epochs in the files of the experiments.",
    ]
    return "\n".join(lines) + "\n"


def commit():
    """The commit of the working tree, as far as there is one."""
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], stdout=subprocess.PIPE, cwd=step.ROOT, text=True)
    return done.stdout.strip() or "unknown"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--out", default="runs/search")
    parser.add_argument("--only", metavar="NAME")
    parser.add_argument("--seeds", type=int, nargs="+", metavar="N", help="these of the files' seeds alone")
    parser.add_argument("--no-run", action="store_true", help="searches and trains nothing: tables of what is there")
    parser.add_argument("--rows", metavar="FILE", default=ROWS)
    parser.add_argument("--write", metavar="PAGE")
    parser.add_argument("--lessen", help="the program; built in release where it is left out")
    args = parser.parse_args()
    if args.lessen is None:
        args.lessen = step.build_lessen()
    all_runs = [Runs(args, path).all() for path in args.files]
    rows = kept_rows(args)
    for runs in all_runs:
        rows[runs.plan["title"]] = {name: dict(sorted(of.items())) for name, of in sorted(runs.results.items())}
    os.makedirs(os.path.dirname(os.path.abspath(args.rows)), exist_ok=True)
    step.write_aside(args.rows, json.dumps(rows, indent=1) + "\n")
    text = page(all_runs, args)
    if args.write:
        step.write_aside(args.write, text)
    print(text)


if __name__ == "__main__":
    main()
