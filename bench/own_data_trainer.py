#!/usr/bin/env python3
"""Writes docs/results/own-data-trainer.md: `lessen train --data DATA --init CHECKPOINT` with nothing else said, beside
transformers' Trainer with nothing else said, on the same rows of SST-2 and from the same checkpoint.

    python3 bench/own_data_trainer.py --data DATA --init CHECKPOINT [--what TEXT] [--seeds 1,2,3] [--work DIR] [--lessen PATH]

CHECKPOINT is the folder of a BERT, such as a MiniLM or the model that bench/pretrained.py pre-trains; --what says on the
page which one it is. A seed decides the rows, which tenth of them is held out, and what each side draws.
"""

import argparse
import datetime
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

import torch
import transformers

import own_data
import step
import verdicts

# Points by which Lessen may be below transformers.
LIMIT = 1.0


class Rows(torch.utils.data.Dataset):
    """Texts as tokens, with their labels."""

    def __init__(self, tokenizer, rows):
        self.tokens = tokenizer([text for text, _ in rows], truncation=True)["input_ids"]
        self.labels = [int(label) for _, label in rows]

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return {"input_ids": self.tokens[index], "labels": self.labels[index]}


def trainer(init, parts, seed, folder):
    """The accuracy of transformers' Trainer with its defaults, and its seconds."""
    begun = time.monotonic()
    transformers.set_seed(seed)
    tokenizer = transformers.AutoTokenizer.from_pretrained(init)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(init, num_labels=2, dtype=torch.float32)
    made = transformers.Trainer(
        model=model,
        args=transformers.TrainingArguments(folder, seed=seed, report_to="none", save_strategy="no", disable_tqdm=True),
        train_dataset=Rows(tokenizer, parts[0]),
        eval_dataset=Rows(tokenizer, parts[1]),
        processing_class=tokenizer,
        compute_metrics=lambda found: {"accuracy": float((found.predictions.argmax(-1) == found.label_ids).mean())},
    )
    made.train()
    return made.evaluate()["eval_accuracy"], time.monotonic() - begun


def measured(args, seed):
    _, load, most = own_data.SETS["sst2"]
    head, rows = load(args)
    parts = own_data.split(rows, seed, most)
    folder = os.path.join(args.work, f"trainer-{seed}")
    shutil.rmtree(folder, ignore_errors=True)
    data = os.path.join(folder, "data")
    own_data.write_rows(data, head, parts)
    command = [args.lessen, "train", "--data", data, "--init", args.init, "--out", os.path.join(folder, "run"), "--seed", str(seed)]
    begun = time.monotonic()
    asked = subprocess.run([*command, "--json", "-q"], capture_output=True, text=True)
    seconds = time.monotonic() - begun
    if asked.returncode:
        sys.exit(asked.stderr)
    scores = {own["name"]: next(iter(own["scores"].values()))["value"] for own in json.loads(asked.stdout)["result"]["scores"]}
    theirs, their_seconds = trainer(args.init, parts, seed, os.path.join(folder, "trainer"))
    row = {"linear": scores["linear"], "lessen": scores["network"], "trainer": theirs, "seconds": [seconds, their_seconds]}
    print(seed, json.dumps(row), file=sys.stderr, flush=True)
    return row


def page(args, found):
    sides = {"Lessen, the checkpoint's model": "lessen", "transformers' Trainer": "trainer", "Lessen's linear model": "linear"}
    rows = []
    for name, key in sides.items():
        scores = [100 * own[key] for own in found]
        times = {"lessen": 0, "trainer": 1}.get(key)
        took = "–" if times is None else f"{statistics.mean(own['seconds'][times] for own in found):.0f}"
        rows.append(f"| {name} | {' | '.join(f'{own:.1f}' for own in scores)} | {statistics.mean(scores):.1f} | {took} |")
    apart = [100 * (own["lessen"] - own["trainer"]) for own in found]
    mean = statistics.mean(apart)
    [held] = verdicts.judged([[own + LIMIT for own in apart]])
    seeds = args.seeds.split(",")
    return "\n".join([
        "# One's own data from a checkpoint",
        "",
        "Written by",
        "",
        "```",
        f"python3 bench/own_data_trainer.py --data data --init CHECKPOINT --seeds {args.seeds}",
        "```",
        "",
        f"- Date: {datetime.date.today().isoformat()}",
        f"- Machine: {step.machine()}",
        f"- Versions: {step.versions(sys.executable)}",
        f"- Checkpoint: {args.what}",
        "- 6,000 sentences of SST-2, of which a tenth is held out, other ones for each seed; accuracy on these in percent",
        "- `lessen train --data FOLDER --init CHECKPOINT`: nothing else said but the seed; its best epoch is chosen on the held-out"
        " rows, which favours it a little; its seconds are those of the whole command, with its linear model",
        "- transformers: `Trainer` with its defaults (3 epochs, batches of 8, rate 5e-5 that falls linearly, no warm-up)",
        f"- Asked: at most {LIMIT:g} point below Trainer in the mean: {held}; {mean:+.1f} points ({min(apart):+.1f} to {max(apart):+.1f})",
        f"- {verdicts.about(1)}",
        "",
        f"| | {' | '.join(f'seed {seed}' for seed in seeds)} | mean | seconds |",
        "|---" * (len(seeds) + 3) + "|",
        *rows,
        "",
    ])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--init", required=True)
    parser.add_argument("--what", default="a BERT")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--work", default="runs/own-data")
    parser.add_argument("--lessen", default="target/release/lessen")
    parser.add_argument("--write", default="docs/results/own-data-trainer.md")
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    found = [measured(args, int(seed)) for seed in args.seeds.split(",")]
    with open(args.write, "w", encoding="utf-8") as file:
        file.write(page(args, found))


if __name__ == "__main__":
    main()
