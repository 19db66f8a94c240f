#!/usr/bin/env python3
"""A fine-tuning job with transformers and PyTorch: the other side of bench/finetune.py.

    python3 bench/torch_finetune.py --job FILE --mode float32|bfloat16|grouped|make --threads N

FILE is JSON that bench/finetune.py writes: the checkpoint to start from, the data, the settings. The loop is the
ordinary one: texts are tokenized once, batches are shuffled and padded to their longest text (`grouped`: texts of
similar length share a batch, as with group_by_length), fused AdamW, a linear schedule with warm-up, clipping, an
evaluation at the end, and model and tokenizer saved. One JSON object goes to stdout. `make` writes the checkpoint.
"""

import argparse
import json
import math
import os
import random
import time


def status_bytes(key):
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith(key + ":"):
                return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {key}; peak memory can only be measured on Linux")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--job", required=True)
    parser.add_argument("--mode", default="float32")
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    with open(args.job) as file:
        return args, json.load(file)


def optimizer_of(torch, model, job):
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    others = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": matrices, "weight_decay": job["weight_decay"]}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=job["lr"], fused=True)


def rate(job, step, total):
    warmup = job["warmup"]
    if step < warmup:
        return (step + 1) / warmup
    return max(0.0, (total - step) / max(1, total - warmup))


def train(torch, model, batches, job, autocast):
    """Trains on all batches and returns the number of real tokens."""
    optimizer = optimizer_of(torch, model, job)
    tokens, total = 0, len(batches)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate(job, step, total))
    model.train()
    for batch in batches:
        tokens += int(batch["attention_mask"].sum())
        with autocast():
            loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    return tokens


def matthews(predictions, labels):
    pairs = list(zip(predictions, labels))
    tp, tn = pairs.count((1, 1)), pairs.count((0, 0))
    fp, fn = pairs.count((1, 0)), pairs.count((0, 1))
    below = math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    return (tp * tn - fp * fn) / below if below else 0.0


def classify(torch, transformers, job, mode, autocast):
    tokenizer = transformers.AutoTokenizer.from_pretrained(job["init"])
    model = transformers.AutoModelForSequenceClassification.from_pretrained(job["init"], dtype=torch.float32)

    def encode(examples):
        texts = [text for text, _ in examples]
        ids = tokenizer(texts, truncation=True, max_length=job["max_length"])
        return [
            {"input_ids": i, "attention_mask": m, "labels": label}
            for i, m, (_, label) in zip(ids["input_ids"], ids["attention_mask"], examples)
        ]

    def read(split):
        with open(job[split], encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    train_set, dev_set = encode(read("train")), encode(read("dev"))
    size = job["batch"]

    def epoch():
        order = list(range(len(train_set)))
        random.shuffle(order)
        if mode == "grouped":
            # As in transformers: sorted by length within stretches of 50 batches.
            stretches = [order[i : i + 50 * size] for i in range(0, len(order), 50 * size)]
            order = [i for s in stretches for i in sorted(s, key=lambda i: -len(train_set[i]["input_ids"]))]
        rows = [order[i : i + size] for i in range(0, len(order), size)]
        if mode == "grouped":
            random.shuffle(rows)
        return rows

    random.seed(job["seed"])
    rows = [row for _ in range(job["epochs"]) for row in epoch()]

    class Batches:
        def __len__(self):
            return len(rows)

        def __iter__(self):
            for row in rows:
                yield dict(tokenizer.pad([train_set[i] for i in row], return_tensors="pt"))

    tokens = train(torch, model, Batches(), job, autocast)
    model.eval()
    predictions = []
    with torch.no_grad(), autocast():
        for i in range(0, len(dev_set), size):
            batch = dict(tokenizer.pad(dev_set[i : i + size], return_tensors="pt"))
            predictions += model(**batch).logits.argmax(-1).tolist()
    labels = [example["labels"] for example in dev_set]
    if job["metric"] == "matthews":
        quality = matthews(predictions, labels)
    else:
        quality = sum(p == l for p, l in zip(predictions, labels)) / len(labels)
    return model, tokenizer, tokens, quality


def continue_text(torch, transformers, job, autocast):
    tokenizer = transformers.AutoTokenizer.from_pretrained(job["init"])
    model = transformers.AutoModelForCausalLM.from_pretrained(job["init"], dtype=torch.float32)
    length, size = job["max_length"], job["batch"]

    def windows(name):
        with open(job[name], encoding="utf-8") as file:
            ids = tokenizer(file.read(), truncation=False, verbose=False)["input_ids"]
        count = (len(ids) - 1) // length
        return [torch.tensor(ids[i * length : (i + 1) * length]) for i in range(count)]

    train_set, dev_set = windows("train"), windows("dev")
    random.seed(job["seed"])
    rows = []
    while len(rows) < job["steps"]:
        order = random.sample(range(len(train_set)), len(train_set))
        rows += [order[i : i + size] for i in range(0, len(order) - size + 1, size)]
    rows = rows[: job["steps"]]

    class Batches:
        def __len__(self):
            return len(rows)

        def __iter__(self):
            for row in rows:
                ids = torch.stack([train_set[i] for i in row])
                yield {"input_ids": ids, "labels": ids, "attention_mask": torch.ones_like(ids)}

    tokens = train(torch, model, Batches(), job, autocast)
    model.eval()
    loss, count = 0.0, 0
    with torch.no_grad(), autocast():
        for i in range(0, len(dev_set), size):
            ids = torch.stack(dev_set[i : i + size])
            loss += model(input_ids=ids, labels=ids).loss.item() * len(ids)
            count += len(ids)
    return model, tokenizer, tokens, loss / count


def make_checkpoint(torch, transformers, job):
    """Writes the model that both sides start from: random weights of a fixed seed, with its tokenizer."""
    torch.manual_seed(1)
    make, config = {
        "bert": (transformers.BertForSequenceClassification, transformers.BertConfig),
        "gpt2": (transformers.GPT2LMHeadModel, transformers.GPT2Config),
    }[job["family"]]
    make(config(**job["config"])).save_pretrained(job["init"])
    if job["family"] == "bert":
        tokenizer = transformers.BertTokenizerFast(vocab=os.path.join(job["tokenizer"], "vocab.txt"))
        tokenizer.model_max_length = 512
    else:
        tokenizer = transformers.GPT2TokenizerFast.from_pretrained(job["tokenizer"])
    tokenizer.save_pretrained(job["init"])


def main():
    begin = time.perf_counter()
    args, job = parse()
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.set_num_threads(args.threads)
    if args.mode == "make":
        make_checkpoint(torch, transformers, job)
        return
    torch.manual_seed(job["seed"])
    imported = time.perf_counter() - begin
    try:
        with open("/proc/self/clear_refs", "w") as refs:
            refs.write("5")
    except OSError:
        pass
    before = status_bytes("VmRSS")
    bf16 = args.mode == "bfloat16"

    def autocast():
        return torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16)

    if job["kind"] == "classify":
        model, tokenizer, tokens, quality = classify(torch, transformers, job, args.mode, autocast)
    else:
        model, tokenizer, tokens, quality = continue_text(torch, transformers, job, autocast)
    model.save_pretrained(job["out"])
    tokenizer.save_pretrained(job["out"])
    growth = status_bytes("VmHWM") - before
    print(json.dumps({"quality": quality, "tokens": tokens, "imports_s": imported, "growth_bytes": growth}))


if __name__ == "__main__":
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
    main()
