#!/usr/bin/env python3
"""Whole fine-tuning jobs, from the start of the process to the saved model: Lessen and transformers side by side.

    python3 bench/finetune.py [--jobs cola,sst2,thucnews,gpt2] [--modes float32,bfloat16,grouped] [--rounds 3]
                              [--data data] [--write FILE] [--resume]

Every job runs with the same data, checkpoint and settings on both sides, in turns, each in a process of its own; every
other round in the opposite order. The checkpoints have random weights of a fixed seed, so quality says no more than
whether a side learns at all; the page says where none does. transformers' side is bench/torch_finetune.py, run by $PYTHON or by the Python that runs this file.

A ratio is Lessen's figure over the other side's in the same round; tables show its median, smallest and largest value.
Peak memory is the growth of the highest resident size, for PyTorch over its size after the imports. With --write, other
work on the machine is an error. Runs are kept in the work folder as they are done; --resume takes over those of the same
machine and lessen.
"""

import argparse
import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

import step

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
MINILM = {
    "vocab_size": 30522,
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
}
BASE = {"vocab_size": 21128, "num_labels": 10}
JOBS = {
    "cola": "CoLA, one epoch in batches of 32: BERT of MiniLM's size (6 x 384, 12 heads, vocabulary 30,522)",
    "sst2": "SST-2, first 10,000 sentences, one epoch in batches of 32: BERT of MiniLM's size",
    "thucnews": "THUCNews, first 4,000 titles, one epoch in batches of 32: BERT-base, vocabulary 21,128",
    "gpt2": "GPT-2 small on tiny Shakespeare: 100 steps of 8 windows of 256 tokens",
}
REQUIRED = {
    "float32": {"cola": 0.45, "sst2": 0.45, "thucnews": 0.75, "gpt2": 0.75},
    "bfloat16": {"cola": 0.60, "sst2": 0.60},
}
REQUIRED_MEMORY = 0.50
# The most time of other work, as a share of the machine's, at which figures are published.
MOST_OTHER_WORK = 0.03


def lines_of(path, most=None):
    with open(path, encoding="utf-8") as file:
        lines = [line for line in file.read().split("\n") if line]
    return lines[:most]


def write_lines(path, lines):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def examples(path, lines, parse):
    write_lines(path, [json.dumps(parse(line), ensure_ascii=False) for line in lines])
    return path


def prepare(name, data, work, changes=()):
    """Writes a job's data for both sides: (file of the job for PyTorch, the job, arguments of `lessen train`);
    `changes` are other values for the job."""
    own = os.path.join(work, name)
    job = {
        "kind": "classify",
        "init": os.path.join(own, "init"),
        "out": os.path.join(own, "saved"),
        "family": "bert",
        "config": MINILM,
        "tokenizer": os.path.join(data, "tokenizers/bert-base-uncased"),
        "batch": 32,
        "max_length": 128,
        "epochs": 1,
        "lr": 3e-5,
        "warmup": 50,
        "weight_decay": 0.01,
        "seed": 1,
        "metric": "accuracy",
    }
    job.update(changes)
    both = [f"train.epochs={job['epochs']}", f"train.lr={job['lr']}", f"train.seed={job['seed']}"]
    both += ["train.eval_every=0", "train.checkpoint_every=0"]
    if name in ("cola", "sst2"):
        task = {"cola": "CoLA", "sst2": "SST-2"}[name]
        source, folder = os.path.join(data, "glue", task), os.path.join(own, task)
        train = lines_of(os.path.join(source, "train.tsv"), 10001 if name == "sst2" else None)
        dev = lines_of(os.path.join(source, "dev.tsv"))
        write_lines(os.path.join(folder, "train.tsv"), train)
        write_lines(os.path.join(folder, "dev.tsv"), dev)
        if name == "cola":
            job["metric"] = "matthews"

            def parse(line):
                return line.split("\t")[3], int(line.split("\t")[1])

        else:
            train, dev = train[1:], dev[1:]

            def parse(line):
                return line.split("\t")[0], int(line.split("\t")[1])

        arguments = ["glue", "--data", folder, "--set", f"data.max_length={job['max_length']}"]
    elif name == "thucnews":
        source, folder = os.path.join(data, "thucnews"), os.path.join(own, "data")
        train, dev = lines_of(os.path.join(source, "train.txt"), 4000), lines_of(os.path.join(source, "dev.txt"), 1000)
        write_lines(os.path.join(folder, "train.txt"), train)
        write_lines(os.path.join(folder, "dev.txt"), dev)
        shutil.copy(os.path.join(source, "class.txt"), folder)
        job.update(config=BASE, tokenizer=os.path.join(data, "tokenizers/bert-base-chinese"), max_length=32)

        def parse(line):
            return line.split("\t")[0], int(line.split("\t")[1])

        arguments = ["bert-classifier", "--data", folder]
        both += ["train.batch=32", "data.max_length=32", "train.warmup=50", "train.weight_decay=0.01"]
    else:
        with open(os.path.join(data, "text/tinyshakespeare.txt"), encoding="utf-8") as file:
            text = file.read()
        cut = len(text) * 9 // 10
        write_lines(os.path.join(own, "train.txt"), [text[:cut]])
        write_lines(os.path.join(own, "dev.txt"), [text[cut:]])
        job.update(
            kind="continue",
            family="gpt2",
            config={},
            tokenizer=os.path.join(data, "tokenizers/gpt2"),
            batch=8,
            max_length=256,
            steps=100,
            train=os.path.join(own, "train.txt"),
            dev=os.path.join(own, "dev.txt"),
        )
        arguments = ["gpt2-lm", "--data", os.path.join(data, "text/tinyshakespeare.txt"), "--set", "data.held_out=0.1"]
        both = ["train.steps=100", "train.batch=8", "data.max_length=256", "train.warmup=50"] + both[1:]
        both += ["train.weight_decay=0.01"]
    if name != "gpt2":
        job["train"] = examples(os.path.join(own, "train.jsonl"), train, parse)
        job["dev"] = examples(os.path.join(own, "dev.jsonl"), dev, parse)
    both += ["train.clip_norm=1.0", "train.schedule=linear"]
    arguments += ["--init", job["init"]]
    for setting in both:
        arguments += ["--set", setting]
    path = os.path.join(own, "job.json")
    write_lines(path, [json.dumps(job)])
    return path, job, arguments


def prepare_all(names, data, work, python):
    """Prepares jobs, with their checkpoints where there are none yet: {name: (description, job, arguments)}."""
    prepared = {name: prepare(name, data, work) for name in names}
    for path, job, _ in prepared.values():
        if not os.path.exists(os.path.join(job["init"], "model.safetensors")):
            run = [python, os.path.join(HERE, "torch_finetune.py"), "--job", path, "--mode", "make"]
            step.output_of(run, "bench/torch_finetune.py")
    return prepared


def cpu_seconds():
    """Seconds that all processors have worked since the start of the machine."""
    with open("/proc/stat") as file:
        numbers = [int(word) for word in file.readline().split()[1:]]
    user, nice, system, _, _, irq, softirq, steal = numbers[:8]
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def timed(command, environment, what):
    """Runs a command: its output, wall time, highest resident size, and other work's share of the machine."""
    before, began = cpu_seconds(), time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, cwd=ROOT) as child:
        output = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - began
    if child.returncode != 0:
        sys.exit(f"finetune: {what} failed with exit code {child.returncode}: {' '.join(command)}")
    other = max(0.0, cpu_seconds() - before - usage.ru_utime - usage.ru_stime) / (wall * os.cpu_count())
    return output.decode(), {"wall_s": wall, "resident_bytes": usage.ru_maxrss * 1024, "other_work": other}


def run_lessen(lessen, job, arguments, threads):
    out = job["out"] + "-lessen"
    shutil.rmtree(out, ignore_errors=True)
    environment = dict(os.environ, LESSEN_THREADS=str(threads))
    text, found = timed([lessen, "train", *arguments, "--out", out, "--json"], environment, "lessen train")
    report = json.loads(text)
    keys = {"matthews": "dev_matthews", "accuracy": "dev_accuracy"}
    quality = report.get(keys[job["metric"]]) if job["kind"] == "classify" else report.get("dev_loss")
    return dict(found, quality=quality, growth_bytes=found["resident_bytes"], report=report)


def run_torch(python, path, mode, threads):
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads))
    command = [python, os.path.join(HERE, "torch_finetune.py"), "--job", path, "--mode", mode]
    text, found = timed([*command, "--threads", str(threads)], environment, "bench/torch_finetune.py")
    return dict(found, **json.loads(text.splitlines()[-1]))


def flops(job, tokens, model):
    """Floating-point operations of matrix products in training on so many real tokens, without attention's own."""
    layers, width, inner = model
    return 6 * tokens * layers * (4 * width * width + 2 * width * inner)


def size_of(name):
    return {"cola": (6, 384, 1536), "sst2": (6, 384, 1536)}.get(name, (12, 768, 3072))


def rows(name, job, sides, modes, peak):
    ours = sides["lessen"]
    lines = [("Lessen, s", step.spread(step.column(ours, "wall_s"), 1), "")]
    for mode in modes:
        theirs = sides[mode]
        lines.append((f"transformers {mode}, s", step.spread(step.column(theirs, "wall_s"), 1), ""))
    for mode in modes:
        ratios = [a["wall_s"] / b["wall_s"] for a, b in zip(ours, sides[mode])]
        limit = REQUIRED.get(mode, {}).get(name)
        needs = step.verdict(statistics.median(ratios), limit, ".2f") if limit else ""
        lines.append((f"time, Lessen / transformers {mode}", step.spread(ratios, 3), needs))
    for side in ["lessen", *modes]:
        growth = [value / 2**20 for value in step.column(sides[side], "growth_bytes")]
        lines.append((f"peak resident growth, {side}, MiB", step.spread(growth, 0), ""))
    for mode in modes:
        ratios = [a["growth_bytes"] / b["growth_bytes"] for a, b in zip(ours, sides[mode])]
        needs = step.verdict(statistics.median(ratios), REQUIRED_MEMORY, ".2f") if mode == "float32" else ""
        lines.append((f"memory, Lessen / transformers {mode}", step.spread(ratios, 3), needs))
    tokens = sides[modes[0]][0]["tokens"]
    work = flops(job, tokens, size_of(name))
    for side in ["lessen", *modes]:
        shares = [100 * work / value / peak / 1e9 for value in step.column(sides[side], "wall_s")]
        lines.append((f"real tokens' products over time and peak, {side}", step.spread(shares, 0) + " %", ""))
    for side in ["lessen", *modes]:
        lines.append((f"{job['metric'] if job['kind'] == 'classify' else 'loss'} at the end, {side}",
                      step.spread(step.column(sides[side], "quality"), 4), ""))
    return lines


def nothing_learned(job, sides):
    """Whether the Matthews correlation is 0 on all sides: every example got the same class."""
    scores = [score for runs in sides.values() for score in step.column(runs, "quality")]
    return job["metric"] == "matthews" and all(abs(score) < 5e-5 for score in scores)


def markdown(results, jobs, modes, args, python, peak, other):
    command = f"python3 bench/finetune.py --jobs {','.join(results)} --modes {','.join(modes)} --rounds {args.rounds}"
    text = [
        "# Whole fine-tuning jobs: Lessen and transformers",
        "",
        "Written by `bench/finetune.py`, which anyone can run again:",
        "",
        "```",
        command,
        "```",
        "",
        f"- Machine: {step.machine()}; instruction sets: {instruction_sets()}; peak {peak:.0f} GFLOP/s in float32, as"
        f" `lessen bench step` finds it without AMX, on whose tiles products of either side can be faster; other work at most {100 * other:.1f} % of the machine",
        f"- Versions: {step.versions(python)}",
        f"- Both sides: {args.threads} threads, the same data, checkpoint (random weights), batch, AdamW, schedule and"
        " clipping, an evaluation at the end, the model saved; from the start of the process to its end",
        "- The weights are random and the jobs short, so the scores at the end are far from those of a pre-trained checkpoint"
        " and say no more than whether a side learns at all. Order of examples and dropout differ between the sides, and their"
        " scores with them",
        "- Rounds in which the sides take turns, with the other first in each second one; figures are medians with smallest"
        " and largest. A job of one round has no spread",
    ]
    head = len(text)
    for name, sides in results.items():
        text += ["", f"## {JOBS[name]}", "", f"Rounds: {len(sides['lessen'])}.", "", "| | | required |", "|---|---|---|"]
        text += [f"| {what} | {value} | {needs} |" for what, value, needs in rows(name, jobs[name], sides, modes, peak)]
        if nothing_learned(jobs[name], sides):
            text += ["", "No side learns anything here: the score is that of one answer for all. The times are of the work alone."]
    text.insert(head, step.missed(text))
    return "\n".join(text) + "\n"


def instruction_sets():
    with open("/proc/cpuinfo") as file:
        flags = next((line.split() for line in file if line.startswith("flags")), [])
    known = ["avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16"]
    return ", ".join(flag for flag in known if flag in flags) or "none of the known"


class Done:
    """The runs of a benchmark, kept in a file as they are done: of one machine and one lessen."""

    def __init__(self, path, lessen, resume):
        with open(lessen, "rb") as file:
            self.key = [step.machine(), hashlib.sha256(file.read()).hexdigest()]
        self.path, self.runs = path, {}
        if resume and os.path.exists(path):
            with open(path) as file:
                lines = [json.loads(line) for line in file if line.endswith("\n")]
            self.runs = {tuple(line["run"]): line["got"] for line in lines if line["key"] == self.key}
        with open(path, "w") as file:
            file.writelines(self.line(run, got) for run, got in self.runs.items())

    def get(self, *run):
        return self.runs.get(run)

    def put(self, *run_and_got):
        *run, got = run_and_got
        if tuple(run) in self.runs:
            return
        self.runs[tuple(run)] = got
        with open(self.path, "a") as file:
            file.write(self.line(run, got))

    def line(self, run, got):
        return json.dumps({"key": self.key, "run": run, "got": got}) + "\n"


def rounds_of(text, names):
    """How many rounds each job has."""
    numbers = text.split(",")
    if len(numbers) == 1:
        numbers *= len(names)
    if len(numbers) != len(names) or not all(number.isdigit() and int(number) > 0 for number in numbers):
        sys.exit(f"finetune: --rounds is {text!r}; give one positive number, or one for each of the {len(names)} jobs")
    return dict(zip(names, map(int, numbers)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", default="cola,sst2,thucnews,gpt2")
    parser.add_argument("--modes", default="float32,bfloat16")
    parser.add_argument("--rounds", default="3", help="how often, or so many for each job: 3,3,2,1")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--data", default=os.path.join(ROOT, "data"))
    parser.add_argument("--work", default=os.path.join(ROOT, "target", "finetune"))
    parser.add_argument("--lessen", help="use this lessen and build none")
    parser.add_argument("--write", metavar="FILE", help="also write the results as Markdown")
    parser.add_argument("--resume", action="store_true", help="take over the runs that an interrupted benchmark has done")
    args = parser.parse_args()
    names, modes = args.jobs.split(","), args.modes.split(",")
    for name in names:
        if name not in JOBS:
            sys.exit(f"finetune: there is no job {name!r}; take from {', '.join(JOBS)}")
    rounds = rounds_of(args.rounds, names)
    python = os.environ.get("PYTHON", sys.executable)
    step.load_before("finetune")
    lessen = os.path.abspath(args.lessen) if args.lessen else step.build_lessen()
    data, work = os.path.abspath(args.data), os.path.abspath(args.work)

    prepared = prepare_all(names, data, work, python)
    peak = json.loads(step.output_of([lessen, "bench", "step", "--case", "c", "--steps", "1", "--json"], "lessen"))
    results = {name: {side: [] for side in ["lessen", *modes]} for name in names}
    done = Done(os.path.join(work, "runs.jsonl"), lessen, args.resume)
    for round_ in range(max(rounds.values())):
        for name in (name for name in names if round_ < rounds[name]):
            path, job, arguments = prepared[name]
            sides = ["lessen", *modes]
            for side in sides if round_ % 2 == 0 else reversed(sides):
                print(f"round {round_ + 1} of {rounds[name]}, {name}, {side} ...", file=sys.stderr, flush=True)
                got = done.get(name, side, round_)
                if got is None and side == "lessen":
                    got = run_lessen(lessen, job, arguments, args.threads)
                elif got is None:
                    got = run_torch(python, path, side, args.threads)
                done.put(name, side, round_, got)
                results[name][side].append(got)
                print(f"   {got['wall_s']:.1f} s, {got['growth_bytes'] / 2**20:,.0f} MiB", file=sys.stderr, flush=True)
    others = [run["other_work"] for sides in results.values() for runs in sides.values() for run in runs]
    jobs = {name: job for name, (_, job, _) in prepared.items()}
    for name, sides in results.items():
        print(f"\n{JOBS[name]}")
        for what, value, needs in rows(name, jobs[name], sides, modes, peak["peak_gflops"]):
            print(f"   {what:58}  {value:28}  {needs}".rstrip())
    if max(others) > MOST_OTHER_WORK:
        print(f"finetune: other work took up to {100 * max(others):.0f} % of the machine", file=sys.stderr)
        if args.write:
            sys.exit("finetune: these figures are not published; stop the other work and run again")
    if args.write:
        text = markdown(results, jobs, modes, args, python, peak["peak_gflops"], max(others))
        step.write_aside(args.write, text)


if __name__ == "__main__":
    main()
