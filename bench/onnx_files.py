#!/usr/bin/env python3
"""ONNX files as people ship them: Lessen beside ONNX Runtime, results and times.

    python3 bench/onnx_files.py FILE.onnx... [--runs 5] [--lessen PATH] [--write FILE]

Each file runs once in ONNX Runtime and in `lessen run` on the same random inputs; outputs must have the same types and
extents and differ by at most 1e-4 of the largest number. Then `lessen bench onnx` takes times of both in turn, by the
Python in $PYTHON or the one that runs this file, and other engines after them. Extents that a file does not say are tried until ONNX Runtime takes
them. The table goes to stdout; --write also writes it as Markdown.
"""

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile

import numpy as np
import onnxruntime
import step

TYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(uint8)": np.uint8,
    "tensor(int8)": np.int8,
    "tensor(bool)": np.bool_,
}
# Extents after the first axis that are tried where a file does not say them, by the number of axes.
TRIED = {
    2: [[16000], [512], [128], [64], [32], [576]],
    3: [[128, 64], [64, 32], [16, 16], [80, 100], [1, 128], [2, 64]],
    4: [[3, 64, 64], [3, 320, 320], [3, 48, 192], [1, 64, 64], [3, 24, 24], [3, 224, 224]],
}
TOLERANCE = 1e-4
# Engines of which `onnx_engines.py` takes times, where their packages are installed.
ENGINES = ("openvino", "tract")
LIMIT_MEDIAN, LIMIT_EACH = 1.0, 1.5
TIMEOUT = 120


def extents(value, trial, named):
    """The extents of an input; those with a name have the same size everywhere."""
    rank, found = len(value.shape), []
    for axis, extent in enumerate(value.shape):
        if isinstance(extent, int) and extent > 0:
            found.append(extent)
            continue
        tried = TRIED.get(rank)
        size = 1 if axis == 0 or tried is None else tried[trial][axis - 1]
        found.append(named.setdefault(extent, size) if isinstance(extent, str) else size)
    return found


def inputs(session, trial):
    random, named, found = np.random.default_rng(1), {}, {}
    for value in session.get_inputs():
        kind = TYPES[value.type]
        shape = extents(value, trial, named)
        if np.issubdtype(kind, np.floating):
            found[value.name] = (0.5 * random.standard_normal(shape)).astype(kind)
        elif value.name in ("sr", "sampling_rate"):
            found[value.name] = np.full(shape, 16000, kind)
        elif "len" in value.name:
            found[value.name] = np.full(shape, 100, kind)
        else:
            found[value.name] = random.integers(0, 2, shape).astype(kind)
    return found


def theirs(path):
    """Inputs that ONNX Runtime takes, and its outputs by name; else why there are none."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        return None, f"ONNX Runtime does not load it: {str(error)[:80]}"
    why = ""
    for trial in range(6):
        try:
            given = inputs(session, trial)
            return given, dict(zip([o.name for o in session.get_outputs()], session.run(None, given)))
        except Exception as error:
            why = str(error).split("\n")[0][:80]
    return None, f"ONNX Runtime takes none of the tried inputs: {why}"


def difference(own, other):
    """The largest difference of two results relative to the largest number; a text where they are of other kinds."""
    worst = 0.0
    for name, right in other.items():
        found = own[name]
        if found.shape != right.shape or found.dtype != right.dtype:
            return f"{name} is {found.dtype}{list(found.shape)}, not {right.dtype}{list(right.shape)}"
        a, b = found.astype(np.float64), right.astype(np.float64)
        if b.size == 0:
            continue
        if (np.isnan(a) != np.isnan(b)).any():
            return f"{name} is NaN elsewhere"
        largest = np.nanmax(np.abs(b), initial=0.0)
        worst = max(worst, np.nanmax(np.abs(a - b), initial=0.0) / (largest or 1.0))
    return worst


def measured(args, path):
    """What became of a file: a word, a text, and the times if there are some."""
    given, right = theirs(path)
    if given is None:
        return "left out", right, None
    with tempfile.TemporaryDirectory() as folder:
        source, target = os.path.join(folder, "in.npz"), os.path.join(folder, "out.npz")
        np.savez(source, **given)
        command = [args.lessen, "run", path, "--input", source, "-o", target]
        try:
            ran = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            return "failed", f"no result in {TIMEOUT} s", None
        if ran.returncode != 0:
            sentence = ran.stderr.strip().split("\n")[-1].replace(path, os.path.basename(path))
            return ("refused" if ran.returncode == 2 else "failed"), sentence[-160:], None
        found = difference(np.load(target), right)
        if isinstance(found, str):
            return "wrong", found, None
        command = [args.lessen, "bench", "onnx", path, "--input", source, "--runs", str(args.runs), "--json"]
        times = json.loads(step.output_of(command, "lessen bench onnx", dict(os.environ, PYTHON=args.python)))
        times["engines"] = {engine: other(args, engine, path, source) for engine in ENGINES}
    return ("runs" if found <= TOLERANCE else "differs"), f"{found:.1e}", times


def other(args, engine, path, source):
    """Milliseconds of a run in another engine; none where it does not run the file."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "onnx_engines.py")
    command = [args.python, script, engine, path, source, str(max(args.runs, 3))]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
        return float(ran.stdout.split("\n")[-2]) if ran.returncode == 0 else None
    except (subprocess.TimeoutExpired, ValueError, IndexError):
        return None


def row(path, outcome):
    word, text, times = outcome
    cells = [os.path.basename(path), f"{os.path.getsize(path) / (1 << 20):.1f}", word, text]
    if times is None or "ratio" not in (times["onnxruntime"] or {}):
        return cells + [""] * (3 + len(ENGINES))
    ratio = times["onnxruntime"]["ratio"]
    spread = f"{ratio['median']:.2f} ({ratio['min']:.2f}..{ratio['max']:.2f})"
    others = ["" if ms is None else f"{ms:.2f}" for ms in times["engines"].values()]
    return cells + [f"{times['ms']['median']:.2f}", f"{times['onnxruntime']['ms']['median']:.2f}", spread] + others


def beside(engine, outcomes):
    """A sentence about the times of another engine."""
    pairs = [(times["ms"]["median"], times["engines"][engine]) for _, _, times in outcomes if times]
    ratios = [own / theirs for own, theirs in pairs if theirs]
    if not ratios:
        return f"- {engine} ran none of the files, or is not installed"
    median = statistics.median(ratios)
    return f"- {engine} runs {len(ratios)} of the files; in their median Lessen takes {median:.2f} of the time of {engine}"


def markdown(args, rows, ratios, outcomes):
    words = [outcome[0] for outcome in outcomes]
    count = lambda word: words.count(word)
    ran = count("runs") + count("differs")
    median = statistics.median(ratios) if ratios else float("nan")
    above = sum(ratio > LIMIT_EACH for ratio in ratios)
    text = [
        "# ONNX files that people ship",
        "",
        "Written by `bench/onnx_files.py` for the files in the table, which come from packages of PyPI; the name of a",
        "package stands before the file's:",
        "",
        "```",
        f"python3 bench/onnx_files.py FILE... --runs {args.runs}",
        "```",
        "",
        f"- Date: {datetime.date.today().isoformat()}",
        f"- Machine: {step.machine()}",
        f"- Versions: {step.versions(args.python)}, onnxruntime {onnxruntime.__version__}",
        f"- {ran} of {len(words) - count('left out')} files run, {count('runs')} of them within {TOLERANCE} of the largest"
        f" number; {count('differs')} differ by more, {count('wrong')} are wrong, {count('refused')} refused,"
        f" {count('failed')} failed",
        f"- Lessen's time is {median:.2f} of ONNX Runtime's in the median of {len(ratios)} files (at most {LIMIT_MEDIAN}"
        f" is wanted), and above {LIMIT_EACH} for {above} of them; {args.runs} runs of each in turn, random inputs, the"
        " median of the ratios with the smallest and largest",
        *[beside(engine, outcomes) for engine in ENGINES],
        "",
        "| file | MiB | outcome | difference | Lessen, ms | ONNX Runtime, ms | ratio | OpenVINO, ms | tract, ms |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    return "\n".join(text + ["| " + " | ".join(cells) + " |" for cells in rows]) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--lessen", help="use this lessen and build none")
    parser.add_argument("--write", metavar="FILE", help="also write the results as Markdown")
    args = parser.parse_args()
    args.python = os.environ.get("PYTHON", sys.executable)
    args.lessen = os.path.abspath(args.lessen) if args.lessen else step.build_lessen()
    rows, ratios, outcomes = [], [], []
    for path in sorted(map(os.path.abspath, args.files)):
        outcome = measured(args, path)
        rows.append(row(path, outcome))
        outcomes.append(outcome)
        if outcome[2] is not None and "ratio" in (outcome[2]["onnxruntime"] or {}):
            ratios.append(outcome[2]["onnxruntime"]["ratio"]["median"])
        print("  ".join(rows[-1]), file=sys.stderr, flush=True)
    page = markdown(args, rows, ratios, outcomes)
    print(page)
    if args.write:
        step.write_aside(args.write, page)


if __name__ == "__main__":
    main()
