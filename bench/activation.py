#!/usr/bin/env python3
"""Inference time per activation, per element and of whole models: `lessen bench activation` in rounds.

    python3 bench/activation.py [--rounds 3] [--batch 1,4] [--length 16,64,128] [--network bert,vit,..] [--write FILE]

Builds lessen in release. Within a round all activations of a case take turns; a ratio over ReLU is that of the medians
of one round, and tables show its median over the rounds with the smallest and largest.
"""

import argparse
import datetime
import json
import os
import statistics
import sys

from step import build_lessen, load_before, machine, output_of, spread, write_aside

TITLES = {
    "relu": "ReLU",
    "helu:0.05": "HeLU, alpha 0.05",
    "gelu": "GELU, exact",
    "gelu_new": "GELU, tanh",
    "elu": "ELU",
    "silu": "SiLU",
}
# The networks, and the activation that each has of itself.
ORIGINAL = {"bert": "gelu", "electra": "gelu", "gpt2": "gelu_new", "vit": "gelu", "resnet50": "relu"}
HELU = "helu:0.05"


def by_case(rounds):
    """{case: {activation: [one result per round]}}"""
    cases = {}
    for number, found in enumerate(rounds):
        for case in found["cases"]:
            cases.setdefault(case["case"], {}).setdefault(case["activation"], []).append(case)
            assert len(cases[case["case"]][case["activation"]]) == number + 1
    return cases


def originals(cases):
    """A table of each network with its own activation and with HeLU, as in figure 4 of the HeLU paper."""
    lines = ["", "## The original activation and HeLU", "", "| network | original | ms per example | with HeLU | saved, ms | saved |"]
    lines.append("|---" * 6 + "|")
    for name, activations in cases.items():
        original = ORIGINAL.get(name.split(",")[0])
        if original is None:
            continue
        own, helu = ([run["ns_each"] / 1e6 for run in activations[kind]] for kind in (original, HELU))
        saved = [a - b for a, b in zip(own, helu)]
        shares = [100 * (1 - b / a) for a, b in zip(own, helu)]
        cells = [name, TITLES[original], spread(own, 3), spread(helu, 3), spread(saved, 3), f"{spread(shares, 1)} %"]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def tables(cases):
    """A table for each case."""
    lines = []
    for name, activations in cases.items():
        lines += ["", f"## {name}", "", "| activation | ms | each | times ReLU |", "|---|---|---|---|"]
        for activation, runs in activations.items():
            each = statistics.median(run["ns_each"] for run in runs)
            each = f"{each:.3f} ns" if each < 1e4 else f"{each / 1e6:.3f} ms"
            lines.append(
                f"| {TITLES.get(activation, activation)} | {spread([run['ms'] for run in runs], 3)} | {each}"
                f" | {spread([run['over_first'] for run in runs], 3)} |"
            )
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", default="1,4")
    parser.add_argument("--length", default="16,64,128", help="tokens of a text")
    parser.add_argument("--network", default=",".join(ORIGINAL), help="those of `lessen bench activation`")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--lessen", help="use this lessen and build none")
    parser.add_argument("--write", metavar="FILE", help="also write the results as Markdown")
    args = parser.parse_args()
    if args.rounds < 1:
        sys.exit("activation: --rounds must be at least 1")
    load = load_before("activation")
    lessen = os.path.abspath(args.lessen) if args.lessen else build_lessen()
    command = [lessen, "bench", "activation", "--json", "--activation", ",".join(TITLES)]
    command += ["--batch", args.batch, "--length", args.length, "--network", args.network]
    environment = dict(os.environ, LESSEN_THREADS=str(args.threads))
    rounds = []
    for number in range(args.rounds):
        print(f"round {number + 1} of {args.rounds} ...", file=sys.stderr, flush=True)
        rounds.append(json.loads(output_of(command, "lessen bench activation", environment)))
    cases = by_case(rounds)
    text = [
        "# Inference time of activations",
        "",
        "Written by `bench/activation.py`, which anyone can run again:",
        "",
        "```",
        f"python3 bench/activation.py --rounds {args.rounds} --batch {args.batch} --length {args.length}"
        f" --network {args.network}",
        "```",
        "",
        f"- Date: {datetime.date.today().isoformat()}",
        f"- Machine: {machine()}; load before the first round {load:.2f}; {args.threads} threads",
        "- The activation alone, at the inner width of BERT-base, and whole models with random weights, float32: BERT-base,"
        " Electra-small and GPT-2 of 124M parameters at lengths of GLUE's tasks, ViT-S/16 and ResNet-50 on images of"
        " 224 x 224",
        "- Figure 4 of the HeLU paper is the inference time per sample of BERT, RoBERTa, XLNet, GPT-2 and Electra with their"
        " original activation and with HeLU, on a T4 over 100,000 examples; RoBERTa and XLNet have the layers of BERT-base."
        " Its gain is 4.7 s (BERT) to 121.6 s (GPT-2) over all examples, 0.05 to 1.2 ms for each. It has no networks on"
        " images; ViT and ResNet-50 are added here. Figure 3 is BERT on GLUE in half precision and int8",
        "- `each` is for an element, or for an example of the batch; figures are the median over the rounds with the smallest"
        " and largest in brackets, and a ratio is taken within a round",
        "",
        "HeLU computes what ReLU does when nothing is learned, so any difference between the two is the spread of the"
        " measurement. The paper's saving is largest for GPT-2, whose GELU is several kernels in PyTorch; here each"
        " activation is one.",
        *originals(cases),
        *tables(cases),
    ]
    page = "\n".join(text) + "\n"
    print(page)
    if args.write:
        write_aside(args.write, page)


if __name__ == "__main__":
    main()
