#!/usr/bin/env python3
"""Trains the recipes for images from scratch, with several seeds and in both precisions, and PyTorch beside them.

    python3 bench/images.py --data DIR [--jobs mnist,fashion_mnist,cifar10] [--precision f32,bf16] [--seeds 1,2,3]
                            [--torch cifar10] [--write FILE] [--resume]

--data is a folder with a folder for each job: idx files, or CIFAR-10's binary ones. Every run is `lessen train` with the
recipe's settings, but for those in JOBS, then `lessen eval --split test`; the model is the last one, and no setting is
chosen by the test images. PyTorch's side, bench/torch_images_train.py, reads the same recipe. Quality only: other work on
the machine does no harm. Runs are kept in the work folder as they are done; --resume takes them over.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys

import step
import verdicts

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
# The recipe, other settings, and what is required of the mean accuracy.
JOBS = {
    "mnist": ("mnist", [], 0.993),
    "fashion_mnist": ("mnist", ["model.kind=resnet20", "image.augment=crop:2,flip", "train.epochs=6"], 0.92),
    "cifar10": ("cifar10", ["train.epochs=30"], None),
}


class Done:
    """The runs that are done, in a file of JSON lines."""

    def __init__(self, path, resume):
        self.path, self.runs = path, {}
        if resume and os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                self.runs = {tuple(key): got for key, got in map(json.loads, file)}
        elif os.path.exists(path):
            os.remove(path)

    def get(self, key, run):
        if key not in self.runs:
            self.runs[key] = run()
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps([key, self.runs[key]]) + "\n")
        return self.runs[key]


def run_lessen(lessen, job, precision, seed, data, work):
    recipe, more, _ = JOBS[job]
    out = os.path.join(work, f"{job}-{precision}-{seed}")
    if os.path.exists(out):
        shutil.rmtree(out)  # That of an interrupted run.
    settings = [*more, f"train.seed={seed}", f"train.precision={precision}", "data.held_out=0"]
    settings = [word for setting in settings for word in ("--set", setting)]
    train = [lessen, "train", recipe, "--data", os.path.join(data, job), "--out", out, "--json", *settings]
    report = json.loads(step.output_of(train, "lessen train"))
    scores = json.loads(step.output_of([lessen, "eval", out, "--split", "test", "--json"], "lessen eval"))
    return {"accuracy": scores["test_accuracy"], "step_ms": report["step_ms"], "steps": report["steps"]}


def run_torch(python, job, seed, data):
    recipe, more, _ = JOBS[job]
    command = [python, os.path.join(HERE, "torch_images_train.py"), os.path.join(data, job)]
    command += [os.path.join(ROOT, "crates", "run", "recipes", f"{recipe}.toml"), str(seed), *more]
    return json.loads(step.output_of(command, "bench/torch_images_train.py").splitlines()[-1])


def shown(runs):
    values = [100 * run["accuracy"] for run in runs]
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.2f} ± {deviation:.2f}", ", ".join(f"{value:.2f}" for value in values)


def table(results):
    """Lines of job, side, mean and deviation, each seed, ms per step, verdict."""
    lines, apart = [], []
    for job, sides in results.items():
        first = sides.get("f32")
        for side, runs in sides.items():
            mean = statistics.mean(run["accuracy"] for run in runs)
            limit, verdict = JOBS[job][2], ""
            if limit and side != "PyTorch":
                verdict = f"{'yes' if mean >= limit else 'NO'} (at least {100 * limit:.1f})"
            elif side != "f32" and first:
                apart.append([run["accuracy"] - own["accuracy"] for run, own in zip(runs, first)])
                verdict = len(apart) - 1
            name = side if side == "PyTorch" else f"Lessen {side}"
            ms = statistics.median(run["step_ms"] for run in runs)
            lines.append([job, name, *shown(runs), f"{ms:.0f}", verdict])
    found = verdicts.judged(apart)
    for line in lines:
        if isinstance(line[-1], int):
            line[-1] = f"more than Lessen f32: {found[line[-1]]}"
    return lines


def markdown(results, args, python):
    command = f"python3 bench/images.py --data DIR --jobs {','.join(results)} --precision {args.precision}"
    text = ["# Images: quality of the recipes", "", "Written by `bench/images.py`, which anyone can run again:", ""]
    text += ["```", f"{command} --seeds {args.seeds} --torch {args.torch}", "```", ""]
    text += [f"- Machine: {step.machine()}", f"- Versions: {step.versions(python)}"]
    for job in results:
        recipe, more, _ = JOBS[job]
        text.append(f"- {job}: " + ", ".join([f"recipe `{recipe}`", *(f"`{setting}`" for setting in more)]))
    text += [
        "- Accuracy on the test images in %, mean and deviation over the seeds; cifar10 is a balanced subset of CIFAR-10,"
        " 10,000 images to learn from and 2,000 to test. Milliseconds are those of a step beside whatever else ran",
        "",
        "| data | side | accuracy | each seed | ms per step | required |",
        "|---|---|---|---|---|---|",
    ]
    lines = table(results)
    text += ["| " + " | ".join(line) + " |" for line in lines]
    text += ["", verdicts.about(sum("more than" in line[-1] for line in lines))]
    return "\n".join(text) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.path.join(ROOT, "data"))
    parser.add_argument("--jobs", default=",".join(JOBS))
    parser.add_argument("--precision", default="f32,bf16")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--torch", default="cifar10", help="jobs that run in PyTorch, too")
    parser.add_argument("--work", default=os.path.join(ROOT, "target", "images"))
    parser.add_argument("--lessen", help="use this lessen and build none")
    parser.add_argument("--write", metavar="FILE", help="also write the results as Markdown")
    parser.add_argument("--resume", action="store_true", help="take over the runs that an interrupted benchmark has done")
    args = parser.parse_args()
    for job in args.jobs.split(","):
        if job not in JOBS:
            sys.exit(f"images: there is no job {job!r}; take from {', '.join(JOBS)}")
    python = os.environ.get("PYTHON", sys.executable)
    lessen = os.path.abspath(args.lessen) if args.lessen else step.build_lessen()
    data, work = os.path.abspath(args.data), os.path.abspath(args.work)
    os.makedirs(work, exist_ok=True)
    done = Done(os.path.join(work, "runs.jsonl"), args.resume)
    results = {}
    for job in args.jobs.split(","):
        sides = results[job] = {}
        for seed in args.seeds.split(","):
            for precision in args.precision.split(","):
                print(f"{job}, {precision}, seed {seed} ...", file=sys.stderr, flush=True)
                run = done.get((job, precision, seed), lambda: run_lessen(lessen, job, precision, seed, data, work))
                sides.setdefault(precision, []).append(run)
            if job in args.torch.split(","):
                print(f"{job}, PyTorch, seed {seed} ...", file=sys.stderr, flush=True)
                run = done.get((job, "PyTorch", seed), lambda: run_torch(python, job, seed, data))
                sides.setdefault("PyTorch", []).append(run)
    for line in table(results):
        print("   ".join(line).rstrip())
    if args.write:
        step.write_aside(args.write, markdown(results, args, python))


if __name__ == "__main__":
    main()
