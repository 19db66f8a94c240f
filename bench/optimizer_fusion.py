#!/usr/bin/env python3
"""Steps with the update after backward, fused with backward, fused with the forward phase of the next step, and as planned.

    python3 bench/optimizer_fusion.py [--cases a,b,f] [--batches 1,4,16,64] [--networks f,e,t,u] [--network-batches 1,4,16]
                                      [--breakdown 32] [--rounds 3] [--steps 5] [--lessen FILE] [--write FILE]

Runs `lessen bench update`. The dissertation's figure 3.13 has the parts of a step of MobileNetV2 (case f) with a batch of
32; figures 3.14 to 3.16 have networks on images with AdamW, from one example to as many, and 3.17 has seven optimizers. A
ratio is that of two placements in one round; tables have its median over the rounds, with the smallest and the largest.
Times mean something on an idle machine alone.
"""

import argparse
import json
import os
import statistics

import step

MIB = 1 << 20
OPTIMIZERS = "sgd,momentum,adagrad,adadelta,rmsprop,adam,adamw"
SEPARATE, OTHERS = "separate", ("backward-fused", "forward-fused", "planned")
BREAKDOWN = "f"
PHASES = ("forward_ms", "backward_ms", "update_ms")
WITH_IMAGES = {"t": "VGG-19 with batch norm, 224 x 224", "u": "DenseNet-121, 224 x 224"}


def title(case):
    """A case without its batch."""
    return (WITH_IMAGES | step.CASES)[case].rsplit(", batch", 1)[0]


def key(row):
    return row["batch"], row["optimizer"], row["placement"]


def keyed(rounds):
    """The rows of all rounds by batch, optimizer and placement."""
    rows = {}
    for row in (row for own in rounds for row in own):
        rows.setdefault(key(row), []).append(row)
    return rows


def middle(rows, field):
    return statistics.median(row[field] for row in rows)


def ratio(of, to, field="step_ms", digits=3):
    """The median ratio of rows of the same rounds, with the smallest and the largest where there are several."""
    all_ratios = [a[field] / b[field] for a, b in zip(of, to)]
    text = f"{statistics.median(all_ratios):.{digits}f}"
    return text if len(all_ratios) == 1 else f"{text} ({min(all_ratios):.{digits}f}..{max(all_ratios):.{digits}f})"


def line(cells):
    return "| " + " | ".join(cells) + " |"


def head(cells):
    return [line(cells), "|" + "---|" * len(cells)]


def optimizers(case, rows):
    text = ["", f"## ({case}) {title(case)}", ""]
    text += head(["batch", "optimizer", "separate ms", *OTHERS, "separate MiB", *OTHERS])
    for batch, optimizer in dict.fromkeys(key[:2] for key in rows):
        own = {placement: rows[batch, optimizer, placement] for placement in (SEPARATE, *OTHERS)}
        base = own[SEPARATE]
        cells = [str(batch), optimizer, f"{middle(base, 'step_ms'):,.1f}", *[ratio(own[p], base) for p in OTHERS]]
        cells += [f"{base[0]['peak_bytes'] / MIB:,.0f}"]
        cells += [f"{own[p][0]['peak_bytes'] / base[0]['peak_bytes']:.3f}" for p in OTHERS]
        text.append(line(cells))
    return text


def breakdown(rows, batch):
    """Figure 3.13."""
    text = ["", f"## Parts of a step (figure 3.13): {title(BREAKDOWN)}, batch {batch}, AdamW", ""]
    text += ["What a fused step of a plan computes counts for the first phase in it. The dissertation's update takes 16.7 ms"
             " by itself and 3.3 ms within backward; its speedups are 1.12 forward-fused and 1.16 backward-fused.", ""]
    text += head(["placement", "step, ms", "forward, ms", "backward, ms", "update, ms", "speedup"])
    base = rows[batch, "adamw", SEPARATE]
    for placement in (SEPARATE, *OTHERS):
        own = rows[batch, "adamw", placement]
        cells = [f"{middle(own, field):,.1f}" for field in ("step_ms", *PHASES)]
        text.append(line([placement, *cells, ratio(base, own)]))
    return text


def networks(rows_of):
    """Figures 3.14 and 3.15: milliseconds saved, and speedups, by batch."""
    text = ["", "## Time saved and speedup by batch size and network (figures 3.14 and 3.15), AdamW", ""]
    text += head(["network", "batch", "separate, ms", *[f"{p}: saved, ms" for p in OTHERS[:2]],
                  *[f"{p}: speedup" for p in OTHERS[:2]]])
    for case, rows in rows_of.items():
        for batch in dict.fromkeys(key[0] for key in rows):
            base = rows[batch, "adamw", SEPARATE]
            own = [rows[batch, "adamw", placement] for placement in OTHERS[:2]]
            saved = [f"{statistics.median(b['step_ms'] - o['step_ms'] for b, o in zip(base, rows)):,.1f}" for rows in own]
            cells = [title(case), str(batch), f"{middle(base, 'step_ms'):,.1f}", *saved]
            text.append(line([*cells, *[ratio(base, rows) for rows in own]]))
    return text


def parameters(rows_of):
    """Figure 3.16: speedups at the largest batch by parameters of a layer."""
    text = ["", "## Speedup by parameters of a layer (figure 3.16), AdamW", ""]
    text += ["The dissertation finds that fewer parameters of a layer go with more speedup.", ""]
    text += head(["network", "batch", "parameters, million", "layers", "parameters of a layer, thousand",
                  *[f"{placement}: speedup" for placement in OTHERS[:2]]])
    found = []
    for case, rows in rows_of.items():
        batch = max(key[0] for key in rows)
        base = rows[batch, "adamw", SEPARATE]
        count, layers = base[0]["parameters"], base[0]["layers"]
        cells = [title(case), str(batch), f"{count / 1e6:.1f}", str(layers), f"{count / layers / 1e3:,.1f}"]
        cells += [ratio(base, rows[batch, "adamw", placement]) for placement in OTHERS[:2]]
        found.append((count / layers, line(cells)))
    return text + [row for _, row in sorted(found)]


def command_of(args):
    keys = ("cases", "batches", "networks", "network_batches", "breakdown", "rounds", "steps")
    flags = [f"--{name.replace('_', '-')} {getattr(args, name)}" for name in keys]
    return " ".join(["python3 bench/optimizer_fusion.py", *flags])


def markdown(args, by_optimizer, by_network, parts):
    text = ["# When updates run: after backward, within it, before the next forward phase, or as planned", ""]
    text += ["Written by `bench/optimizer_fusion.py`, which anyone can run again:", "", "```", command_of(args), "```", ""]
    text += [f"- Machine: {step.machine()}"]
    text += [
        "- Milliseconds are medians of whole steps of training, and peaks are planned ones of parameters, optimizer state and"
        " arena. *Separate* has figures, the others ratios to it: below 1 they are faster or smaller. Speedups are the"
        f" inverse: above 1 they are faster. {args.rounds} rounds, a ratio's median with the smallest and the largest",
        "- All placements have the same bits. *Planned* chooses for each parameter between the two fused ones, by the estimates of"
        " plans. Without a budget a plan may take some time for memory, which differs"
        " between placements; nothing is clipped",
        "- The dissertation measures a PyTorch of 2020, whose separate update is a loop in Python, and finds 1.19 for MobileNetV2"
        " and 1.03 for a Transformer on a GPU. Here the separate update is compiled with the rest",
    ]
    if parts:
        text += breakdown(parts, args.breakdown)
    if by_network:
        text += networks(by_network) + parameters(by_network)
    for case, rows in by_optimizer.items():
        text += optimizers(case, rows)
    return "\n".join(text) + "\n"


def measured(args, lessen, cases, batches, names):
    """The rows of cases, by case."""
    found = {}
    for case in filter(None, cases.split(",")):
        command = [lessen, "bench", "update", "--case", case, "--batches", batches, "--optimizers", names]
        command += ["--steps", str(args.steps), "--json"]
        rounds = [json.loads(step.output_of(command, "lessen bench update")) for _ in range(args.rounds)]
        found[case] = keyed(rounds)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", default="a,b,f", help="cases that are measured with all optimizers")
    parser.add_argument("--batches", default="1,4,16,64")
    parser.add_argument("--networks", default="f,e,t,u", help="networks that are measured with AdamW")
    parser.add_argument("--network-batches", default="1,4,16")
    parser.add_argument("--breakdown", type=int, default=32, help="the batch whose parts are measured; 0 measures none")
    parser.add_argument("--optimizers", default=OPTIMIZERS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--lessen", help="use this lessen and build none")
    parser.add_argument("--write", metavar="FILE", help="also write the results as Markdown")
    args = parser.parse_args()
    lessen = os.path.abspath(args.lessen) if args.lessen else step.build_lessen()
    parts = {}
    if args.breakdown:
        parts = measured(args, lessen, BREAKDOWN, str(args.breakdown), "adamw")[BREAKDOWN]
    by_network = measured(args, lessen, args.networks, args.network_batches, "adamw")
    by_optimizer = measured(args, lessen, args.cases, args.batches, args.optimizers)
    step.publish(markdown(args, by_optimizer, by_network, parts), args.write)


if __name__ == "__main__":
    main()
