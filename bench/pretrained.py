#!/usr/bin/env python3
"""Pre-trains a small BERT, then fine-tunes it in Lessen and in transformers, and from scratch in Lessen.

    python3 bench/pretrained.py [--init DIR] [--jobs sst2,cola] [--seeds 3] [--steps 11000] [--data data] [--write FILE]

1. Writes text and a vocabulary (bench/pretraining_text.py).
2. Pre-trains 4 layers x 256 on it with `lessen train bert-mlm`; a run that was interrupted goes on. --init names the
   folder of such a run, or any folder of a BERT, and leaves this out.
3. Asks transformers to load the folder: no missing and no unexpected keys but those of the new head, and a masked loss
   like the one that Lessen reports (each draws its own masks).
4. Fine-tunes with several seeds in Lessen, in transformers' ordinary loop (bench/torch_finetune.py) with the same
   settings, and in Lessen from random weights; and asks both for the probabilities of the whole dev split by the model
   that Lessen has saved.

--write leaves the figures as a page. The exit code is 1 where the folder does not load as it should. Needs torch and
transformers.
"""

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys

import torch
import transformers

import finetune
import pretraining_text
import step
import verdicts

# Sizes of the model and what config.json calls them.
SIZES = {
    "model.layers": "num_hidden_layers",
    "model.width": "hidden_size",
    "model.heads": "num_attention_heads",
    "model.ffn": "intermediate_size",
}
PRETRAINING = {
    "model.layers": 4,
    "model.width": 256,
    "model.heads": 4,
    "model.ffn": 1024,
    "model.dropout": 0,
    "data.lines": "true",
    "data.max_length": 64,
    "train.batch": 64,
    "train.precision": "bf16",
    "train.lr": 1e-3,
    "train.warmup": 0.06,
    "train.eval_every": 1000,
    "train.checkpoint_every": 1000,
    "optimizer.beta2": 0.98,
}
# For fine-tuning, as published checkpoints have it.
DROPOUT = 0.1
JOBS = {"sst2": "SST-2, first 10,000 sentences", "cola": "CoLA"}
MEASURES = {"sst2": "accuracy", "cola": "Matthews correlation"}
SIDES = {
    "lessen": "Lessen, pre-trained",
    "transformers": "transformers, pre-trained",
    "scratch": "Lessen, from scratch",
}
MASKED_LOSS_TOLERANCE = 0.05
PROBABILITY_TOLERANCE = 1e-4


def settings(values):
    return [part for key, value in values.items() for part in ["--set", f"{key}={value}"]]


def pretrain(lessen, work, steps, threads):
    """Pre-trains, or goes on with it, and returns the folder of the run."""
    out = os.path.join(work, "pretrained")
    begin = ["bert-mlm", "--data", os.path.join(work, "text"), "--steps", str(steps)]
    begin += settings({**PRETRAINING, "data.tokenizer": os.path.join(work, "tokenizer")})
    arguments = ["--resume"] if os.path.exists(os.path.join(out, "config.toml")) else begin
    # What it says goes to this program's stderr, since it takes long.
    command = [lessen, "train", *arguments, "--out", out, "--threads", str(threads)]
    if subprocess.run(command, stdout=sys.stderr).returncode != 0:
        sys.exit("pretrained: lessen train bert-mlm failed; its message stands above")
    return out


def check_run(run, text, valid):
    """Checks a run of pre-training against transformers; returns the lines of the page."""
    with open(os.path.join(run, "report.json"), encoding="utf-8") as file:
        report = json.load(file)
    theirs = masked_loss(os.path.join(run, "model"), valid)
    if not math.isclose(report["dev_loss"], theirs, rel_tol=MASKED_LOSS_TOLERANCE):
        sys.exit(f"pretrained: {run} has a masked loss of {report['dev_loss']}, and of {theirs} in transformers")
    return [
        f"- Text: {text['words']:,} words in {text['lines']:,} lines, {text['tokens']:,} tokens of a vocabulary of"
        f" {text['vocabulary']:,}, from Penn Treebank, tiny Shakespeare and the sentences of GLUE's training files",
        f"- Pre-training: `lessen train bert-mlm`, {report['steps']:,} steps of {PRETRAINING['train.batch']} lines; loss"
        f" of masked tokens {report['dev_loss']:.3f}, and {theirs:.3f} in transformers, which draws other masks",
    ]


def masked_loss(folder, valid):
    """The mean loss of 15 % masked tokens of a text by transformers."""
    torch.manual_seed(1)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForMaskedLM.from_pretrained(folder, dtype=torch.float32).eval()
    mask = transformers.DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15)
    with open(valid, encoding="utf-8") as file:
        texts = tokenizer(file.read().splitlines(), truncation=True, max_length=64)["input_ids"]
    total = count = 0
    with torch.no_grad():
        for start in range(0, len(texts), 32):
            batch = mask([{"input_ids": ids} for ids in texts[start : start + 32]])
            predicted = int((batch["labels"] != -100).sum())
            total += float(model(**batch).loss) * predicted
            count += predicted
    return total / count


def check_keys(folder):
    """What is wrong with a folder's keys for transformers, as a masked language model and as a classifier."""
    wrong = []
    for kind, own in [("MaskedLM", ()), ("SequenceClassification", ("classifier.", "bert.pooler.", "cls."))]:
        load = getattr(transformers, f"AutoModelFor{kind}").from_pretrained
        _, found = load(folder, output_loading_info=True)
        for what in ["missing_keys", "unexpected_keys", "mismatched_keys"]:
            keys = [str(key) for key in found[what] if not str(key).startswith(own)] if own else list(found[what])
            wrong += [f"AutoModelFor{kind}: {what} {', '.join(map(str, keys))}"] if keys else []
    return wrong


def probabilities_apart(lessen, saved, job, threads):
    """The greatest difference of a probability between Lessen and transformers, by the model that Lessen has saved."""
    model = transformers.AutoModelForSequenceClassification.from_pretrained(saved, dtype=torch.float32).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(saved)
    with open(job["dev"], encoding="utf-8") as file:
        texts = [json.loads(line)[0] for line in file]
    lines = os.path.join(os.path.dirname(job["dev"]), "texts.jsonl")
    finetune.write_lines(lines, [json.dumps({"text": text}, ensure_ascii=False) for text in texts])
    command = [lessen, "predict", saved, "--input", lines, "--probabilities", "--format", "jsonl", "--quiet"]
    command += ["--threads", str(threads), "--set", f"data.max_length={job['max_length']}"]
    ours = [json.loads(line)["probabilities"] for line in step.output_of(command, "lessen predict").splitlines()]
    apart = 0.0
    with torch.no_grad():
        for start in range(0, len(texts), 32):
            options = {"truncation": True, "max_length": job["max_length"], "padding": True, "return_tensors": "pt"}
            theirs = model(**tokenizer(texts[start : start + 32], **options)).logits.softmax(-1).tolist()
            for found, row in zip(ours[start : start + 32], theirs, strict=True):
                apart = max(apart, *(abs(found[model.config.id2label[i]] - p) for i, p in enumerate(row)))
    return apart


def ready_to_fine_tune(model, work):
    """Copies a pre-trained folder, with dropout for fine-tuning; returns the copy and its configuration."""
    init = os.path.join(work, "init")
    shutil.rmtree(init, ignore_errors=True)
    shutil.copytree(model, init)
    path = os.path.join(init, "config.json")
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    config.update(hidden_dropout_prob=DROPOUT, attention_probs_dropout_prob=DROPOUT)
    finetune.write_lines(path, [json.dumps(config, indent=2)])
    return init, config


def of_scratch(arguments, init, config):
    """The arguments of `lessen train` for the same model with random weights."""
    place = arguments.index("--init")
    model = {key: config[name] for key, name in SIZES.items()}
    model.update({"model.kind": "bert", "model.dropout": DROPOUT, "data.tokenizer": init})
    return arguments[:place] + arguments[place + 2 :] + settings(model)


def fine_tune(args, lessen, python, init, config):
    """{job: {side: one result per seed}}, and the greatest difference of probabilities for each job."""
    results, apart = {}, {}
    for name in args.jobs.split(","):
        results[name], apart[name] = {side: [] for side in SIDES}, 0.0
        for seed in range(1, args.seeds + 1):
            changes = {"init": init, "seed": seed, "lr": args.lr, "epochs": args.epochs, "max_length": 64}
            path, job, arguments = finetune.prepare(name, args.data, args.work, changes)
            for side in SIDES:
                if side == "transformers":
                    got = finetune.run_torch(python, path, "float32", args.threads)
                else:
                    own = arguments if side == "lessen" else of_scratch(arguments, init, config)
                    got = finetune.run_lessen(lessen, job, own, args.threads)
                if side == "lessen":
                    saved = os.path.join(job["out"] + "-lessen", "model")
                    apart[name] = max(apart[name], probabilities_apart(lessen, saved, job, args.threads))
                results[name][side].append(got)
                print(f"{name}, seed {seed}, {side}: {got['quality']:.4f} after {got['wall_s']:.0f} s",
                      file=sys.stderr, flush=True)
    return results, apart


def claims(sides):
    """What is claimed of a job, and its numbers seed by seed."""
    quality = {side: step.column(found, "quality") for side, found in sides.items()}
    for other, text in (("transformers", "better than in transformers"), ("scratch", "better than from scratch")):
        yield text, [own - its for own, its in zip(quality["lessen"], quality[other])]


def rows(name, sides):
    """The lines of a job's table."""
    for side, found in sides.items():
        quality, wall = step.column(found, "quality"), step.column(found, "wall_s")
        each = " | ".join(f"{value:.4f}" for value in quality)
        spread = max(quality) - min(quality)
        figures = f"{statistics.mean(quality):.4f} | {spread:.4f} | {statistics.median(wall):.0f}"
        yield f"| {SIDES[side]} | {each} | {figures} |"


def page(args, results, apart, config, lines, python):
    command = f"python3 bench/pretrained.py --jobs {args.jobs} --seeds {args.seeds} --steps {args.steps}"
    command += f" --epochs {args.epochs} --lr {args.lr:g}" + (" --init DIR" if args.init else "")
    others = [run["other_work"] for sides in results.values() for runs in sides.values() for run in runs]
    text = [
        "# A BERT pre-trained in Lessen, fine-tuned in Lessen and in transformers",
        "",
        "Written by `bench/pretrained.py`, which anyone can run again:",
        "",
        "```",
        command,
        "```",
        "",
        f"- Machine: {step.machine()}; other work up to {100 * max(others):.0f} % of it, which lengthens times and"
        " changes no figure of quality",
        f"- Versions: {step.versions(python)}",
        "- Model: BERT, {} layers x {}, {} heads, inner size {}".format(*(config[name] for name in SIZES.values())),
        *lines,
        f"- Fine-tuning: {args.epochs} epochs in batches of 32, at most 64 tokens, AdamW, rate {args.lr:g} with 50 steps"
        f" of warm-up and linear decay, weight decay 0.01, clipping 1.0, dropout {DROPOUT}; the same on all sides and for"
        " all tasks. The rate was chosen by one seed. Seeds decide order, dropout and first weights",
        "- transformers loads the folder of pre-training with no missing and no unexpected keys but those of the head",
    ]
    found = [claim for sides in results.values() for claim in claims(sides)]
    said = verdicts.judged([numbers for _, numbers in found])
    said = [f"- {text}: {verdict}; by {statistics.mean(numbers):+.4f}." for (text, numbers), verdict in zip(found, said)]
    for name, sides in results.items():
        seeds = " | ".join(f"seed {seed}" for seed in range(1, args.seeds + 1))
        text += ["", f"## {JOBS[name]}", "", f"{MEASURES[name].capitalize()} on the dev split.", ""]
        text += [f"| | {seeds} | mean | spread | median time, s |", "|---" * (args.seeds + 4) + "|"]
        text += [*rows(name, sides), ""]
        text += [said.pop(0) for _ in claims(sides)]
        finds = "finds" if apart[name] <= PROBABILITY_TOLERANCE else "does NOT find"
        text += [f"- transformers {finds} the probabilities of the models that Lessen saved: {apart[name]:.1e} apart."]
    text += ["", verdicts.about(len(found))]
    return "\n".join(text) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--init", metavar="DIR", help="folder of a pre-training run, or of a BERT; pre-trains none")
    parser.add_argument("--jobs", default="sst2,cola")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=11000, help="of pre-training")
    parser.add_argument("--epochs", type=int, default=3, help="of fine-tuning")
    parser.add_argument("--lr", type=float, default=3e-4, help="of fine-tuning")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--data", default=os.path.join(step.ROOT, "data"))
    parser.add_argument("--work", default=os.path.join(step.ROOT, "target", "pretrained"))
    parser.add_argument("--lessen", help="use this lessen and build none")
    parser.add_argument("--write", metavar="FILE", help="also write the results as Markdown")
    args = parser.parse_args()
    for name in args.jobs.split(","):
        if name not in JOBS:
            sys.exit(f"pretrained: there is no job {name!r}; take from {', '.join(JOBS)}")
    if args.seeds < 1:
        sys.exit("pretrained: --seeds must be at least 1")
    args.data, args.work = os.path.abspath(args.data), os.path.abspath(args.work)
    torch.set_num_threads(args.threads)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    python = os.environ.get("PYTHON", sys.executable)
    lessen = os.path.abspath(args.lessen) if args.lessen else step.build_lessen()

    print("writing the text ...", file=sys.stderr, flush=True)
    text = pretraining_text.make(args.data, args.work, transformers)
    run = args.init or pretrain(lessen, args.work, args.steps, args.threads)
    if os.path.exists(os.path.join(run, "report.json")):
        model, lines = os.path.join(run, "model"), check_run(run, text, os.path.join(args.work, "text", "valid.txt"))
    else:
        model, lines = run, ["- Pre-trained elsewhere"]
    wrong = check_keys(model)
    if wrong:
        sys.exit(f"pretrained: transformers does not load the folder as it should: {'; '.join(wrong)}")
    init, config = ready_to_fine_tune(model, args.work)
    results, apart = fine_tune(args, lessen, python, init, config)
    text = page(args, results, apart, config, lines, python)
    print(text)
    if args.write:
        step.write_aside(args.write, text)


if __name__ == "__main__":
    main()
