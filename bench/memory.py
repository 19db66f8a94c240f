#!/usr/bin/env python3
"""The memory of whole runs: what Lessen announces, and the highest resident size of the process, of runs of all kinds.

    python3 bench/memory.py [--runs adder,thucnews] [--threads 2] [--data data] [--write FILE]

Each run trains with evaluations and checkpoints, once without a budget and under two budgets; other processes resume it
and evaluate its model. An experiment trains several runs in one process. The highest resident size is that of
/proc/PID/status, which is read until the process ends, and for a training also the one that its report has.
"""

import argparse
import datetime
import json
import os
import shutil
import subprocess
import sys
import time

import step

MIB = 1 << 20
SMALL = ["model.layers=2", "model.width=128", "model.heads=4", "model.ffn=512"]
EVERY = ["train.eval_every=10", "train.checkpoint_every=10"]
WORDS = "data.tokenizer={data}/tokenizers/bert-base-uncased"
# Name: description, recipe, data, settings, other flags. {data} is the folder of data, {work} that of the runs.
RUNS = {
    "adder": ("sums", "adder", None, ["train.steps=40", *EVERY], []),
    "thucnews": ("titles by characters, recipe `thucnews`", "thucnews", "{data}/thucnews", ["train.steps=60", *EVERY], []),
    "titles": (
        "titles, batches of similar lengths, Adafactor",
        "thucnews",
        "{data}/thucnews",
        ["train.steps=40", "data.group=true", "optimizer.kind=adafactor", *EVERY],
        [],
    ),
    "cola": ("CoLA by word pieces", "glue", "{data}/glue", ["data.task=CoLA", WORDS, "train.steps=40", *EVERY], []),
    "sst2": (
        "SST-2, batches of similar lengths",
        "glue",
        "{data}/glue",
        ["data.task=SST-2", "data.group=true", WORDS, "train.steps=30", *EVERY],
        [],
    ),
    "rte": (
        "pairs of RTE, 8-bit moments, two batches a step",
        "glue",
        "{data}/glue",
        ["data.task=RTE", WORDS, "train.steps=20", "train.accumulate=2", "optimizer.kind=adamw_8bit", *EVERY],
        [],
    ),
    "stsb": ("numbers for pairs of STS-B", "glue", "{data}/glue", ["data.task=STS-B", WORDS, "train.steps=20", *EVERY], []),
    "minilm": (
        "CoLA with BERT of MiniLM's size (6 x 384)",
        "bert-classifier",
        "{data}/glue/CoLA",
        [
            "data.format=glue",
            "data.task=CoLA",
            WORDS,
            "model.layers=6",
            "model.width=384",
            "model.ffn=1536",
            "train.steps=12",
            "train.eval_every=6",
            "train.checkpoint_every=6",
        ],
        [],
    ),
    "base": (
        "titles with a model of BERT-base's size (12 x 768), evaluated on 200 of them",
        "bert-classifier",
        "{work}/titles",
        ["data.max_length=32", "train.steps=6", "train.eval_every=3", "train.checkpoint_every=3"],
        [],
    ),
    "lora": (
        "LoRA of rank 8 on the model of the run `thucnews`",
        "bert-classifier",
        "{data}/thucnews",
        ["lora.rank=8", "lora.targets=qkv,out", "train.steps=30", "data.max_length=32", *EVERY],
        ["--init", "{work}/free-thucnews/model"],
    ),
    "again": (
        "all parameters of that model",
        "bert-classifier",
        "{data}/thucnews",
        ["train.steps=30", "data.max_length=32", *EVERY],
        ["--init", "{work}/free-thucnews/model"],
    ),
    "masked": (
        "masked tokens of a text",
        "bert-mlm",
        "{work}/text.txt",
        ["train.steps=12", *SMALL, *EVERY],
        [],
    ),
    "gpt2": (
        "a language model with learned positions",
        "gpt2-lm",
        "{work}/text.txt",
        ["train.steps=12", "data.max_length=128", *SMALL, *EVERY],
        [],
    ),
    "llama": (
        "a language model with rotary positions",
        "llama-lm",
        "{work}/text.txt",
        ["train.steps=12", "data.max_length=128", "model.kv_heads=2", *SMALL, *EVERY],
        [],
    ),
    "shakespeare": ("characters", "shakespeare", "{work}/text.txt", ["train.steps=12", *EVERY], []),
    "late": (
        "characters, updates in the next step",
        "shakespeare",
        "{work}/text.txt",
        ["train.steps=12", "optimizer.placement=forward-fused", *EVERY],
        [],
    ),
    "mnist": ("digits by a small convolutional network", "mnist", "{data}/mnist", ["train.steps=30", *EVERY], []),
    "cifar10": (
        "CIFAR-10 by ResNet-20",
        "cifar10",
        "{data}/cifar10",
        ["train.steps=6", "train.eval_every=3", "train.checkpoint_every=3"],
        [],
    ),
    "vit": (
        "CIFAR-10 by a small ViT",
        "vit",
        "{data}/cifar10",
        ["model.layers=2", "model.width=64", "model.heads=2", "model.ffn=128", "train.steps=6"],
        [],
    ),
}
EXPERIMENT = """title = "Memory"
recipe = "adder"
page = "experiment.md"
seeds = [1, 2]
[set]
train = { batch = 64, steps = 12, eval_every = 4, warmup = 2 }
[[axis]]
key = "model.ffn"
values = [1024, 128, 512]
[[measure]]
name = "loss"
value = "dev_loss"
"""


class Command:
    """A process of Lessen: what it printed, and its highest resident size in bytes."""

    def __init__(self, lessen, args, threads, cwd):
        environment = dict(os.environ, LESSEN_THREADS=str(threads))
        self.resident = 0
        with open(os.path.join(cwd, "out"), "w+b") as out, open(os.path.join(cwd, "err"), "w+b") as err:
            process = subprocess.Popen([lessen, *args], stdout=out, stderr=err, env=environment, cwd=cwd)
            while process.poll() is None:
                self.resident = max(self.resident, peak_of(process.pid))
                time.sleep(0.002)
            out.seek(0)
            err.seek(0)
            self.printed, said = out.read().decode(), err.read().decode(errors="replace")
        if process.returncode != 0:
            last = said.strip().splitlines()[-1:] or ["no message"]
            sys.exit(f"memory: lessen {' '.join(args)} ended with {process.returncode}: {last[0]}")

    def json(self):
        return json.loads(self.printed)


def peak_of(pid):
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as status:
            rows = dict(line.split(":", 1) for line in status)
        return int(rows["VmHWM"].split()[0]) << 10
    except (OSError, KeyError):
        # The process is about to end.
        return 0


class Bench:
    def __init__(self, lessen, data, work, threads):
        self.lessen, self.data, self.work, self.threads = lessen, data, work, threads

    def run(self, *args):
        return Command(self.lessen, list(args), self.threads, self.work)

    def arguments_of(self, name):
        _, recipe, data, settings, flags = RUNS[name]
        fill = lambda text: text.format(data=self.data, work=self.work)
        args = [recipe] + ([] if data is None else ["--data", fill(data)])
        return args + [word for setting in settings for word in ("--set", fill(setting))] + [fill(flag) for flag in flags]

    def trained(self, what, args, budget=None):
        command = self.run("train", *args, "--json", *([] if budget is None else ["--budget", f"{budget}B"]))
        session = command.json()["session_bytes"]
        resident = max(command.resident, session["resident"])
        return {"what": what, "budget": budget, **session, "resident": resident}, command.json()

    def rows_of(self, name):
        """The processes of a run: without a budget, resumed, evaluated, and under two budgets."""
        args = self.arguments_of(name)
        folder = lambda what: os.path.join(self.work, f"{what}-{name}")
        for what in ("free", "floor", "middle"):
            shutil.rmtree(folder(what), ignore_errors=True)
        plan = self.run("plan", *args, "--json", "--cost", "measured").json()
        floor, needed = plan["floor_bytes"] + MIB, plan["unbounded_bytes"]
        found, parts = [], None
        row, report = self.trained("training", [*args, "--out", folder("free")])
        parts = report["account_bytes"]
        found.append(row)
        longer = ["--resume", "--out", folder("free"), "--steps", str(report["steps"] + 4)]
        found.append(self.trained("resumed", longer)[0])
        evaluated = self.run("eval", folder("free"), "--json")
        found.append({"what": "evaluation", "budget": None, "planned": None, "resident": evaluated.resident})
        for what, budget in (("floor", floor), ("middle", (floor + max(needed, floor)) // 2)):
            found.append(self.trained("training", [*args, "--out", folder(what)], budget)[0])
            longer = ["--resume", "--out", folder(what), "--steps", str(report["steps"] + 4)]
            found.append(self.trained("resumed", longer, budget + 4 * MIB)[0])
            shutil.rmtree(folder(what))
        found[2]["planned"] = max(row["planned"] for row in found[:2])
        return {"found": found, "parts": parts}

    def rows_of_experiment(self):
        shutil.rmtree(os.path.join(self.work, "experiment"), ignore_errors=True)
        with open(os.path.join(self.work, "experiment.toml"), "w", encoding="utf-8") as file:
            file.write(EXPERIMENT)
        self.run("experiment", "experiment.toml", "--out", "experiment")
        found = []
        for folder, _, files in sorted(os.walk(os.path.join(self.work, "experiment"))):
            if "report.json" in files:
                with open(os.path.join(folder, "report.json"), encoding="utf-8") as file:
                    session = json.load(file)["session_bytes"]
                found.append({"what": os.path.relpath(folder, self.work), "budget": None, **session})
        return {"found": found, "parts": None}


def most_of(row):
    """The most bytes that may be resident."""
    if row["budget"] is not None:
        return row["budget"]
    return row["planned"] + row["planned"] // 20 + 8 * MIB


def mib(value):
    return "" if value is None else f"{value / MIB:,.1f}"


def failures(results):
    for name, result in results.items():
        for row in result["found"]:
            if row["resident"] > most_of(row):
                yield f"{name}, {row['what']}: {mib(row['resident'])} MiB resident, {mib(most_of(row))} allowed"
            if row.get("measured", 0) > row["planned"]:
                yield f"{name}, {row['what']}: {mib(row['measured'])} MiB allocated, {mib(row['planned'])} planned"


def titles_in(folder, source):
    """Copies the first titles of a data set to a folder."""
    os.makedirs(folder, exist_ok=True)
    for name, lines in (("class.txt", None), ("train.txt", 3000), ("dev.txt", 200)):
        with open(os.path.join(source, name), encoding="utf-8") as file:
            text = file.readlines()[:lines]
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.writelines(text)


HEADS = ("process", "budget", "planned", "allocated", "resident", "at most", "holds")


def markdown(results, args):
    text = [
        "# The memory of whole runs",
        "",
        "Written by `bench/memory.py`, which anyone can run again:",
        "",
        "```",
        f"python3 bench/memory.py --runs {','.join(results)} --threads {args.threads}",
        "```",
        "",
        f"- Date: {datetime.date.today().isoformat()}",
        f"- Machine: {step.machine()}; {args.threads} threads",
        f"- Versions: {step.versions(sys.executable)}",
        "- All figures are of one process, in MiB. Planned is what the process announces before its first step; allocated is"
        " the most that its allocator had given out at once; resident is its highest resident size (`VmHWM`), with program,"
        " libraries and stacks",
        "- Required: under a budget, resident is at most the budget; else at most planned + 5 % + 8 MiB. An evaluation"
        " announces nothing and is held to what its run has planned. The tightest budget is 1 MiB above the floor that"
        " `lessen plan` names",
    ]
    missed = list(failures(results))
    text += [f"- Not met: {line}" for line in missed] or ["- All requirements are met"]
    for name, result in results.items():
        title = RUNS[name][0] if name in RUNS else "six runs of an experiment, in one process"
        text += ["", f"## {name}: {title}", ""]
        text += [f"| {' | '.join(HEADS)} |", "|---" * len(HEADS) + "|"]
        for row in result["found"]:
            allocated = row.get("measured")
            holds = "yes" if row["resident"] <= most_of(row) else "**NO**"
            figures = (row["budget"], row["planned"], allocated, row["resident"], most_of(row))
            text.append(f"| {row['what']} | {' | '.join(mib(figure) for figure in figures)} | {holds} |")
        if result["parts"]:
            parts = ", ".join(f"{part} {mib(size)}" for part, size in result["parts"].items() if size is not None)
            text += ["", f"The account of the first process: {parts}."]
    return "\n".join(text) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", default=",".join([*RUNS, "experiment"]))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--data", default=os.path.join(step.ROOT, "data"))
    parser.add_argument("--work", default=os.path.join(step.ROOT, "target", "memory"))
    parser.add_argument("--lessen", help="use this lessen and build none")
    parser.add_argument("--write", metavar="FILE", help="also write the results as Markdown")
    args = parser.parse_args()
    names = args.runs.split(",")
    for name in names:
        if name not in RUNS and name != "experiment":
            sys.exit(f"memory: there is no run {name!r}; take from {', '.join(RUNS)}, experiment")
    lessen = os.path.abspath(args.lessen) if args.lessen else step.build_lessen()
    work = os.path.abspath(args.work)
    os.makedirs(work, exist_ok=True)
    with open(os.path.join(work, "text.txt"), "w", encoding="utf-8") as file:
        file.writelines(f"the {i} quick brown foxes jump over {7 * i % 13} lazy dogs and go home.\n" for i in range(8000))
    titles_in(os.path.join(work, "titles"), os.path.join(args.data, "thucnews"))
    bench, results = Bench(lessen, os.path.abspath(args.data), work, args.threads), {}
    for name in names:
        print(f"{name} ...", file=sys.stderr, flush=True)
        results[name] = bench.rows_of_experiment() if name == "experiment" else bench.rows_of(name)
    text = markdown(results, args)
    print(text)
    if args.write:
        step.write_aside(args.write, text)
    if any(True for _ in failures(results)):
        sys.exit("memory: not all requirements are met")


if __name__ == "__main__":
    main()
