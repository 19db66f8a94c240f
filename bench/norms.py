#!/usr/bin/env python3
"""LayerNorm, RMSNorm and CRMSNorm in the same models: ONNX Runtime and Lessen on the same cores.

    python3 bench/norms.py [--models vit-tiny,…,gpt2-medium] [--batches 1,8] [--rounds 5] [--runs 5] [--work DIR]
                           [--lessen FILE] [--write FILE]

Models with random weights (ViT: table B.1 of the dissertation; GPT-2 on 512 tokens, as its figure 3.5) are exported by
PyTorch and converted by `lessen convert`. In each round every file runs in ONNX Runtime and in Lessen, in turn, every
other round in the opposite order; a ratio is taken within a round. The share of norms is that of the time of their nodes,
by the profile of ONNX Runtime, and that of the time in all kernels in Lessen. Needs torch, transformers, onnx and
onnxruntime.
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
NORMS = ("layernorm", "rmsnorm", "crmsnorm")
NORM_OPERATORS = ("LayerNormalization", "SkipLayerNormalization", "SimplifiedLayerNormalization")
NORM_OPERATORS += ("SkipSimplifiedLayerNormalization", "RMSNormalization")


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
    own.run(None, {"x": x})
    times = []
    for _ in range(runs):
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


def run_ours(lessen, path, batch, runs):
    command = [lessen, "bench", "onnx", path, "--size", f"batch={batch}", "--runs", str(runs)]
    command += ["--threads", str(THREADS), "--json"]
    got = json.loads(step.output_of(command, "lessen bench onnx"))
    # Norms of primitive operations are not told apart.
    return got["ms"]["median"], got["norm_share"] if got["norms"] else None


def measure(lessen, args, work):
    results = {}
    for name in args.models.split(","):
        files = {"layernorm": os.path.join(work, f"{name}.onnx")}
        if not os.path.exists(files["layernorm"]):
            export(name, files["layernorm"])
        for norm in NORMS[1:]:
            files[norm] = os.path.join(work, f"{name}-{norm}.onnx")
            command = [lessen, "convert", files["layernorm"], "-o", files[norm], "--norm", norm, "--no-verify"]
            step.output_of(command, "lessen convert")
        for batch in map(int, args.batches.split(",")):
            x = inputs(name, batch)
            sides = [(side, norm) for norm in NORMS for side in ("ort", "lessen")]
            times = {key: [] for key in sides}
            for round_ in range(args.rounds):
                for side, norm in sides if round_ % 2 == 0 else reversed(sides):
                    print(f"{name}, batch {batch}, round {round_ + 1}, {side}, {norm} ...", file=sys.stderr)
                    if side == "ort":
                        times[side, norm].append((run_theirs(files[norm], x, args.runs), None))
                    else:
                        times[side, norm].append(run_ours(lessen, files[norm], batch, args.runs))
            shares = {norm: share_of_norms(files[norm], x, work) for norm in NORMS}
            results[name, batch] = (times, shares)
    return results


def table(results):
    lines = ["| model | batch | norm | ONNX Runtime, ms | to LayerNorm | norms' share | Lessen, ms | to LayerNorm "
             "| norms' share | Lessen / ONNX Runtime |"]
    lines += ["|" + "---|" * 10]
    for (name, batch), (times, shares) in results.items():
        for norm in NORMS:
            theirs = [ms for ms, _ in times["ort", norm]]
            ours = [ms for ms, _ in times["lessen", norm]]
            of_theirs = [a / b for a, (b, _) in zip(theirs, times["ort", "layernorm"])]
            of_ours = [a / b for a, (b, _) in zip(ours, times["lessen", "layernorm"])]
            between = [a / b for a, b in zip(ours, theirs)]
            own = [share for _, share in times["lessen", norm] if share is not None]
            own = f"{100 * statistics.median(own):.1f} %" if own else ""
            share = f"{100 * shares[norm]:.1f} %" if norm != "crmsnorm" else ""
            lines.append(
                f"| {name} | {batch} | {norm} | {step.spread(theirs, 1)} | {step.spread(of_theirs, 3)} | {share}"
                f" | {step.spread(ours, 1)} | {step.spread(of_ours, 3)} | {own} | {step.spread(between, 3)} |"
            )
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=",".join(NAMES))
    parser.add_argument("--batches", default="1,8")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--work", help="folder for the models, which stay there")
    parser.add_argument("--lessen", help="use this lessen and build none")
    parser.add_argument("--write", metavar="FILE", help="also write the results as Markdown")
    args = parser.parse_args()
    lessen = os.path.abspath(args.lessen) if args.lessen else step.build_lessen()
    load = step.load_before("norms")
    with tempfile.TemporaryDirectory() as temporary:
        results = measure(lessen, args, args.work or temporary)
    import onnxruntime

    command = f"python3 bench/norms.py --models {args.models} --batches {args.batches} --rounds {args.rounds}"
    text = ["# LayerNorm, RMSNorm and CRMSNorm in the same models", "", "Written by `bench/norms.py`, which anyone can run again:"]
    text += ["", "```", f"{command} --runs {args.runs}", "```", "", f"- Date: {datetime.date.today().isoformat()}"]
    text += [f"- Machine: {step.machine()}; load before the first round {load:.2f}; {THREADS} threads"]
    text += [f"- ONNX Runtime {onnxruntime.__version__}, float32; a figure is the median over the rounds, with the smallest and"
             " largest in brackets"]
    text += ["- CRMSNorm has no kernel in ONNX Runtime: it is eight nodes there, whose share is not told apart; where Lessen does not"]
    text += ["  find an operation in them, it is empty, too", ""]
    page = "\n".join(text + table(results)) + "\n"
    step.publish(page, args.write)


if __name__ == "__main__":
    main()
