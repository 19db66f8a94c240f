#!/usr/bin/env python3
"""Writes docs/results/int8_accuracy.md: what models that are trained here lose when they are computed in integers, without
calibration, by activation and task (table 3 of the HeLU paper), on images and in perplexity, and the time of half
precision and of integers (its figures 3 and 4).

    python3 bench/int8_accuracy.py --glue DATA --tokenizer DIR [--cifar DATA] [--text FILE] [--out runs/int8] [--seeds 1,2]
                                   [--tasks SST-2,CoLA,..] [--lessen PATH] [--write PAGE]

Each network is a run in the folder OUT, and is not trained again where it is there; scores are kept beside it.
"""

import argparse
import datetime
import json
import os
import statistics
import sys

import step
import verdicts

# Steps of each task, and its longest text in tokens.
TASKS = {
    "SST-2": (2000, 32),
    "CoLA": (534, 32),
    "MRPC": (345, 64),
    "RTE": (234, 128),
    "STS-B": (540, 64),
    "WNLI": (60, 128),
}
ACTIVATIONS = {"ReLU": "relu", "GELU": "gelu", "HeLU": "helu:0.05"}
# Table 3 of the HeLU paper: points of the score in integers beyond that in floats.
PUBLISHED = {
    "ReLU": {"SST-2": 0.4587, "STS-B": 0.0284, "MRPC": 0.1316, "RTE": 0.3610, "WNLI": -2.8169},
    "GELU": {"SST-2": 0.3440, "STS-B": -0.0123, "MRPC": 0.0535, "RTE": 1.0830, "WNLI": 0.0},
    "HeLU": {"SST-2": 0.3440, "STS-B": 0.2296, "MRPC": 0.1251, "RTE": 0.7220, "WNLI": 4.2254},
}
# The score of the paper's table in what `lessen eval` calls it.
SCORES = {"STS-B": "dev_spearman", "MRPC": "dev_f1", "CoLA": "dev_matthews"}
CIFAR_EPOCHS = 6
TEXT_STEPS = 600
# Precisions that score classes, and those that score texts.
CLASSES, TEXTS = ("f32", "int8"), ("f32", "bf16", "int8", "int4")
BATCH, REQUESTS = 256, 10
# Points that a score may lose on SST-2 and CIFAR-10.
LIMIT = 0.3


def run(args, command, what):
    print(what, file=sys.stderr, flush=True)
    return step.output_of([args.lessen, *command], what)


def kept(path, make):
    """What a JSON file has; it is made where it is not there."""
    if not os.path.exists(path):
        found = make()
        with open(path, "w", encoding="utf-8") as file:
            json.dump(found, file)
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def scores(args, folder, train, split, precisions=CLASSES):
    """The scores of a run in each precision."""
    if not os.path.exists(os.path.join(folder, "report.json")):
        resume = os.path.isdir(folder)
        run(args, ["train", *train, "--out", folder, "--json"] if not resume else ["train", "--resume", "--out", folder, "--json"], folder)
    both = {}
    for precision in precisions:
        command = ["eval", folder, "--split", split, "--precision", precision, "--json"]
        path = os.path.join(folder, f"{precision}.json")
        both[precision] = kept(path, lambda: json.loads(run(args, command, f"{folder}: {precision}")))
    return both


def of_glue(args, task, activation, seed):
    steps, length = TASKS[task]
    data = {"path": args.glue, "task": task, "tokenizer": args.tokenizer, "max_length": length}
    train = {"steps": steps, "lr": 1e-3, "warmup": 30, "eval_every": 0, "checkpoint_every": 0, "seed": seed}
    keys = [f"data.{key}={value}" for key, value in data.items()] + [f"train.{key}={value}" for key, value in train.items()]
    keys.append(f"model.activation={ACTIVATIONS[activation]}")
    folder = os.path.join(args.out, f"{task}-{activation}-{seed}")
    return folder, scores(args, folder, ["glue", *(word for key in keys for word in ("--set", key))], "dev")


def of_cifar(args, seed):
    keys = [f"train.epochs={CIFAR_EPOCHS}", f"train.seed={seed}", "train.eval_every=0", "train.checkpoint_every=0"]
    command = ["cifar10", "--data", args.cifar, *(word for key in keys for word in ("--set", key))]
    return scores(args, os.path.join(args.out, f"CIFAR-10-{seed}"), command, "test")


def of_text(args):
    keys = [f"train.steps={TEXT_STEPS}", "train.eval_every=0", "train.checkpoint_every=0"]
    command = ["shakespeare", "--data", args.text, *(word for key in keys for word in ("--set", key))]
    return scores(args, os.path.join(args.out, "text"), command, "dev", TEXTS)


def points(both, name):
    """The score in floats, and points of that in integers beyond it."""
    before, after = (100 * both[precision][name] for precision in ("f32", "int8"))
    return before, after - before


def times(args, folder):
    """The times of a batch in bf16 and in int8."""
    found = {}
    for precision in ("bf16", "int8"):
        command = ["bench", "predict", folder, "--batch", str(BATCH), "--requests", str(REQUESTS), "--precision", precision]
        found[precision] = json.loads(run(args, [*command, "--json"], f"{folder}: time in {precision}"))
    return found


def cell(values, digits=2):
    if not values:
        return "–"
    spread = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):+.{digits}f}{spread}"


def table(names, rows):
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def claims(tasks, glue, cifar):
    """What is claimed, its numbers seed by seed, and a note."""
    change = {key: [points(both, SCORES.get(key[0], "dev_accuracy"))[1] for both in found] for key, found in glue.items()}
    mean = {name: [statistics.mean(own) for own in zip(*(change[task, name] for task in tasks))] for name in ACTIVATIONS}
    apart = [helu - (relu + gelu) / 2 for helu, relu, gelu in zip(mean["HeLU"], mean["ReLU"], mean["GELU"])]
    yield "HeLU loses less than ReLU and GELU", apart, f"by {cell(apart)} points"
    lost = {}
    if "SST-2" in tasks:
        lost["SST-2"] = [statistics.mean(own) for own in zip(*(change["SST-2", name] for name in ACTIVATIONS))]
    if cifar:
        found = [points(both, "test_accuracy") for both in cifar]
        level = statistics.mean(level for level, _ in found)
        lost[f"CIFAR-10 (ResNet-20, {CIFAR_EPOCHS} epochs, {level:.1f} %)"] = [own for _, own in found]
    for what, own in lost.items():
        yield f"At most {LIMIT} points lost on {what}", [LIMIT + value for value in own], f"{cell(own)} points"


def slower(speeds):
    """The times of HeLU beside those of GELU."""
    helu, gelu = (next(of for name, of in speeds.items() if name.startswith(own)) for own in ("HeLU", "GELU"))
    ratios = [f"{helu[precision]['p50_ms'] / gelu[precision]['p50_ms']:.2f} in {precision}" for precision in ("bf16", "int8")]
    return f"The paper has HeLU faster than GELU in both; here it takes {' and '.join(ratios)} of GELU's time."


def page(args, tasks, glue, cifar, texts, speeds):
    seeds = args.seeds.split(",")
    rows, levels = [], []
    for activation in ACTIVATIONS:
        of_tasks = [[points(both, SCORES.get(task, "dev_accuracy")) for both in glue[task, activation]] for task in tasks]
        changes = [[change for _, change in found] for found in of_tasks]
        means = [statistics.mean(found) for found in changes]
        rows.append([activation, *map(cell, changes), f"{statistics.mean(means):+.2f}"])
        published = PUBLISHED[activation]
        rows.append(["the paper's", *(f"{published[task]:+.2f}" if task in published else "–" for task in tasks), ""])
        levels.append([activation, *(f"{statistics.mean(level for level, _ in found):.1f}" for found in of_tasks)])
    claimed = list(claims(tasks, glue, cifar))
    said = verdicts.judged([numbers for _, numbers, _ in claimed])
    text = [
        "# What integers lose",
        "",
        "Written by",
        "",
        "```",
        "python3 bench/int8_accuracy.py"
        + "".join(f" --{name} {value}" for name in ("glue", "tokenizer", "cifar", "text", "seeds", "tasks") if (value := getattr(args, name))),
        "```",
        "",
        f"- Date: {datetime.date.today().isoformat()}",
        f"- Machine: {step.machine()}",
        f"- Versions: {step.versions(sys.executable)}",
        f"- Seeds {', '.join(seeds)}; differences are points of the score with `--precision int8`, without calibration, beyond"
        " that in `f32`, of the same trained network: mean and deviation over the seeds",
        "- Weaker than the paper: encoders of 2 layers of width 128 that learn from scratch ("
        + ", ".join(f"{task} {TASKS[task][0]} steps" for task in tasks)
        + " of 32 texts), where it has pretrained BERTs of 12 layers and one seed; MNLI, QQP and QNLI are not at hand.",
        "",
        "## Table 3: int8 less f32, in points",
        "",
        *table(["activation", *tasks, "mean"], rows),
        "",
        "Scores in `f32`, in percent (accuracy; MRPC F1, STS-B Spearman's correlation, CoLA Matthews' correlation):",
        "",
        *table(["activation", *tasks], levels),
        "",
        *(f"- {what}: {verdict}; {note}." for (what, _, note), verdict in zip(claimed, said)),
        "",
        verdicts.about(len(claimed)),
    ]
    if texts:
        text += [
            "",
            f"## Perplexity of a GPT of 4 layers of width 192, on characters, after {TEXT_STEPS} steps",
            "",
            *table(list(TEXTS), [[f"{texts[precision]['dev_perplexity']:.4f}" for precision in TEXTS]]),
        ]
    text += [
        "",
        f"## Figures 3 and 4: time of half precision and of integers, batches of {BATCH}, {REQUESTS} repeats",
        "",
        "The median, and in parentheses the mean and the longest. The paper times half precision on a GPU and integers on a CPU;"
        f" here both are this machine's CPU. {slower(speeds)}",
        "",
        *table(
            ["model", "bf16, ms", "int8, ms", "int8 / bf16"],
            [
                [name, *(f"{of[p]['p50_ms']:.1f} ({of[p]['mean_ms']:.1f}, {of[p]['max_ms']:.1f})" for p in ("bf16", "int8")),
                 f"{of['int8']['p50_ms'] / of['bf16']['p50_ms']:.2f}"]
                for name, of in speeds.items()
            ],
        ),
    ]
    return "\n".join(text) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--glue", required=True)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--cifar")
    parser.add_argument("--text")
    parser.add_argument("--out", default="runs/int8")
    parser.add_argument("--seeds", default="1,2")
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--lessen")
    parser.add_argument("--write")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    args.lessen = args.lessen or step.build_lessen()
    seeds, tasks = args.seeds.split(","), args.tasks.split(",")
    found, folders = {}, {}
    for task in tasks:
        for activation in ACTIVATIONS:
            of_seeds = [of_glue(args, task, activation, seed) for seed in seeds]
            found[task, activation] = [both for _, both in of_seeds]
            folders[activation] = of_seeds[0][0]
    cifar = [of_cifar(args, seed) for seed in seeds] if args.cifar else []
    speeds = {f"{activation}, {tasks[-1]}": times(args, folder) for activation, folder in folders.items()}
    texts = of_text(args) if args.text else None
    text = page(args, tasks, found, cifar, texts, speeds)
    print(text)
    if args.write:
        with open(args.write, "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
