#!/usr/bin/env python3
"""Writes docs/results/own-data.md: `lessen train --data` with nothing else said, beside scikit-learn's usual linear models
on the same rows, and beside FLAML's AutoML on tables where it is installed.

    python3 bench/own_data.py --data DATA [--seeds 1,2,3] [--minutes 3] [--sets sst2,diabetes,..] [--work DIR] [--lessen PATH]

DATA has the folders glue, thucnews, cifar10 and text. A seed decides the rows and which of them are held out: a tenth, of
fewer than 1000 rows a fifth. Both sides are judged on the same held-out rows, by which Lessen also chooses.
"""

import argparse
import csv
import datetime
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
import warnings

import numpy as np
import sklearn
from sklearn import datasets
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler

import step

# Points by which Lessen's own linear model may be below scikit-learn's.
LIMIT = 1.0


def tsv(path, encoding="utf-8"):
    with open(path, encoding=encoding) as file:
        return [line.rstrip("\r\n").split("\t") for line in file]


def glue(name, columns, head, encoding="utf-8", skipped=0):
    def rows(args):
        lines = tsv(os.path.join(args.data, "glue", name, "train.tsv"), encoding)
        if isinstance(columns[0], str):
            places = [lines[0].index(column) for column in columns]
            lines = [line for line in lines[1:] if len(line) > max(places)]
        else:
            places, lines = columns, lines[skipped:]
        return head, [[line[place].strip() for place in places] for line in lines]

    return rows


def titles(args):
    return ["text", "label"], tsv(os.path.join(args.data, "thucnews", "train.txt"))


def table(load):
    def rows(args):
        found = load()
        head = [str(name).replace(" ", "_") for name in found.feature_names] + ["target"]
        return head, [[*map(float, row), target] for row, target in zip(found.data, found.target)]

    return rows


def digits(args):
    found = datasets.load_digits()
    return [(image / 16 * 255, str(label)) for image, label in zip(found.images, found.target)]


def cifar(args):
    with open(os.path.join(args.data, "cifar10", "classes.txt"), encoding="utf-8") as file:
        names = file.read().split()
    raw = np.fromfile(os.path.join(args.data, "cifar10", "train_10k.bin"), dtype="uint8").reshape(-1, 3073)
    return [(row[1:].reshape(3, 32, 32).transpose(1, 2, 0), names[row[0]]) for row in raw]


# Name: kind, rows, most rows.
SETS = {
    "sst2": ("texts", glue("SST-2", ["sentence", "label"], ["text", "label"]), 6000),
    "thucnews": ("texts", titles, 2000),
    "cola": ("texts", glue("CoLA", [3, 1], ["text", "label"]), None),
    "mrpc": ("texts", glue("MRPC", [3, 4, 0], ["sentence1", "sentence2", "label"], "utf-8-sig", 1), None),
    "stsb": ("numbers of texts", glue("STS-B", ["sentence1", "sentence2", "score"], ["sentence1", "sentence2", "score"]), None),
    "diabetes": ("numbers of a table", table(datasets.load_diabetes), None),
    "breast_cancer": ("table", table(datasets.load_breast_cancer), None),
    "digits": ("table", table(datasets.load_digits), None),
    "digits_png": ("images", digits, None),
    "cifar_png": ("images", cifar, 2000),
}


def split(rows, seed, most):
    rows = list(rows)
    random.Random(seed).shuffle(rows)
    rows = rows[:most]
    held = len(rows) // (5 if len(rows) < 1000 else 10)
    return rows[held:], rows[:held]


def write_rows(folder, head, parts):
    os.makedirs(folder)
    for name, rows in zip(("train", "dev"), parts):
        with open(os.path.join(folder, f"{name}.csv"), "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([head, *rows])


def write_images(folder, parts):
    from PIL import Image

    for name, rows in zip(("train", "dev"), parts):
        for number, (pixels, label) in enumerate(rows):
            place = os.path.join(folder, name, label)
            os.makedirs(place, exist_ok=True)
            Image.fromarray(np.asarray(pixels).astype("uint8")).save(os.path.join(place, f"{number}.png"))


def linear(kind, name, parts):
    """The score of scikit-learn's linear model, and its seconds."""
    begun = time.monotonic()
    train, dev = parts
    if kind == "images":
        pixels = [np.array([np.asarray(image).ravel() / 255 for image, _ in rows]) for rows in parts]
        labels = [[label for _, label in rows] for rows in parts]
        model = LogisticRegression(max_iter=1000).fit(pixels[0], labels[0])
        return model.score(pixels[1], labels[1]), time.monotonic() - begun
    answers = [[row[-1] for row in rows] for rows in parts]
    is_number = kind.startswith("numbers")
    if is_number:
        answers = [np.array(own, float) for own in answers]
    if "text" in kind:
        texts = [[" ".join(row[:-1]) for row in rows] for rows in parts]
        how = {"analyzer": "char", "ngram_range": (1, 2)} if name == "thucnews" else {}
        maker = TfidfVectorizer(**how)
        made = [maker.fit_transform(texts[0]), maker.transform(texts[1])]
        model = Ridge() if is_number else LogisticRegression(max_iter=1000)
    else:
        numbers = [np.array([row[:-1] for row in rows], float) for rows in parts]
        maker = StandardScaler().fit(numbers[0])
        made = [maker.transform(own) for own in numbers]
        model = LinearRegression() if is_number else LogisticRegression(max_iter=1000)
    return model.fit(made[0], answers[0]).score(made[1], answers[1]), time.monotonic() - begun


def automl(kind, parts, seconds):
    """The score of FLAML in so many seconds; none where it is not installed, and on other data than tables."""
    if kind not in ("table", "numbers of a table"):
        return None
    try:
        from flaml import AutoML
    except ImportError:
        return None
    made = [np.array([row[:-1] for row in rows], float) for rows in parts]
    answers = [np.array([row[-1] for row in rows]) for rows in parts]
    task = "regression" if kind.startswith("numbers") else "classification"
    model = AutoML()
    model.fit(made[0], answers[0], task=task, time_budget=seconds, verbose=0, n_jobs=2, seed=1)
    found = model.predict(made[1])
    if task == "regression":
        return float(sklearn.metrics.r2_score(answers[1], found))
    return float(np.mean(found == answers[1]))


def measured(args, name, seed):
    kind, load, most = SETS[name]
    folder = os.path.join(args.work, f"{name}-{seed}")
    shutil.rmtree(folder, ignore_errors=True)
    data = os.path.join(folder, "data")
    if kind == "images":
        parts = split(load(args), seed, most)
        write_images(data, parts)
    else:
        head, rows = load(args)
        parts = split(rows, seed, most)
        write_rows(data, head, parts)
    out = os.path.join(folder, "run")
    command = [args.lessen, "train", "--data", data, "--out", out, "--minutes", str(args.minutes), "--seed", str(seed), "--json", "-q"]
    begun = time.monotonic()
    asked = subprocess.run(command, capture_output=True, text=True)
    seconds = time.monotonic() - begun
    if asked.returncode:
        sys.exit(f"{name}: {asked.stderr}")
    found = json.loads(asked.stdout)
    scores = {own["name"]: next(iter(own["scores"].values()))["value"] for own in found["result"]["scores"]}
    guess = next(iter(scores.values()))
    other, other_seconds = linear(kind, name, parts)
    row = {
        "rows": sum(map(len, parts)), "seconds": seconds, "chosen": found["chosen"], "guess": guess,
        "linear": scores["linear"], "network": scores["network"], "other": other, "other_seconds": other_seconds,
        "automl": automl(kind, parts, args.automl),
    }
    print(name, seed, json.dumps(row), file=sys.stderr, flush=True)
    return row


def cell(values):
    values = [100 * value for value in values if value is not None]
    if not values:
        return "–"
    mean = statistics.mean(values)
    return f"{mean:.1f}" + (f" ({min(values):.1f} to {max(values):.1f})" if len(values) > 1 else "")


def page(args, results):
    rows, failed = [], []
    for name, found in results.items():
        of = lambda key: [own[key] for own in found]
        best = [max(own["linear"], own["network"]) for own in found]
        apart = statistics.mean(100 * (own["linear"] - own["other"]) for own in found)
        ahead = statistics.mean(100 * (mine - own["other"]) for mine, own in zip(best, found))
        if ahead < 0:
            failed.append(f"{name}: the result is {-ahead:.1f} points below scikit-learn's model")
        if apart < -LIMIT:
            failed.append(f"{name}: the linear model is {-apart:.1f} points below scikit-learn's")
        late = max(of("seconds"))
        if late > 60 * args.minutes:
            failed.append(f"{name}: {late:.0f} s, asked {60 * args.minutes:.0f}")
        seconds = f"{statistics.mean(of('seconds')):.0f} ({min(of('seconds')):.0f} to {late:.0f})"
        rows.append([
            name, str(found[0]["rows"]), cell(of("guess")), cell(best), ", ".join(of("chosen")), cell(of("linear")), cell(of("network")),
            cell(of("other")), f"{ahead:+.1f}", f"{apart:+.1f}", cell(of("automl")), seconds, f"{statistics.mean(of('other_seconds')):.1f}",
        ])
    head = ["data", "rows", "simplest guess", "result", "chosen", "linear", "network", "scikit-learn", "result ahead", "linear ahead",
            "FLAML", "seconds", "its seconds"]
    line = lambda cells: "| " + " | ".join(cells) + " |"
    held = "; ".join(failed) if failed else "all met"
    sets = "" if args.sets == ",".join(SETS) else f" --sets {args.sets}"
    return "\n".join([
        "# One's own data",
        "",
        "Written by",
        "",
        "```",
        f"python3 bench/own_data.py --data data --seeds {args.seeds} --minutes {args.minutes:g} --automl {args.automl:g}{sets}",
        "```",
        "",
        f"- Date: {datetime.date.today().isoformat()}",
        f"- Machine: {step.machine()}",
        f"- Versions: {step.versions(sys.executable)}, scikit-learn {sklearn.__version__}",
        f"- `lessen train --data FOLDER` with nothing else said but `--minutes {args.minutes:g}` and the seed; scikit-learn: `TfidfVectorizer()`"
        " (Chinese: `analyzer=\"char\", ngram_range=(1, 2)`) with `LogisticRegression(max_iter=1000)` or `Ridge()`; tables standardised,"
        " pixels as they are, with `LogisticRegression(max_iter=1000)` or `LinearRegression()`; texts of pairs joined by a space",
        f"- Accuracies in percent, of numbers 100 times the share of variance explained (R2): mean and range over seeds {args.seeds}, each with"
        " other held-out rows; Lessen's best epoch and the better of its models are chosen on these rows too, which favours it a little",
        f"- FLAML: `AutoML().fit(..., time_budget={args.automl:g})` on tables",
        f"- Asked: at least scikit-learn's score, its own linear model within {LIMIT:g} point of it, and no more than the minutes: {held}",
        "",
        line(head),
        line(["---"] * len(head)),
        *map(line, rows),
        "",
    ])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--minutes", type=float, default=3)
    parser.add_argument("--automl", type=float, default=30)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--work", default="runs/own-data")
    parser.add_argument("--lessen", default="target/release/lessen")
    parser.add_argument("--write", default="docs/results/own-data.md")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    results = {}
    for name in args.sets.split(","):
        results[name] = [measured(args, name, int(seed)) for seed in args.seeds.split(",")]
    with open(args.write, "w", encoding="utf-8") as file:
        file.write(page(args, results))


if __name__ == "__main__":
    main()
