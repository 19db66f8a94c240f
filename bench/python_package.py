#!/usr/bin/env python3
"""Measures the Python package: import, threads, memory, the interpreter's lock, equal bytes, interrupts.

    python3 bench/python_package.py [--only imports,asks,lock,bytes,interrupts] [--seed N]

It needs NumPy, and the package installed or on PYTHONPATH. Times are those of the fastest of three runs, with the spread
to the slowest. The table goes to stdout; exit code 1 where something is not met:

    imports     `import lessen` takes at most 0.15 s
    asks        64 threads get the answers of one; 10,000 calls of predict, and 1,000 models opened and dropped, let the
                resident size grow by less than 5 MB
    lock        no call holds the interpreter's lock for more than 5 ms beside the gap of a process that waits
    bytes       lessen.train and `python -m lessen train` write equal bytes by five recipes
    interrupts  a run that is interrupted 20 times at random moments and resumed ends with the bytes of a whole one
"""

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np

import lessen

TEXTS = [f"{words} {number % 7}" for number in range(100) for words in ("cheap offer now", "see you at lunch")]
LABELS = ["spam", "ham"] * 100
LINEAR = {"model.kind": "linear", "data.format": "labelled", "train.batch": 4, "train.epochs": 4, "train.lr": 0.1}
SMALL = {"model_layers": 1, "model_width": 16, "model_heads": 2, "model_ffn": 32}

#: Files of a run that tell times or sessions.
TIMED = re.compile(r"report|metrics|events|session|memory")


def spread(seconds):
    """The fastest, and how far the slowest is from it."""
    return f"{min(seconds):.3f} s, spread {max(seconds) - min(seconds):.3f} s"


def imports():
    """Seconds of fresh interpreters."""
    codes = {"the interpreter alone": "", "import numpy": "import numpy", "import lessen": "import lessen"}
    took = {name: [] for name in codes}
    for _ in range(4):
        for name, code in codes.items():
            begin = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            took[name].append(time.perf_counter() - begin)
    # The first run reads files from the disk.
    took = {name: seconds[1:] for name, seconds in took.items()}
    yield from ((name, spread(seconds), True) for name, seconds in took.items())
    more = min(took["import lessen"]) - min(took["the interpreter alone"])
    beside = min(took["import lessen"]) - min(took["import numpy"])
    yield "lessen, NumPy included", f"{more:.3f} s", more <= 0.15
    yield "lessen beside NumPy", f"{beside:.3f} s", True


def resident():
    """Bytes of the process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def asks():
    """Answers of threads, and growth of memory."""
    folder = lessen.train(LINEAR, (TEXTS, LABELS), out="asked", threads=1).folder
    model = lessen.load(folder, threads=2)
    expected, wrong = model.predict_proba(TEXTS), []

    def ask(number):
        for begin in range(number % 10, len(TEXTS), 10):
            if not np.array_equal(model.predict_proba(TEXTS[begin : begin + 10]), expected[begin : begin + 10]):
                wrong.append(number)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    yield "64 threads, other answers", f"{len(wrong)}", not wrong

    def growth(name, call, count):
        for _ in range(count // 10):
            call()
        before, begin = resident(), time.perf_counter()
        for _ in range(count):
            call()
        grown, took = resident() - before, time.perf_counter() - begin
        return name, f"{grown / 1e6:+.2f} MB in {took:.1f} s", grown < 5e6

    yield growth("10,000 calls of predict", lambda: model.predict("see you at lunch"), 10_000)
    yield growth("1,000 models opened, asked and dropped", lambda: lessen.load(folder, threads=1).predict("see"), 1000)


def longest_gap(call):
    """The longest time in milliseconds in which another thread of Python did not go on."""
    longest, ends = 0.0, threading.Event()

    def tick():
        nonlocal longest
        last = time.perf_counter()
        while not ends.is_set():
            now = time.perf_counter()
            longest, last = max(longest, now - last), now

    thread = threading.Thread(target=tick)
    thread.start()
    call()
    ends.set()
    thread.join()
    return 1e3 * longest


def lock():
    """Gaps of a thread of Python while another is in a call."""
    switch = sys.getswitchinterval()
    # Threads that want the lock get it soon, so that a gap is a lock that is held.
    sys.setswitchinterval(1e-4)
    draw = np.random.default_rng(1)
    images = draw.integers(0, 256, (256, 16, 16), dtype=np.uint8)
    keys = {"train.batch": 32, "train.epochs": 2}
    recipe = {"model.kind": "convnet-3", "data.format": "images", **keys}
    run = lessen.train(recipe, (images, np.arange(256) % 2), out="seen", threads=1)
    subprocess.run(
        [sys.executable, "-m", "lessen", "export", run.folder, "--onnx", "seen.onnx", "--quiet"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    model, session = run.model(threads=1), lessen.onnx("seen.onnx", threads=1)
    name, (dtype, _) = next(iter(session.inputs.items()))
    arrays = {name: draw.normal(size=(64, 1, 16, 16)).astype(dtype)}
    numbers = iter(range(100))

    def repeated(call):
        def calls():
            begin = time.perf_counter()
            while time.perf_counter() - begin < 1.5:
                call()

        return calls

    calls = {
        "predict of 256 images": repeated(lambda: model.predict(images)),
        "onnx.run": repeated(lambda: session.run(arrays)),
        "train": repeated(
            lambda: lessen.train(recipe, (images, np.arange(256) % 2), out=f"own{next(numbers)}", threads=1)
        ),
    }
    idle = max(longest_gap(lambda: time.sleep(1.5)) for _ in range(3))
    yield "idle", f"{idle:.1f} ms", True
    for what, call in calls.items():
        gaps = [longest_gap(call) for _ in range(3)]
        yield what, f"{min(gaps):.1f} to {max(gaps):.1f} ms", min(gaps) <= idle + 5
    sys.setswitchinterval(switch)


def folder_bytes(folder):
    """The files of a run that do not tell times, with their bytes."""
    files = [path for path in sorted(Path(folder).rglob("*")) if path.is_file() and not TIMED.search(path.name)]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def differing(one, other):
    """The names of the files that differ."""
    one, other = folder_bytes(one), folder_bytes(other)
    return [name for name in one | other if one.get(name) != other.get(name)]


def recipes():
    """Recipes, data, and keys."""
    draw = np.random.default_rng(1)
    pairs = zip(TEXTS, LABELS)
    Path("texts.csv").write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in pairs))
    rows = draw.normal(size=(100, 3))
    cells = "".join(",".join(map(repr, map(float, row))) + f",{'up' if row[0] > 0 else 'down'}\n" for row in rows)
    Path("rows.csv").write_text("x0,x1,x2,label\n" + cells)
    np.savez("images.npz", images=draw.integers(0, 256, (64, 8, 8), dtype=np.uint8), labels=np.arange(64) % 2)
    Path("book.txt").write_text("\n".join(TEXTS * 5) + "\n")
    toml = {
        "texts": {"model.kind": "linear", "data.format": "labelled", "train.batch": 4, "train.lr": 0.1},
        "table": {"model.kind": "mlp", "data.format": "table", "data.label": "label", "train.batch": 8},
        "images": {"model.kind": "convnet-3", "data.format": "images", "train.batch": 8},
    }
    for name, keys in toml.items():
        Path(f"{name}.toml").write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items()))
    yield "adder", None, {**SMALL, "train_batch": 8}
    yield "texts.toml", "texts.csv", {}
    yield "table.toml", "rows.csv", {}
    yield "images.toml", "images.npz", {}
    yield "shakespeare", "book.txt", {**SMALL, "data_max_length": 32, "train_batch": 4}


def equal_bytes():
    """Folders of Python and of the command."""
    for recipe, data, keys in recipes():
        own, other = f"own-{Path(recipe).stem}", f"command-{Path(recipe).stem}"
        lessen.train(recipe, data, out=own, steps=20, seed=3, threads=1, **keys)
        flags = [f"--set={key.replace('_', '.', 1)}={value}" for key, value in keys.items()]
        flags += [] if data is None else ["--data", data]
        command = [sys.executable, "-m", "lessen", "train", recipe, "--out", other, "--steps", "20", "--seed", "3"]
        subprocess.run([*command, "--threads", "1", *flags], check=True, capture_output=True)
        wrong = differing(own, other)
        yield f"{recipe}: {len(folder_bytes(own))} files", ", ".join(wrong) or "equal", not wrong


#: Trains, or goes on; prints when it begins.
INTERRUPTED = """
import lessen, os, sys, warnings
warnings.simplefilter("ignore")
keys = dict(out=sys.argv[1], steps=12000, threads=1, train_batch=8, model_layers=1, model_width=16, model_heads=2,
            model_ffn=32, train_eval_every=1000, train_checkpoint_every=1000)
print("begun", flush=True)
try:
    lessen.train("adder", resume=os.path.isdir(sys.argv[1]), **keys)
except KeyboardInterrupt:
    sys.exit(130)
"""


def interrupts(seed):
    """A run that is interrupted, beside one that is not."""
    subprocess.run([sys.executable, "-c", INTERRUPTED, "whole"], check=True, stdout=subprocess.DEVNULL)
    draw, done, failures = random.Random(seed), 0, []
    for number in range(100):
        program = [sys.executable, "-c", INTERRUPTED, "parts"]
        process = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        process.stdout.readline()
        if done < 20:
            try:
                process.wait(draw.uniform(0.01, 0.6))
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=120)
        done += process.returncode == 130
        if process.returncode not in (0, 130):
            failures.append(said.strip().splitlines()[-1] if said.strip() else f"exit code {process.returncode}")
            if len(failures) > 3:
                break
        if process.returncode == 0:
            break
    # Checkpoints before the last one are kept where an interrupt fell.
    last = max(Path("whole/checkpoints").iterdir(), key=lambda one: int(one.name.removeprefix("step-"))).name
    wrong = [name for name in differing("whole", "parts") if "checkpoints/" not in name or f"/{last}/" in name]
    yield f"interrupts (seed {seed})", f"{done}", done == 20
    yield "other failures", "; ".join(failures) or "none", not failures
    yield "bytes at the end", ", ".join(wrong) or "equal", not wrong


def main():
    parts = {"imports": imports, "asks": asks, "lock": lock, "bytes": equal_bytes, "interrupts": interrupts}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="parts, with commas between them", default=",".join(parts))
    parser.add_argument("--seed", type=int, default=int(time.time()), help="seed of the moments of interrupts")
    asked = parser.parse_args()
    fails = False
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        print("| what | found | met |\n|---|---|---|")
        for part in asked.only.split(","):
            for what, found, met in parts[part](asked.seed) if part == "interrupts" else parts[part]():
                print(f"| {what} | {found} | {'yes' if met else 'NO'} |", flush=True)
                fails |= not met
        os.chdir("/")
    return int(fails)


if __name__ == "__main__":
    sys.exit(main())
