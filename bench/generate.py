#!/usr/bin/env python3
"""Generation with GPT-2 small, one text: Lessen in float32 and bfloat16, transformers and candle side by side.

    python3 bench/generate.py [--sides float32,bfloat16,candle] [--rounds 5] [--tokens 256] [--data data] [--write FILE]

All sides continue the same prompt with the same checkpoint (random weights of a fixed seed), greedily and with a
key/value cache, in turns, each in a process of its own; every other round in the opposite order. A figure counts the
tokens after the first one, so neither loading nor reading the prompt. transformers' side is bench/torch_generate.py,
run by $PYTHON or by the Python that runs this file; candle's is bench/candle-generate, built for this processor.

A ratio is of figures of the same round; tables show its median, smallest and largest value. With --write, other work on
the machine, or a text of Lessen that differs from that of transformers in float32, is an error.
"""

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import time

import finetune
import step

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
SIDES = ("float32", "bfloat16", "candle")
# Lessen's own sides, and their --precision.
OWN = {"lessen": "f32", "lessen_bfloat16": "bf16"}
NAMES = {
    "lessen": "Lessen, float32",
    "lessen_bfloat16": "Lessen, bfloat16",
    "float32": "transformers, float32",
    "bfloat16": "transformers, bfloat16",
    "candle": "candle, float32",
}
PROMPT = "The quick brown fox jumps over the lazy dog and"
# How many times as fast as the other side Lessen's have to be.
REQUIRED = {("lessen", "candle"): 1.15, ("lessen_bfloat16", "candle"): 1.9}
# Bytes that a token reads: all parameters of GPT-2 small in float32 but the table of positions.
BYTES_PER_TOKEN = 4 * (50257 * 768 + 12 * (12 * 768 * 768 + 13 * 768) + 2 * 768)


def build_candle():
    """Builds candle's program as its users do, for the processor at hand; its path."""
    target = os.path.join(ROOT, "target", "candle-generate")
    environment = dict(os.environ, CARGO_TARGET_DIR=target, RUSTFLAGS="-C target-cpu=native")
    manifest = os.path.join(HERE, "candle-generate", "Cargo.toml")
    command = ["cargo", "build", "--release", "--locked", "--quiet", "--manifest-path", manifest]
    step.output_of(command, "cargo build of bench/candle-generate", environment)
    return os.path.join(target, "release", "candle-generate")


def candle_version():
    with open(os.path.join(HERE, "candle-generate", "Cargo.lock")) as lock:
        lines = lock.read().splitlines()
    return lines[lines.index('name = "candle-core"') + 1].split('"')[1]


def run_lessen(lessen, model, precision, tokens, threads):
    """The text that is added, and the seconds from its first piece, which comes with the prompt, to its end."""
    command = [lessen, "generate", model, "--prompt", PROMPT, "--tokens", str(tokens), "--temperature", "0", "--quiet"]
    command += ["--precision", precision]
    environment = dict(os.environ, LESSEN_THREADS=str(threads))
    pieces, times = [], []
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, cwd=ROOT) as child:
        while piece := os.read(child.stdout.fileno(), 1 << 16):
            times.append(time.perf_counter())
            pieces.append(piece)
    if child.returncode != 0:
        sys.exit(f"generate: lessen generate failed with exit code {child.returncode}; its message stands above")
    text = b"".join(pieces).decode()
    return {"text": text.removeprefix(PROMPT).removesuffix("\n"), "seconds": times[-1] - times[0]}


def run_torch(python, model, mode, tokens, threads):
    command = [python, os.path.join(HERE, "torch_generate.py"), "--model", model, "--mode", mode, "--prompt", PROMPT]
    command += ["--tokens", str(tokens), "--threads", str(threads)]
    environment = dict(os.environ, OMP_NUM_THREADS=str(threads), TOKENIZERS_PARALLELISM="false")
    return json.loads(step.output_of(command, "bench/torch_generate.py", environment).splitlines()[-1])


def run_candle(candle, model, prompt, tokens, threads):
    command = [candle, model, ",".join(map(str, prompt)), str(tokens)]
    environment = dict(os.environ, RAYON_NUM_THREADS=str(threads))
    return json.loads(step.output_of(command, "bench/candle-generate", environment))


def measure(args, sides, programs, model):
    """{side: [one result per round]}, and the most time of other work, as a share of the machine's."""
    lessen, python, candle = programs
    prompt = run_torch(python, model, "float32", 2, args.threads)["prompt"]
    results, most = {side: [] for side in [*OWN, *sides]}, 0.0
    for round_ in range(args.rounds):
        order = list(results) if round_ % 2 == 0 else list(reversed(results))
        for side in order:
            print(f"round {round_ + 1} of {args.rounds}, {NAMES[side]} ...", file=sys.stderr, flush=True)
            before, own, began = finetune.cpu_seconds(), os.times(), time.perf_counter()
            if side in OWN:
                got = run_lessen(lessen, model, OWN[side], args.tokens, args.threads)
            elif side == "candle":
                got = run_candle(candle, model, prompt, args.tokens, args.threads)
            else:
                got = run_torch(python, model, side, args.tokens, args.threads)
            wall, now = time.perf_counter() - began, os.times()
            own = sum(now[:4]) - sum(own[:4])
            most = max(most, (finetune.cpu_seconds() - before - own) / (wall * os.cpu_count()))
            got["tokens_per_second"] = (args.tokens - 1) / got["seconds"]
            print(f"   {got['tokens_per_second']:.1f} tokens per second", file=sys.stderr, flush=True)
            results[side].append(got)
    return results, most


def agreement(results):
    """What the texts of the sides are to those of transformers in float32: {side: sentence}, and whether Lessen's are
    the same."""
    if "float32" not in results:
        return {}, True
    text, tokens = (results["float32"][0][key] for key in ("text", "tokens"))
    said = {}
    for side, runs in results.items():
        if side in OWN:
            first = next((i for i, (mine, theirs) in enumerate(zip(runs[0]["text"], text)) if mine != theirs), None)
            is_same = all(run["text"] == text for run in runs)
            until = "NOT the text of transformers" if side == "lessen" else f"that of transformers up to character {first}"
            said[side] = "the text of transformers" if is_same else until
        elif side != "float32":
            pairs = zip(runs[0]["tokens"], tokens)
            first = next((i for i, (mine, theirs) in enumerate(pairs) if mine != theirs), None)
            said[side] = "the tokens of float32" if first is None else f"the tokens of float32 up to token {first}"
    return said, said["lessen"].startswith("the")


def rows(results, bound):
    """Name, tokens per second, its share of the bound, how many times as fast Lessen's sides are, the text."""
    said, _ = agreement(results)
    lines = []
    for side, runs in results.items():
        theirs = step.column(runs, "tokens_per_second")
        # A token in bfloat16 reads half the bytes.
        share = 100 * statistics.median(theirs) / bound / (2 if side.endswith("bfloat16") else 1)
        times = ["" if side in OWN else faster(results, own, side) for own in OWN]
        lines.append((NAMES[side], step.spread(theirs, 1), f"{share:.0f} %", *times, said.get(side, "")))
    return lines


def faster(results, own, side):
    """How many times as fast as another side one of Lessen's is, and whether that suffices."""
    pairs = zip(*(step.column(results[name], "tokens_per_second") for name in (own, side)))
    ratios = [mine / other for mine, other in pairs]
    least = REQUIRED.get((own, side))
    if not least:
        return step.spread(ratios, 2)
    return f"{step.spread(ratios, 2)}, {'yes' if statistics.median(ratios) >= least else 'NO'} (at least {least})"


def markdown(results, sides, args, python, bandwidth, load, other):
    command = f"python3 bench/generate.py --sides {','.join(sides)} --rounds {args.rounds} --tokens {args.tokens}"
    bound = bandwidth / BYTES_PER_TOKEN
    text = [
        "# Generation: Lessen, transformers and candle",
        "",
        "Written by `bench/generate.py`, which anyone can run again:",
        "",
        "```",
        command,
        "```",
        "",
        f"- Date: {datetime.date.today().isoformat()}",
        f"- Machine: {step.machine()}; load before the first round {load:.2f}, other work at most {100 * other:.1f} %",
        f"- Versions: {step.versions(python)}, candle {candle_version()} with its default features and"
        " `-C target-cpu=native`",
        f"- GPT-2 small with random weights, one text of {args.tokens} tokens after a prompt of a few, greedily, with a"
        f" key/value cache, {args.threads} threads; the time is that of all tokens but the first, so without loading",
        f"- A token reads {BYTES_PER_TOKEN / 1e6:.0f} MB of parameters in float32, half of it in bfloat16. PyTorch's sum"
        f" reads {bandwidth / 1e9:.1f} GB/s with as many threads, which is {bound:.1f} tokens per second in float32; a"
        " kernel that reads ahead, and a cache that holds a part of the parameters, get more",
        f"- {args.rounds} round(s) in which the sides take turns; figures are medians with smallest and largest, ratios"
        " are taken within each round",
        "",
        "| | tokens per second | of that of PyTorch's sum | Lessen float32 is times as fast | Lessen bfloat16 is | text |",
        "|---|---|---|---|---|---|",
    ]
    text += ["| " + " | ".join(line) + " |" for line in rows(results, bound)]
    return "\n".join(text) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sides", default=",".join(SIDES), help="others beside Lessen")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--data", default=os.path.join(ROOT, "data"), help="folder with tokenizers/gpt2")
    parser.add_argument("--work", default=os.path.join(ROOT, "target", "generate"))
    parser.add_argument("--lessen", help="use this lessen and build none")
    parser.add_argument("--candle", help="use this program and build none")
    parser.add_argument("--write", metavar="FILE", help="also write the results as Markdown")
    args = parser.parse_args()
    sides = args.sides.split(",")
    for side in sides:
        if side not in SIDES:
            sys.exit(f"generate: there is no side {side!r}; take from {', '.join(SIDES)}")
    if args.rounds < 1 or args.tokens < 2:
        sys.exit("generate: --rounds must be at least 1, --tokens at least 2")
    python = os.environ.get("PYTHON", sys.executable)
    lessen = os.path.abspath(args.lessen) if args.lessen else step.build_lessen()
    candle = os.path.abspath(args.candle) if args.candle else "candle" in sides and build_candle()
    model, torch = os.path.join(os.path.abspath(args.work), "gpt2"), os.path.join(HERE, "torch_generate.py")
    if not os.path.exists(os.path.join(model, "model.safetensors")):
        tokenizer = os.path.join(os.path.abspath(args.data), "tokenizers", "gpt2")
        command = [python, torch, "--mode", "make", "--model", model, "--tokenizer", tokenizer]
        step.output_of(command, "bench/torch_generate.py")
    load = step.load_before("generate")
    read = step.output_of([python, torch, "--mode", "bandwidth", "--threads", str(args.threads)], "PyTorch")
    bandwidth = json.loads(read)["bytes_per_second"]
    results, other = measure(args, sides, (lessen, python, candle), model)
    bound = bandwidth / BYTES_PER_TOKEN
    print(f"{step.machine()}\n{step.versions(python)}, candle {candle_version()}")
    print(f"PyTorch's sum reads {bandwidth / 1e9:.1f} GB/s: {bound:.1f} tokens per second in float32")
    for line in rows(results, bound):
        print("   {:24} {:24} {:6} {:40} {:40} {}".format(*line).rstrip())
    is_busy, same = other > finetune.MOST_OTHER_WORK, agreement(results)[1]
    if is_busy:
        print(f"generate: other work took up to {100 * other:.0f} % of the machine", file=sys.stderr)
    if not same:
        print("generate: Lessen's text is not that of transformers in float32", file=sys.stderr)
    if args.write:
        if is_busy or not same:
            sys.exit("generate: these figures are not published")
        step.write_aside(args.write, markdown(results, sides, args, python, bandwidth, load, other))


if __name__ == "__main__":
    main()
