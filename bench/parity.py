#!/usr/bin/env python3
"""Checks that `lessen train` does what transformers does from the same checkpoint and batches.

    python3 bench/parity.py --lessen PATH --tokenizers DIR --data DIR --text FILE
                            [--base] [--only bert|gpt2|peft] [--mpiexec FILE] [--work DIR] [--write FILE]

DIR of --tokenizers holds `bert-base-chinese/vocab.txt` and `gpt2/{vocab.json,merges.txt}`; --data is a folder
with `train.txt`, `dev.txt` (lines of title<TAB>label, labels 0 to 9) and `class.txt`; --text is a plain text
file. For each of bert-classifier and gpt2-lm it writes a checkpoint of random weights (seed 1; the
classifier's head is in it), runs 5 AdamW steps of `lessen train` with dropout 0 and no shuffling, and does
the same steps in PyTorch with transformers' model and tokenizer. It then asks for

    every loss             within 1e-5 of PyTorch's, relative
    every parameter        within 1e-4 of PyTorch's, absolute
    the folder OUT/model   to load in transformers with no missing and no unexpected keys

With --mpiexec, the launcher of MPI, two processes do the same steps on both sides, PyTorch's by
DistributedDataParallel over gloo, and every loss is within the same bound of both kinds of PyTorch's; see
`parity_processes.py`. Where `peft` is installed, adapters go from Lessen to it and back as well: see `parity_peft.py`.

It prints the figures and, to judge them by, PyTorch's own difference between float32 and float64. Exit code 1
where something is not met. --base takes the sizes of BERT-base and GPT-2 small instead of 2 layers x 128.
--work keeps the checkpoints and runs in DIR, --write writes what is printed as Markdown. Needs torch,
transformers and safetensors.
"""

import argparse
import copy
import json
import os
import shutil
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertTokenizer,
    GPT2Config,
    GPT2LMHeadModel,
    GPT2Tokenizer,
)
from transformers.utils import logging

import parity_peft
import parity_processes
from step import machine, versions, write_aside

STEPS, BATCH, LENGTH, CLASSES, SEED = 5, 8, 32, 10, 1
RATE, DECAY = 1e-4, 0.01
# The small models start wider than the usual 0.02, so that attention is not uniform and an error in it shows.
# Wider still would drown the keys' biases, whose true derivative is zero, in rounding noise that AdamW scales
# up.
SPREAD = 0.05
LOSS_TOLERANCE, PARAMETER_TOLERANCE = 1e-5, 1e-4
SETTINGS = [
    "data.shuffle=false",
    "model.dropout=0",
    f"train.batch={BATCH}",
    f"data.max_length={LENGTH}",
    "train.warmup=0",
    'train.schedule="constant"',
    f"train.lr={RATE}",
    f"train.weight_decay={DECAY}",
    "train.clip_norm=0",
    "train.checkpoint_every=0",
]


said = []


def say(line):
    """Prints a line and keeps it for the page."""
    print(line, flush=True)
    said.append(line)


def copy_files(source, target, names):
    for name in names:
        shutil.copy(os.path.join(source, name), target)


def head_of(source, target, lines):
    """The first lines of a file, so that evaluating at the end of the run takes no time."""
    with open(source, encoding="utf-8") as whole, open(target, "w", encoding="utf-8") as part:
        for _, line in zip(range(lines), whole):
            part.write(line)


def make_bert(args, folder):
    """Writes the checkpoint and the data; returns the model, its class, the data's path and the batches."""
    init, data = os.path.join(folder, "init"), os.path.join(folder, "data")
    os.makedirs(init), os.makedirs(data)
    tokenizer_dir = os.path.join(args.tokenizers, "bert-base-chinese")
    copy_files(tokenizer_dir, init, ["vocab.txt"])
    copy_files(args.data, data, ["class.txt"])
    head_of(os.path.join(args.data, "train.txt"), os.path.join(data, "train.txt"), 2 * STEPS * BATCH)
    head_of(os.path.join(args.data, "dev.txt"), os.path.join(data, "dev.txt"), STEPS * BATCH)

    tokenizer = BertTokenizer.from_pretrained(init)
    sizes = dict(hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=512)
    sizes["initializer_range"] = SPREAD
    config = BertConfig(vocab_size=len(tokenizer), num_labels=CLASSES, **({} if args.base else sizes))
    model = BertForSequenceClassification(config)
    model.save_pretrained(init)

    with open(os.path.join(data, "train.txt"), encoding="utf-8") as file:
        examples = [line.rstrip("\n").rsplit("\t", 1) for line in file][: STEPS * BATCH]
    batches = []
    for i in range(0, STEPS * BATCH, BATCH):
        titles, labels = zip(*examples[i : i + BATCH])
        inputs = tokenizer(
            list(titles), padding="max_length", truncation=True, max_length=LENGTH, return_tensors="pt"
        )
        batches.append((dict(inputs), torch.tensor([int(label) for label in labels])))
    return model, BertForSequenceClassification, data, batches


def make_gpt2(args, folder):
    """As make_bert: consecutive windows of LENGTH + 1 tokens at stride LENGTH."""
    init, data = os.path.join(folder, "init"), os.path.join(folder, "text.txt")
    os.makedirs(init)
    copy_files(os.path.join(args.tokenizers, "gpt2"), init, ["vocab.json", "merges.txt"])
    head_of(args.text, data, 2000)

    tokenizer = GPT2Tokenizer.from_pretrained(init)
    sizes = dict(n_embd=128, n_layer=2, n_head=4, n_positions=256, initializer_range=SPREAD)
    config = GPT2Config(vocab_size=len(tokenizer), **({} if args.base else sizes))
    model = GPT2LMHeadModel(config)
    model.save_pretrained(init)

    with open(data, encoding="utf-8") as file:
        tokens = tokenizer(file.read(), return_tensors="pt").input_ids[0]
    if len(tokens) <= STEPS * BATCH * LENGTH:
        sys.exit(f"parity: {args.text} is too short: {STEPS * BATCH * LENGTH + 1} tokens are needed")
    batches = []
    for step in range(STEPS):
        starts = [(step * BATCH + row) * LENGTH for row in range(BATCH)]
        windows = torch.stack([tokens[start : start + LENGTH + 1] for start in starts])
        batches.append((dict(input_ids=windows[:, :-1]), windows[:, 1:]))
    return model, GPT2LMHeadModel, data, batches


def train_in_torch(model, batches):
    """The same steps in PyTorch, in the model's own precision: the losses and the trained model."""
    # In evaluation mode dropout is off; nothing else in these two models depends on the mode.
    model.eval()
    groups = [
        dict(params=[p for p in model.parameters() if p.dim() >= 2], weight_decay=DECAY),
        dict(params=[p for p in model.parameters() if p.dim() < 2], weight_decay=0.0),
    ]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.999), eps=1e-8)
    losses = []
    for inputs, labels in batches:
        optimizer.zero_grad()
        logits = model(**inputs).logits
        loss = F.cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, model


def train_in_lessen(lessen, recipe, folder, data, launcher=()):
    """Runs `lessen train`; returns its losses and the folder of the model it wrote."""
    out = os.path.join(folder, "shared" if launcher else "run")
    command = [*launcher, lessen, "train", recipe, "--init", os.path.join(folder, "init"), "--data", data, "--out", out]
    command += ["--steps", str(STEPS), "--json"]
    for setting in SETTINGS:
        command += ["--set", setting]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(
            f"parity: lessen train {recipe} ended with exit code {done.returncode}; its message stands above"
        )
    return json.loads(done.stdout)["loss_history"], os.path.join(out, "model")


def worst_loss(ours, theirs):
    """The largest relative difference of losses, infinite where one is missing or not a number."""
    if len(ours) != len(theirs):
        return float("inf")
    differences = [abs(mine - other) / abs(other) for mine, other in zip(ours, theirs)]
    return max(d if d == d else float("inf") for d in differences)


def worst_parameter(ours, theirs):
    """The largest absolute difference of parameters and where it is; both map names to tensors."""
    worst = (0.0, "no parameter")
    for name, tensor in theirs.items():
        if name not in ours:
            return float("inf"), f"{name}, which is missing"
        if ours[name].shape != tensor.shape:
            return float("inf"), f"{name}, of shape {list(ours[name].shape)} instead of {list(tensor.shape)}"
        difference = (ours[name].double() - tensor.double()).abs().max().item()
        if difference != difference:
            return float("inf"), f"{name}, which holds NaN"
        worst = max(worst, (difference, name))
    return worst


def check(title, value, tolerance, detail=""):
    met = value <= tolerance
    say(f"  {'ok  ' if met else 'FAIL'} {title}: {value:.2e} (at most {tolerance:.0e}) {detail}".rstrip())
    return met


def compare(recipe, make, args, folder):
    """One recipe on both sides; true where everything is met."""
    os.makedirs(folder)
    torch.manual_seed(SEED)
    model, kind, data, batches = make(args, folder)
    first = copy.deepcopy(model).eval()
    exact_losses, exact = train_in_torch(copy.deepcopy(model).double(), batches)
    start = {name: p.detach().clone() for name, p in model.named_parameters()}
    losses, model = train_in_torch(model, batches)
    theirs = {name: p.detach() for name, p in model.named_parameters()}
    ours_losses, written = train_in_lessen(args.lessen, recipe, folder, data)
    ours = load_file(os.path.join(written, "model.safetensors"))

    count = sum(p.numel() for p in theirs.values())
    say(f"{recipe}: {count:,} parameters, {STEPS} steps of {BATCH} x {LENGTH} tokens")
    say("  losses, Lessen:  " + "  ".join(f"{loss:.7f}" for loss in ours_losses))
    say("  losses, PyTorch: " + "  ".join(f"{loss:.7f}" for loss in losses))
    loss_noise = worst_loss(losses, exact_losses)
    noise, where = worst_parameter(theirs, {name: p.detach() for name, p in exact.named_parameters()})
    moved, _ = worst_parameter(theirs, start)
    say(
        f"  PyTorch's float32 against its float64: losses {loss_noise:.2e}, parameters {noise:.2e} in {where}"
    )
    say(f"  the steps moved parameters by up to {moved:.2e}")
    met = check("losses, relative", worst_loss(ours_losses, losses), LOSS_TOLERANCE)
    difference, where = worst_parameter(ours, theirs)
    met &= check("parameters, absolute", difference, PARAMETER_TOLERANCE, f"in {where}")

    if args.mpiexec:
        launcher = [args.mpiexec, "-n", str(parity_processes.PROCESSES)]
        shared, _ = train_in_lessen(args.lessen, recipe, folder, data, launcher)
        parallel = parity_processes.losses(first, batches, os.path.abspath(__file__))
        say("  losses, Lessen, two processes:  " + "  ".join(f"{loss:.7f}" for loss in shared))
        say("  losses, PyTorch, two processes: " + "  ".join(f"{loss:.7f}" for loss in parallel))
        met &= check("losses of two processes, relative to PyTorch's one", worst_loss(shared, losses), LOSS_TOLERANCE)
        met &= check("losses of two processes, relative to DDP's", worst_loss(shared, parallel), LOSS_TOLERANCE)

    _, info = kind.from_pretrained(written, output_loading_info=True)
    for what in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        found = ", ".join(sorted(str(key) for key in info.get(what, [])))
        met &= not found
        say(f"  {'FAIL' if found else 'ok  '} {what.replace('_', ' ')} in transformers: {found or 'none'}")
    return met


def markdown(args):
    flags = (" --base" if args.base else "") + (" --mpiexec mpiexec" if args.mpiexec else "")
    text = [
        "# Parity with transformers",
        "",
        "Written by `bench/parity.py`, which anyone can run again:",
        "",
        "```",
        f"python3 bench/parity.py --lessen target/release/lessen --tokenizers DIR --data DIR --text FILE{flags}",
        "```",
        "",
        f"- Machine: {machine()}",
        f"- Versions: {versions(sys.executable)}",
        f"- Both sides: float32, random first weights of seed {SEED}, {STEPS} AdamW steps of {BATCH} x {LENGTH} tokens,"
        f" learning rate {RATE}, weight decay {DECAY} on matrices, dropout 0, no shuffling",
        "- PyTorch's own difference between float32 and float64 is the measure of what can be asked for",
        "",
        "```text",
    ]
    return "\n".join(text + said) + "\n```\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lessen", metavar="PATH", help="the built command")
    parser.add_argument("--tokenizers", metavar="DIR")
    parser.add_argument("--data", metavar="DIR", help="for bert-classifier")
    parser.add_argument("--text", metavar="FILE", help="for gpt2-lm")
    parser.add_argument("--only", choices=["bert", "gpt2", "peft"])
    parser.add_argument(
        "--base", action="store_true", help="BERT-base and GPT-2 small instead of 2 layers x 128"
    )
    parser.add_argument("--work", metavar="DIR", help="keep checkpoints and runs here; must not exist")
    parser.add_argument("--write", metavar="FILE", help="also write the results as Markdown")
    parser.add_argument("--mpiexec", metavar="FILE", help="also compare two processes; the launcher of MPI")
    parser.add_argument("--torch", metavar="FILE", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.torch:
        parity_processes.side(args.torch, train_in_torch)
        return
    for option in ("lessen", "tokenizers"):
        if getattr(args, option) is None:
            parser.error(f"--{option} is needed")
    for only, option in (("bert", "data"), ("gpt2", "text"), ("peft", "data"), ("peft", "text")):
        if args.only in (None, only) and getattr(args, option) is None:
            parser.error(f"{only} needs --{option}")
    args.lessen = os.path.abspath(args.lessen)
    logging.set_verbosity_error()
    logging.disable_progress_bar()

    with tempfile.TemporaryDirectory() as temporary:
        work = args.work or os.path.join(temporary, "work")
        os.makedirs(work)
        met = True
        if args.only in (None, "bert"):
            met &= compare("bert-classifier", make_bert, args, os.path.join(work, "bert"))
        if args.only in (None, "gpt2"):
            met &= compare("gpt2-lm", make_gpt2, args, os.path.join(work, "gpt2"))
        if args.only in (None, "peft"):
            if parity_peft.is_installed():
                met &= parity_peft.compare(args, os.path.join(work, "peft"), say, check)
            elif args.only:
                parser.error("--only peft needs peft: pip install peft")
            else:
                say("adapters: not compared, since peft is not installed")
    say("parity: met" if met else "parity: NOT met")
    if args.write:
        write_aside(args.write, markdown(args))
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
