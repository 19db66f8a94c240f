#!/usr/bin/env python3
"""Inference in integers: Lessen beside ONNX Runtime on the same files, and generation with weights of 8 and 4 bits.

    python3 bench/int8.py FOLDER [--runs 10] [--models minilm,bert,resnet50,mobilenet_v2,vit_s] [--gpt2 HF_DIR]
                          [--sets avx512+vnni,avx2+avxvnni] [--lessen PATH] [--write FILE]

FOLDER gets the models with random weights as PyTorch's exporter writes them, and as onnxruntime.quantization quantizes
them: Transformers with ranges that are computed (`quantize_dynamic`), convolutional networks with fixed ranges
(`quantize_static`, QDQ, scales for each channel). Files that are there are taken. `lessen bench onnx` takes the times of
both engines in turn, in f32 and in integers; with --sets also those of Lessen alone with other instructions (LESSEN_CPU).
GPT-2 generates with each precision of `lessen generate`.
Needs torch, torchvision, transformers, onnx and onnxruntime.
"""

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import time
import warnings

import numpy as np
import onnxruntime
import step

warnings.filterwarnings("ignore")

LENGTH, IMAGE, BATCHES = 128, 224, (1, 8)
# Words of a text that generation begins with, and tokens that follow.
PROMPT, FEW, TOKENS = "The history of the city begins with", 16, 256
PRECISIONS, ROUNDS = ("f32", "bf16", "int8", "int4"), 5
LIMIT_INT8, LIMIT_F32, LIMIT_OF_SETS, FASTER = 0.85, 0.5, 1.0, {"int8": 1.8, "int4": 2.8}


def bert(layers, width, heads):
    from transformers import BertConfig, BertModel

    config = BertConfig(num_hidden_layers=layers, hidden_size=width, num_attention_heads=heads, intermediate_size=4 * width)
    config._attn_implementation = "eager"
    return BertModel(config, add_pooling_layer=False)


def vit(layers, width, heads):
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        num_hidden_layers=layers, hidden_size=width, num_attention_heads=heads, intermediate_size=4 * width, num_labels=1000
    )
    config._attn_implementation = "eager"
    return ViTForImageClassification(config)


def network(name):
    import torchvision

    return getattr(torchvision.models, name)(weights=None)


MODELS = {
    "minilm": ("text", lambda: bert(6, 384, 12)),
    "bert": ("text", lambda: bert(12, 768, 12)),
    "resnet50": ("image", lambda: network("resnet50")),
    "mobilenet_v2": ("image", lambda: network("mobilenet_v2")),
    "vit_s": ("image", lambda: vit(12, 384, 6)),
}


def inputs(kind, batch, seed=1):
    """Random inputs of a model of this kind."""
    random = np.random.RandomState(seed)
    if kind == "text":
        return {"ids": random.randint(1000, 2000, (batch, LENGTH)).astype(np.int64)}
    return {"x": random.randn(batch, 3, IMAGE, IMAGE).astype(np.float32)}


def export(name, path):
    """Writes a model with random weights."""
    import torch

    kind, make = MODELS[name]
    torch.manual_seed(0)
    model = make().eval()
    given = {key: torch.from_numpy(value) for key, value in inputs(kind, 2).items()}

    class Plain(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x):
            y = self.model(x)
            return y if isinstance(y, torch.Tensor) else y[0]

    (key,) = given
    torch.onnx.export(
        Plain(), (given[key],), path, input_names=[key], output_names=["y"], dynamic_axes={key: {0: "batch"}},
        opset_version=17, dynamo=False,
    )


def quantize(name, source, target):
    """Writes a model with integers."""
    from onnxruntime import quantization
    from onnxruntime.quantization.shape_inference import quant_pre_process

    kind = MODELS[name][0]
    prepared = target + ".prepared"
    quant_pre_process(source, prepared, skip_symbolic_shape=True)
    if kind == "text" or name == "vit_s":
        quantization.quantize_dynamic(prepared, target, weight_type=quantization.QuantType.QInt8)
    else:
        batches = iter([inputs(kind, 1, seed) for seed in range(4)])

        class Reader(quantization.CalibrationDataReader):
            def get_next(self):
                return next(batches, None)

        quantization.quantize_static(
            prepared, target, Reader(), quant_format=quantization.QuantFormat.QDQ, per_channel=True,
            activation_type=quantization.QuantType.QUInt8, weight_type=quantization.QuantType.QInt8,
        )
    os.remove(prepared)


def agreement(lessen, path, source):
    """The largest difference of the outputs of both engines, over the largest number."""
    target = source + ".out.npz"
    command = [lessen, "run", path, "--input", source, "-o", target]
    subprocess.run(command, check=True, capture_output=True)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (right,) = session.run(None, dict(np.load(source)))
    (own,) = np.load(target).values()
    return float(np.abs(own - right).max() / np.abs(right).max())


def times(args, path, source):
    command = [args.lessen, "bench", "onnx", path, "--input", source, "--runs", str(args.runs), "--json"]
    return json.loads(step.output_of(command, "lessen bench onnx", dict(os.environ, PYTHON=sys.executable)))


def rows(args):
    """A row for each model and batch."""
    for name in args.models.split(","):
        paths = [os.path.join(args.folder, f"{name}{suffix}.onnx") for suffix in ("", "_int8")]
        if not os.path.exists(paths[0]):
            export(name, paths[0])
        if not os.path.exists(paths[1]):
            quantize(name, *paths)
        for batch in BATCHES:
            source = os.path.join(args.folder, f"{name}_{batch}.npz")
            np.savez(source, **inputs(MODELS[name][0], batch))
            found = [times(args, path, source) for path in paths]
            own = [of["ms"]["median"] for of in found]
            ratios = [of["onnxruntime"]["ratio"] for of in found]
            spread = [f"{ratio['median']:.2f} ({ratio['min']:.2f}..{ratio['max']:.2f})" for ratio in ratios]
            row = [name, str(batch), f"{own[0]:.1f}", spread[0], f"{own[1]:.1f}", spread[1], f"{own[1] / own[0]:.2f}"]
            row.append(f"{agreement(args.lessen, paths[1], source):.1e}")
            print(" | ".join(row), flush=True)
            yield row


def by_sets(args):
    """A row for each set of instructions, model and batch: the least times in f32 and in integers, of rounds in turn."""
    def fastest(suffix, name, batch, chosen):
        path, source = (os.path.join(args.folder, file) for file in (f"{name}{suffix}.onnx", f"{name}_{batch}.npz"))
        command = [args.lessen, "bench", "onnx", path, "--input", source, "--runs", str(args.runs), "--alone", "--json"]
        return json.loads(step.output_of(command, "lessen bench onnx", dict(os.environ, LESSEN_CPU=chosen)))["ms"]["min"]

    for chosen in args.sets.split(","):
        for name in args.models.split(","):
            for batch in BATCHES:
                rounds = [[fastest(suffix, name, batch, chosen) for suffix in ("", "_int8")] for _ in range(ROUNDS)]
                wide, narrow = (min(times) for times in zip(*rounds))
                row = [chosen, name, str(batch), f"{wide:.1f}", f"{narrow:.1f}", f"{narrow / wide:.2f}"]
                print(" | ".join(row), flush=True)
                yield row


def generated(args):
    """Tokens in a second of GPT-2 with each precision: what `TOKENS` more take, the start of the command left out."""
    def seconds(precision, tokens):
        command = [args.lessen, "generate", args.gpt2, "--prompt", PROMPT, "--precision", precision, "--temperature", "0"]
        command += ["--tokens", str(tokens), "--min-tokens", str(tokens), "--json"]
        begun = time.perf_counter()
        subprocess.run(command, capture_output=True, check=True)
        return time.perf_counter() - begun

    found = {precision: [] for precision in PRECISIONS}
    for _ in range(ROUNDS):
        for precision in PRECISIONS:
            found[precision].append(TOKENS / (seconds(precision, FEW + TOKENS) - seconds(precision, FEW)))
    speeds = {precision: statistics.median(speeds) for precision, speeds in found.items()}
    print(speeds, flush=True)
    return speeds


def verdicts(table, speeds, sets):
    """What was asked, and where it was missed."""
    slow = [f"{row[0]} at batch {row[1]} {row[5].split()[0]}" for row in table if float(row[5].split()[0]) > LIMIT_INT8]
    missed = f"missed for {len(slow)} of {len(table)}: {', '.join(slow)}" if slow else "met"
    text = [f"- Integers take at most {LIMIT_INT8} of ONNX Runtime's time: {missed}."]
    of_bert = [row for row in table if row[0] == "bert"]
    if of_bert:
        is_met = "met" if all(float(row[6]) <= LIMIT_F32 for row in of_bert) else "missed"
        text.append(f"- BERT-base in integers takes at most {LIMIT_F32} of its time in f32: {is_met} ({', '.join(row[6] for row in of_bert)}).")
    if sets:
        slow = [f"{row[1]} at batch {row[2]} with {row[0]} {row[5]}" for row in sets if float(row[5]) > LIMIT_OF_SETS]
        missed = f"missed for {len(slow)} of {len(sets)}: {', '.join(slow)}" if slow else "met"
        text.append(f"- Integers are not slower than f32 with each of these instructions ({', '.join(dict.fromkeys(row[0] for row in sets))}): {missed}.")
    for precision, wanted in FASTER.items() if speeds else ():
        found = speeds[precision] / speeds["f32"]
        is_met = "met" if found >= wanted else "missed"
        text.append(f"- GPT-2 small in {precision} is at least {wanted} times as fast as in f32: {is_met} ({found:.2f}).")
    return text


def markdown(args, table, speeds, sets):
    text = [
        "# Inference in integers",
        "",
        "Written by",
        "",
        "```",
        f"python3 bench/int8.py FOLDER --runs {args.runs} --models {args.models}"
        + (f" --sets {args.sets}" if args.sets else "") + (" --gpt2 HF_DIR" if args.gpt2 else ""),
        "```",
        "",
        f"- Date: {datetime.date.today().isoformat()}",
        f"- Machine: {step.machine()}",
        f"- Versions: {step.versions(sys.executable)}, onnxruntime {onnxruntime.__version__}",
        "- Random weights and inputs; the same file of integers for both engines, made by `onnxruntime.quantization`:"
        " Transformers of 128 tokens or 224 x 224 pixels with `quantize_dynamic`, ResNet-50 and MobileNetV2 with"
        " `quantize_static` (QDQ, a scale for each channel, four images)",
        f"- Ratios are Lessen's time over ONNX Runtime's, {args.runs} runs of each in turn: the median with the smallest and"
        f" largest; at most {LIMIT_INT8} is wanted of integers, and at most {LIMIT_F32} of Lessen's own f32 for BERT-base",
        "",
        *verdicts(table, speeds, sets),
        "",
        "| model | batch | Lessen f32, ms | f32 ratio | Lessen int8, ms | int8 ratio | int8 / f32 | difference |",
        "|---|---|---|---|---|---|---|---|",
        *["| " + " | ".join(row) + " |" for row in table],
    ]
    if sets:
        text += ["", f"Lessen with other instructions (`LESSEN_CPU`), the least of {ROUNDS} rounds of {args.runs} runs in turn:", ""]
        text += ["| instructions | model | batch | f32, ms | int8, ms | int8 / f32 |", "|---|---|---|---|---|---|"]
        text += ["| " + " | ".join(row) + " |" for row in sets]
    if speeds:
        text += ["", f"GPT-2 small, one text, {TOKENS} tokens, greedy; the median of {ROUNDS} runs in turn:", "", "| precision | tokens in a second | over f32 | wanted |", "|---|---|---|---|"]
        for precision, speed in speeds.items():
            wanted = FASTER.get(precision, "")
            text.append(f"| {precision} | {speed:.1f} | {speed / speeds['f32']:.2f} | {wanted} |")
    return "\n".join(text) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--sets", default="")
    parser.add_argument("--gpt2")
    parser.add_argument("--lessen")
    parser.add_argument("--write")
    args = parser.parse_args()
    os.makedirs(args.folder, exist_ok=True)
    args.lessen = args.lessen or step.build_lessen()
    table = list(rows(args))
    speeds = generated(args) if args.gpt2 else None
    sets = list(by_sets(args)) if args.sets else []
    page = markdown(args, table, speeds, sets)
    if args.write:
        with open(args.write, "w", encoding="utf-8") as file:
            file.write(page)


if __name__ == "__main__":
    main()
