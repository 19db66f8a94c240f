#!/usr/bin/env python3
"""Tempo on BERT with THUCNews, as its reproduction has it: accuracy, bytes of each technique, and largest batches.

    python3 bench/tempo.py --data DIR [--epochs 2] [--seeds 1] [--steps 3] [--cases b,j] [--budgets 2,4,8,16]
                           [--torch-batches 8,16,32,64] [--lessen FILE] [--write FILE] [--resume]

--data is a folder with `thucnews/`. Four parts:

    accuracy    a BERT of 4 layers x 256 learns the titles under plans of less and less memory, exact ones and such with an
                allowed error, with the same seeds
    bits        some steps of BERT-base within the bytes of the plans of fixed policies
    techniques  what each technique of Tempo saves by formula, and what plans of BERT-base show
    batches     the largest batch of BERT-base within budgets: planned in Lessen, and by the growth of PyTorch's eager mode

No figure but PyTorch's growth and the model files depends on the machine or on other work on it. Trained runs are kept in
the work folder; --resume takes them over. PyTorch is run by $PYTHON or by the Python that runs this file.
"""

import argparse
import collections
import hashlib
import json
import os
import shutil
import subprocess
import sys

import images
import step
import tempo_plans
from tempo_plans import CASES, MIB, ROUNDED

SETTINGS = [
    "model.kind=bert",
    "model.layers=4",
    "model.width=256",
    "model.heads=4",
    "model.ffn=1024",
    "model.dropout=0.1",
    "train.batch=128",
    "train.lr=5e-4",
    "run.cost=analytic",
]
# What a run is called, whether its budget is the floor, and the allowed error.
RUNS = [
    ("no budget", False, "0"),
    ("floor", True, "0"),
    ("error 0.002", False, "0.002"),
    (f"error {ROUNDED}", False, ROUNDED),
]
# Steps of BERT-base: the plan whose bytes are the budget, and the allowed error.
STEPS = [("keep all", "0"), ("Tempo", "0"), ("planner, floor", "0"), ("planner, floor", ROUNDED)]


def arguments(args, error):
    given = [*SETTINGS, f"train.epochs={args.epochs}", f"train.eval_every={args.every}", "train.checkpoint_every=0"]
    given += [f"train.steps={args.train_steps}"] if args.train_steps else []
    words = ["thucnews", "--data", os.path.join(args.data, "thucnews"), "--allow-error=" + error]
    return words + [word for setting in given for word in ("--set", setting)]


def plan_of(lessen, args, error, budget):
    command = [lessen, "plan", *arguments(args, error), "--json"] + (["--budget", f"{budget}B"] if budget else [])
    return json.loads(step.output_of(command, "lessen plan"))


def ways(plan):
    """How backward has values again in a plan: a count for each way and operation."""
    found = collections.Counter((choice["way"], choice["value"].split()[-1]) for choice in plan["choices"])
    ways_ = dict.fromkeys(way for way, _ in sorted(found))
    each = {way: [f"{n} `{name}`" for (own, name), n in sorted(found.items()) if own == way] for way in ways_}
    return "; ".join(f"{way} {', '.join(names)}" for way, names in each.items())


def trained(command, out):
    """The report of a run, or why there is none."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=step.ROOT, text=True)
    sys.stderr.write(done.stderr)
    if done.returncode == 0:
        return json.loads(done.stdout)
    said = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    # A loss that is no number is a result; whatever else fails ends the benchmark.
    if not said or "is no number" not in said[-1]:
        sys.exit(f"tempo: lessen train failed with exit code {done.returncode}; its message stands above")
    shutil.rmtree(out)
    return {"does_not_run": said[-1].removeprefix("error: ").split(";")[0]}


def train(lessen, args, name, is_floor, error, seed):
    """A run's scores, peaks, losses and the hash of its model, or why it has none."""
    free = plan_of(lessen, args, error, None)
    # The floor of a run differs from that of its plan by the lengths of paths and flags.
    budget = free["floor_bytes"] + MIB if is_floor else None
    plan = plan_of(lessen, args, error, budget) if budget else free
    out = os.path.join(args.work, f"{name.replace(' ', '-').replace(',', '')}-{seed}")
    shutil.rmtree(out, ignore_errors=True)
    command = [lessen, "train", *arguments(args, error), "--seed", str(seed), "--out", out, "--json"]
    report = trained(command + (["--budget", f"{budget}B"] if budget else []), out)
    if "does_not_run" in report:
        return report | {"ways": ways(plan)}
    with open(os.path.join(out, "metrics.jsonl"), encoding="utf-8") as file:
        metrics = [json.loads(line) for line in file]
    with open(os.path.join(out, "model", "model.safetensors"), "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    shutil.rmtree(out)
    return {
        "accuracy": report["dev_accuracy"],
        "loss": report["dev_loss"],
        "steps": report["steps"],
        "peak": report["peak_bytes"]["planned"],
        "resident": report["peak_bytes"]["resident"],
        "arena": plan["arena_bytes"],
        "ways": ways(plan),
        "losses": [line["loss"] for line in metrics if "loss" in line],
        "curve": [[line["step"], line["dev_accuracy"], line["dev_loss"]] for line in metrics if "dev_accuracy" in line],
        "model": digest,
    }


def first_difference(first, run):
    """The first step whose loss has other bits, or that all have the same."""
    for number, (a, b) in enumerate(zip(first["losses"], run["losses"])):
        if a != b:
            return f"differ from step {number + 1} on"
    return "the same" if first["model"] == run["model"] else "the same losses, another model"


def accuracy(lessen, args):
    """{run: [one result per seed]}"""
    done = images.Done(os.path.join(args.work, "runs.jsonl"), args.resume)
    results = {}
    for seed in args.seeds:
        for name, is_floor, error in RUNS:
            print(f"training, {name}, seed {seed} ...", file=sys.stderr, flush=True)
            key = (name, seed, args.epochs, args.train_steps, args.every)
            run = done.get(key, lambda: train(lessen, args, name, is_floor, error, seed))
            results.setdefault(name, []).append(run)
    return results


def accuracy_text(results):
    first = results[RUNS[0][0]]
    text = ["| plan | accuracy, % | loss | bits of losses and model | planned peak MiB | arena MiB | of the first |"]
    text.append("|---" * 7 + "|")
    for name, runs in results.items():
        if not step.does_run(runs):
            text.append(f"| {name} | **{step.failure(runs)}** |  |  |  |  |  |")
            continue
        cells = [name, step.spread([100 * run["accuracy"] for run in runs], 2)]
        cells.append(step.spread([run["loss"] for run in runs], 4))
        cells.append("; ".join(dict.fromkeys(first_difference(a, b) for a, b in zip(first, runs))))
        cells += [step.mib(runs[0]["peak"]), step.mib(runs[0]["arena"]), f"{runs[0]['arena'] / first[0]['arena']:.2f}"]
        text.append("| " + " | ".join(cells) + " |")
    text += ["", "Values that backward does not read from memory, by operations:", ""]
    text += [f"- {name}: {runs[0]['ways']}" for name, runs in results.items()]
    text += ["", "Accuracy in % and loss on `dev.txt` in the course of the first seed:", ""]
    whole = {name: runs[0]["curve"] for name, runs in results.items() if step.does_run(runs)}
    text += ["| step | " + " | ".join(whole) + " |", "|---" * (1 + len(whole)) + "|"]
    for place, (number, _, _) in enumerate(first[0]["curve"]):
        each = [curve[place][1:] for curve in whole.values()]
        cells = [f"{100 * score:.2f}, {loss:.4f}" for score, loss in each]
        text.append(f"| {number} | " + " | ".join(cells) + " |")
    return text


def bits(lessen, plans, args):
    """The table of steps of BERT-base within the bytes of plans."""
    case, (_, batch, _) = "b", CASES["b"]
    text = ["| budget: the bytes of | allowed error | arena planned MiB | arena of the steps MiB | last loss | bits |"]
    text.append("|---" * 6 + "|")
    first = None
    for name, error in STEPS:
        plan = plans.of(case, batch, error)[name]
        print(f"steps of case {case}, {name}, error {error} ...", file=sys.stderr, flush=True)
        command = [lessen, "bench", "step", "--case", case, "--budget", f"{plan['peak_bytes']}B"]
        command += ["--allow-error", error, "--steps", str(args.steps), "--json"]
        environment = dict(os.environ, LESSEN_THREADS=str(args.threads))
        got = json.loads(step.output_of(command, "lessen bench step", environment))["cases"][case]
        first = first or got
        same = "the first" if got is first else "the same" if got["loss"] == first["loss"] else "others"
        cells = [name, error, step.mib(plan["arena_bytes"]), step.mib(got["arena_bytes"]), f"{got['loss']:.9g}", same]
        text.append("| " + " | ".join(cells) + " |")
    return text


def batches_text(plans, args, python):
    text = []
    for case in args.cases:
        growth = tempo_plans.torch_growth(python, case, args.torch_batches, args.threads)
        text += ["", f"### ({case}) BERT-base, {CASES[case][0]}", ""]
        text += tempo_plans.largest_batches(plans, case, args.budgets, args.unit, growth)
        if growth:
            each = ", ".join(f"{batch}: {step.mib(size)}" for batch, size in growth.items())
            text += ["", f"PyTorch's growth in MiB by batch: {each}."]
    return text


def command_of(args):
    listed = lambda values: ",".join(f"{value:g}" for value in values)
    text = f"python3 bench/tempo.py --data DIR --epochs {args.epochs} --seeds {listed(args.seeds)} --steps {args.steps}"
    text += f" --cases {','.join(args.cases)} --budgets {listed(args.budgets)}"
    text += f" --torch-batches {listed(args.torch_batches)} --every {args.every} --unit {args.unit}"
    return text + (f" --train-steps {args.train_steps}" if args.train_steps else "")


THEIRS = [
    "- The reproduction (RTX 4090 Laptop, 16 GB): pre-trained BERT on 200,000 THUCNews titles of 10 classes and 20 to 30"
    " characters, one token for each; GPU memory 12.6 % or 2.06 GB below its baseline, by a monitor of the whole system every"
    " 100 ms, one run; curves of accuracy and loss that agree, without figures. Tempo's paper: up to twice the batch and"
    " 16 % more throughput for BERT-large with 512 tokens",
    "- Here: the 89,755 titles of `train.txt` and the 10,000 of `dev.txt`, one token for each character, from scratch, as"
    " there is no pre-trained checkpoint; so the accuracies are not those of a fine-tuned BERT",
    "- Tempo approximates the derivative of GELU from its output by polynomials. By the coefficients that were published, it"
    " is wrong for outputs between 0.977 and 3, where an offset has the wrong sign: 2.76 in place of 1.02 for an input of"
    " 2.9. Lessen's policy *Tempo* computes what GELU and norms compute again from what they read, which is exact",
]


def markdown(sections, args, python):
    text = ["# Tempo: BERT on THUCNews with less memory", "", "Written by `bench/tempo.py`, which anyone can run again:"]
    text += ["", "```", command_of(args), "```", ""]
    text += [f"- Machine: {step.machine()}; {args.threads} threads", f"- Versions: {step.versions(python)}", *THEIRS]
    explained = {
        "Accuracy": "BERT of 4 layers x 256, 4 heads, batch 128, dropout 0.1; *no budget* is the plan that `lessen train` takes"
        " of itself, *floor* the least memory. In both, GELU and norms are computed again, as Tempo's techniques have it: a"
        " plan that keeps all is one of a large budget. That it has the same bits is shown below. With an allowed"
        " error values are kept in bf16 (0.002) or in 8 bits (0.004), and bits differ.",
        "The same bits": "Steps of BERT-base on random tokens, 32 x 32, by `lessen bench step` within the bytes of a plan. Where"
        " both arenas are equal, it is that plan.",
        "What each technique saves": "By formula in 12 layers of BERT-base in f32, in hidden states H (batch x tokens x width)"
        " and attention probabilities P (batch x heads x tokens x tokens). PyTorch keeps 16.5 H and 2.25 P of a layer, and one P"
        " more where softmax keeps its input. Tempo keeps a byte for each element as GELU's side of the minimum, and the masks of"
        " dropout; Lessen keeps neither. "
        + "; ".join(f"({case}) {what}, batch {batch}" for case, (what, batch, _) in CASES.items())
        + ".",
        "Largest batches": "BERT-base with AdamW within a budget of states, constants and arena: the largest batch by plan, in"
        f" brackets times that of *keep all* and the examples per second of its estimate. *Planner* is its floor; *error {ROUNDED}*"
        " admits values of 8 bits. PyTorch's eager mode by its measured growth, beyond that by a line through it.",
    }
    for title, lines in sections.items():
        text += ["", f"## {title}", "", explained[title], "", *lines]
    return "\n".join(text).replace("\n\n\n", "\n\n") + "\n"


def techniques(lessen, plans):
    text = [*tempo_plans.by_formula(), "", "What plans show of GELU and norms, which one policy has together:", ""]
    text += [*tempo_plans.in_plans(plans), "", *tempo_plans.of_formula(plans)]
    text += ["", "Dropout is drawn again from a key and attention is one operation that keeps no probabilities, so neither can be"]
    text[-1] += " left out. Plans of BERT-base with as many tokens in longer sequences show that nothing of either is there:"
    return [*text, "", *tempo_plans.always(lessen)]


def parsed():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    numbers = lambda kind: lambda text: [kind(word) for word in text.split(",") if word]
    parser.add_argument("--data", default=os.path.join(step.ROOT, "data"))
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--train-steps", type=int, default=0, help="steps to train, instead of epochs")
    parser.add_argument("--every", type=int, default=100, help="steps between evaluations")
    parser.add_argument("--seeds", type=numbers(int), default=[1])
    parser.add_argument("--steps", type=int, default=3, help="timed steps of BERT-base")
    parser.add_argument("--cases", type=lambda text: text.split(","), default=list(CASES))
    parser.add_argument("--budgets", type=numbers(float), default=[2.0, 4.0, 8.0, 16.0], help="in GiB")
    parser.add_argument("--unit", type=int, default=8, help="what batches are multiples of")
    parser.add_argument("--torch-batches", type=numbers(int), default=[8, 16, 32, 64])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--work", default=os.path.join(step.ROOT, "target", "tempo"))
    parser.add_argument("--lessen", help="use this lessen and build none")
    parser.add_argument("--write", metavar="FILE", help="also write the results as Markdown")
    parser.add_argument("--resume", action="store_true", help="take over the runs that an interrupted benchmark has done")
    args = parser.parse_args()
    for case in args.cases:
        if case not in CASES:
            sys.exit(f"tempo: there is no case {case!r}; take from {', '.join(CASES)}")
    args.data, args.work = os.path.abspath(args.data), os.path.abspath(args.work)
    return args


def main():
    args = parsed()
    python = os.environ.get("PYTHON", sys.executable)
    lessen = os.path.abspath(args.lessen) if args.lessen else step.build_lessen()
    os.makedirs(args.work, exist_ok=True)
    plans = tempo_plans.Plans(lessen)
    sections = {
        "Accuracy": accuracy_text(accuracy(lessen, args)),
        "The same bits": bits(lessen, plans, args),
        "What each technique saves": techniques(lessen, plans),
        "Largest batches": batches_text(plans, args, python),
    }
    step.publish(markdown(sections, args, python), args.write)


if __name__ == "__main__":
    main()
