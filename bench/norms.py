#!/usr/bin/env python3
"""LayerNorm, RMSNorm and CRMSNorm in the same models: ONNX Runtime and Lessen on the same cores.

    python3 bench/norms.py [--models vit-tiny,…,gpt2-medium] [--batches 1,8] [--rounds 5] [--runs 5] [--step-rounds 3]
                           [--steps 3] [--work DIR] [--lessen FILE] [--write FILE]

Models with random weights (ViT: table B.1 of the dissertation; GPT-2 on 512 tokens, as its figure 3.5) are exported by
PyTorch and converted by `lessen convert`. In each round every file runs in ONNX Runtime and in Lessen, in turn, every
other round in the opposite order; a ratio is taken within a round. A file that takes long has fewer runs in a round, at
least one. With --work, what is measured is kept in norms.json there, and the same command goes on where it was
interrupted; another build of Lessen takes another folder. The share of norms is that of the time of their nodes, by the
profile of ONNX Runtime, and that of the time in all kernels in Lessen. The share of the peak is that of matrix
products, the same number of operations for both, in the whole time of a run. Training steps are those of the same
models in `lessen bench step`, with AdamW, in rounds of their own. Needs torch, transformers, onnx and onnxruntime.
"""

import argparse
import collections
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import step

VIT = {"tiny": (192, 12, 3), "small": (384, 12, 6), "base": (768, 12, 12), "large": (1024, 24, 16)}
GPT2 = {"small": (768, 12, 12), "medium": (1024, 24, 16)}
NAMES = [f"vit-{size}" for size in VIT] + [f"gpt2-{size}" for size in GPT2]
TOKENS = 512
THREADS = 2
# Milliseconds of the timed runs of a file in a round, about.
ROUND_MS = 2000
# The cases of `lessen bench step` that train these models.
STEPS = {"vit-tiny": "o", "vit-small": "h", "vit-base": "p", "vit-large": "q", "gpt2-small": "r", "gpt2-medium": "s"}
NORMS = ("layernorm", "rmsnorm", "crmsnorm")
NORM_OPERATORS = ("LayerNormalization", "SkipLayerNormalization", "SimplifiedLayerNormalization")
NORM_OPERATORS += ("SkipSimplifiedLayerNormalization", "RMSNormalization")


# What the paper found, for comparison.
PAPER = """
## The paper's figures

Jiang et al. measured on A100 GPUs, where norms are bound by memory and products are fast, so that norms have a larger share:

- Figure 3.3, inference of ViTs of these sizes: RMSNorm takes 1 to 9 % less time than LayerNorm, at every batch size.
- Figure 3.4, training of ViTs: LayerNorm is 12.6 % of the time, RMSNorm 9.27 % and recentring in each step 0.98 %; in all
  training takes 1 to 2.5 % less time. Here parameters are recentred in the update.
- Figure 3.5, inference of GPT-3 models on 512 tokens, batch 1: up to 10 % less time in small models, under 1 % from XL on.

An upper bound of what conversion can win is the share of norms in the first column of shares.
Where that share is 1 %, the paper's gain of up to 9 % cannot show, and the sentences below the two tables say what does.
""".strip().splitlines()


def export(name, path):
    """Writes a model with random weights."""
    import torch
    import transformers

    import onnx_models

    kind, size = name.split("-")
    if kind == "vit":
        width, layers, heads = VIT[size]
        config = transformers.ViTConfig(
            hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=4 * width,
            num_labels=1000,
        )
        model, takes = transformers.ViTForImageClassification(config), "image"
        x = torch.randn(1, 3, 224, 224)
    else:
        width, layers, heads = GPT2[size]
        config = transformers.GPT2Config(n_embd=width, n_layer=layers, n_head=heads, use_cache=False)
        model, takes = transformers.GPT2LMHeadModel(config), "ids"
        x = torch.randint(0, 50257, (1, TOKENS))
    model = onnx_models.First.of(onnx_models.randomized(model, 3), takes)
    # Without a mask transformers looks for several texts in a row, with operators that exporters do not know.
    model.is_masked = kind == "gpt2"
    torch.onnx.export(
        model, (x,), path, dynamo=False, opset_version=17, input_names=["x"], output_names=["y"],
        dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}},
    )


def inputs(name, batch):
    import numpy

    random = numpy.random.default_rng(5)
    if name.startswith("vit"):
        return random.standard_normal((batch, 3, 224, 224), dtype=numpy.float32)
    return random.integers(0, 50257, (batch, TOKENS))


def session(path, profile=None):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    if profile:
        options.enable_profiling, options.profile_file_prefix = True, profile
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def run_theirs(path, x, runs):
    """Median milliseconds of a run in ONNX Runtime."""
    own = session(path)
    start = time.perf_counter()
    own.run(None, {"x": x})
    first = 1e3 * (time.perf_counter() - start)
    times = []
    for _ in range(max(1, min(runs, round(ROUND_MS / first)))):
        start = time.perf_counter()
        own.run(None, {"x": x})
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times)


def share_of_norms(path, x, work):
    """The share of the time of nodes that is that of norms, in one run of ONNX Runtime."""
    own = session(path, os.path.join(work, "profile"))
    own.run(None, {"x": x})
    with open(own.end_profiling()) as file:
        events = json.load(file)
    times = collections.Counter()
    for event in events:
        operator = event.get("args", {}).get("op_name")
        if event.get("cat") == "Node" and operator and event["name"].endswith("_kernel_time"):
            times[operator] += event["dur"]
    return sum(times[name] for name in NORM_OPERATORS) / max(sum(times.values()), 1)


def run_ours(lessen, path, batch, runs, expected_ms):
    """A run in Lessen: median milliseconds, share of norms, GFLOP of products and the machine's peak in GFLOP/s.

    `expected_ms` says how many runs there are.
    """
    runs = max(1, min(runs, round(ROUND_MS / expected_ms))) if expected_ms else runs
    command = [lessen, "bench", "onnx", path, "--size", f"batch={batch}", "--runs", str(runs)]
    command += ["--threads", str(THREADS), "--alone", "--json"]
    got = json.loads(step.output_of(command, "lessen bench onnx"))
    # Norms of primitive operations are not told apart.
    share = got["norm_share"] if got["norms"] else None
    return got["ms"]["median"], share, got["flops"] / 1e9, got["peak_gflops"]


class Kept:
    """What is measured so far, in a file of the working folder."""

    def __init__(self, work, args):
        self.path = os.path.join(work, "norms.json")
        self.key = [args.rounds, args.runs, args.steps]
        self.found = {}
        if os.path.exists(self.path):
            with open(self.path) as file:
                kept = json.load(file)
            self.found = kept["found"] if kept["key"] == self.key else {}

    def get(self, name):
        return self.found.get(name)

    def put(self, name, value):
        self.found[name] = value
        with open(self.path + ".new", "w") as file:
            json.dump({"key": self.key, "found": self.found}, file)
        os.replace(self.path + ".new", self.path)


def measure(lessen, args, work, kept):
    results = {}
    for name in args.models.split(","):
        files = {"layernorm": os.path.join(work, f"{name}.onnx")}
        if not os.path.exists(files["layernorm"]):
            export(name, files["layernorm"])
        if all(kept.get(f"{name} {batch}") for batch in args.batches.split(",")):
            for batch in args.batches.split(","):
                results[name, int(batch)] = restored(kept.get(f"{name} {batch}"))
            continue
        for norm in NORMS[1:]:
            files[norm] = os.path.join(work, f"{name}-{norm}.onnx")
            command = [lessen, "convert", files["layernorm"], "-o", files[norm], "--norm", norm, "--no-verify"]
            step.output_of(command, "lessen convert")
        for batch in map(int, args.batches.split(",")):
            if found := kept.get(f"{name} {batch}"):
                results[name, batch] = restored(found)
                continue
            x = inputs(name, batch)
            sides = [(side, norm) for norm in NORMS for side in ("ort", "lessen")]
            times = {key: [] for key in sides}
            expected_ms = None
            for round_ in range(args.rounds):
                for side, norm in sides if round_ % 2 == 0 else reversed(sides):
                    print(f"{name}, batch {batch}, round {round_ + 1}, {side}, {norm} ...", file=sys.stderr)
                    if side == "ort":
                        expected_ms = run_theirs(files[norm], x, args.runs)
                        times[side, norm].append([expected_ms])
                    else:
                        times[side, norm].append(run_ours(lessen, files[norm], batch, args.runs, expected_ms))
            shares = {norm: share_of_norms(files[norm], x, work) for norm in NORMS}
            results[name, batch] = (times, shares)
            listed = [[side, norm, own] for (side, norm), own in times.items()]
            kept.put(f"{name} {batch}", {"times": listed, "shares": shares})
    return results


def restored(found):
    """Times and shares as they were measured."""
    return {(side, norm): own for side, norm, own in found["times"]}, found["shares"]


def measure_steps(lessen, args, kept):
    """{model: (title, {norm: [(milliseconds, planned bytes, share of the peak), one for each round]})}"""
    results = {}
    environment = dict(os.environ, LESSEN_THREADS=str(THREADS))
    for name in args.models.split(","):
        case, times, title = STEPS[name], {norm: [] for norm in NORMS}, ""
        if found := kept.get(f"{name} {args.step_rounds} steps"):
            results[name] = found
            continue
        for round_ in range(args.step_rounds):
            for norm in NORMS if round_ % 2 == 0 else reversed(NORMS):
                print(f"{name}, training, round {round_ + 1}, {norm} ...", file=sys.stderr)
                command = [lessen, "bench", "step", "--case", case, "--steps", str(args.steps), "--json"]
                command += ["--norm", norm.removesuffix("norm")]
                all_ = json.loads(step.output_of(command, "lessen bench step", environment))
                got, peak = all_["cases"][case], all_["peak_gflops"]
                times[norm].append((got["step_ms"], got["planned_peak_bytes"], got["gflops"] / peak))
                title = got["title"]
        results[name] = (title, times)
        kept.put(f"{name} {args.step_rounds} steps", results[name])
    return results


def table_of_steps(results):
    lines = ["| step | norm | ms | to LayerNorm | of the peak | memory planned, MiB |", "|---|---|---|---|---|---|"]
    for title, times in results.values():
        for norm in NORMS:
            own = [step_[0] for step_ in times[norm]]
            ratios = [a / b[0] for a, b in zip(own, times["layernorm"])]
            share = 100 * statistics.median(step_[2] for step_ in times[norm])
            memory = times[norm][0][1] / 2**20
            lines.append(
                f"| {title} | {norm} | {step.spread(own, 1)} | {step.spread(ratios, 3)} | {share:.0f} % | {memory:,.0f} |"
            )
    return lines


def verdict(results):
    """How many files Lessen runs at least as fast as ONNX Runtime, by medians and in single rounds, and the slowest one."""
    ratios, slower = {}, []
    for (name, batch), (times, _) in results.items():
        for norm in NORMS:
            each = [a[0] / b[0] for a, b in zip(times["lessen", norm], times["ort", norm])]
            ratios[f"{name}, batch {batch}, {norm}"] = statistics.median(each)
            if max(each) > 1:
                slower.append(f"{name}, batch {batch}, {norm} ({max(each):.3f})")
    slowest = max(ratios, key=ratios.get)
    count = sum(ratio <= 1 for ratio in ratios.values())
    fast = f"Lessen is at least as fast as ONNX Runtime on {count} of {len(ratios)}"
    fast += f", by the median of rounds; the largest ratio is {ratios[slowest]:.3f} ({slowest})."
    return f"{fast} It was slower in at least one round on {len(slower)}: {'; '.join(slower) or 'none'}."


def to_layernorm(what, all_times):
    """From where to where the medians of ratios to LayerNorm go; times are lists that begin with milliseconds."""
    ranges = []
    for norm in NORMS[1:]:
        pairs = [zip(times[norm], times["layernorm"]) for times in all_times]
        medians = [statistics.median(a[0] / b[0] for a, b in own) for own in pairs]
        ranges.append(f"{min(medians):.2f} to {max(medians):.2f} with {norm}")
    return f"{what} takes {' and '.join(ranges)} of the time with layernorm, by medians of rounds."


def table(results):
    lines = ["| model | batch | norm | ONNX Runtime, ms | to LayerNorm | norms' share | Lessen, ms | to LayerNorm "
             "| norms' share | Lessen / ONNX Runtime | of the peak, Lessen and ONNX Runtime |"]
    lines += ["|" + "---|" * 11]
    for (name, batch), (times, shares) in results.items():
        for norm in NORMS:
            theirs = [run[0] for run in times["ort", norm]]
            ours = [run[0] for run in times["lessen", norm]]
            of_theirs = [a / b[0] for a, b in zip(theirs, times["ort", "layernorm"])]
            of_ours = [a / b[0] for a, b in zip(ours, times["lessen", "layernorm"])]
            between = [a / b for a, b in zip(ours, theirs)]
            # Milliseconds of the products at the peak.
            at_peak = [1e3 * gflop / peak for _, _, gflop, peak in times["lessen", norm]]
            peaks = [100 * statistics.median(a / b for a, b in zip(at_peak, runs)) for runs in (theirs, ours)]
            own = [run[1] for run in times["lessen", norm] if run[1] is not None]
            own = f"{100 * statistics.median(own):.1f} %" if own else ""
            share = f"{100 * shares[norm]:.1f} %" if norm != "crmsnorm" else ""
            lines.append(
                f"| {name} | {batch} | {norm} | {step.spread(theirs, 1)} | {step.spread(of_theirs, 3)} | {share}"
                f" | {step.spread(ours, 1)} | {step.spread(of_ours, 3)} | {own} | {step.spread(between, 3)}"
                f" | {peaks[1]:.0f}, {peaks[0]:.0f} % |"
            )
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=",".join(NAMES))
    parser.add_argument("--batches", default="1,8")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--step-rounds", type=int, default=3, help="rounds of training steps; 0 for none")
    parser.add_argument("--steps", type=int, default=3, help="timed steps of a round")
    parser.add_argument("--work", help="folder for the models, which stay there")
    parser.add_argument("--lessen", help="use this lessen and build none")
    parser.add_argument("--write", metavar="FILE", help="also write the results as Markdown")
    args = parser.parse_args()
    lessen = os.path.abspath(args.lessen) if args.lessen else step.build_lessen()
    load = step.load_before("norms")
    with tempfile.TemporaryDirectory() as temporary:
        work = args.work or temporary
        kept = Kept(work, args)
        results = measure(lessen, args, work, kept)
        steps = measure_steps(lessen, args, kept) if args.step_rounds else {}
    import onnxruntime

    command = f"python3 bench/norms.py --models {args.models} --batches {args.batches} --rounds {args.rounds}"
    text = ["# LayerNorm, RMSNorm and CRMSNorm in the same models", "", "Written by `bench/norms.py`, which anyone can run again:"]
    command += f" --runs {args.runs} --step-rounds {args.step_rounds} --steps {args.steps}"
    text += ["", "```", command, "```", "", f"- Date: {datetime.date.today().isoformat()}"]
    text += [f"- Machine: {step.machine()}; load before the first round {load:.2f}; {THREADS} threads"]
    peaks = [run[3] for times, _ in results.values() for norm in NORMS for run in times["lessen", norm]]
    text += [f"- The machine's peak of products in float32, measured beside each file: {step.spread(peaks, 0)} GFLOP/s"]
    text += [f"- ONNX Runtime {onnxruntime.__version__}, float32; a figure is the median over the rounds, with the smallest and"
             " largest in brackets"]
    text += ["- CRMSNorm has no kernel in ONNX Runtime: it is eight nodes there, whose share is not told apart; where Lessen does not"]
    text += ["  find an operation in them, it is empty, too", ""]
    in_lessen = [{norm: times["lessen", norm] for norm in NORMS} for times, _ in results.values()]
    text += ["## Inference", "", *table(results), "", verdict(results)]
    text += [to_layernorm("Inference in Lessen", in_lessen), ""]
    if steps:
        text += ["## Training", "", "Forward, backward and the update by AdamW; parameters are recentred once, in the update.", ""]
        text += [*table_of_steps(steps), "", to_layernorm("A step", [times for _, times in steps.values()]), ""]
    page = "\n".join([*text, *PAPER]) + "\n"
    step.publish(page, args.write)


if __name__ == "__main__":
    main()
