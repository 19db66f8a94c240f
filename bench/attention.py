#!/usr/bin/env python3
"""One command for all sides of the attention benchmark: fused and unfused in Lessen, and PyTorch, on the same cores.

    python3 bench/attention.py [--run RUN,RUN ...] [--layers 0,1,2] [--rounds 3] [--runs N]
        [--tables softmax,flare,shares,kinds] [--write FILE]

Builds lessen in release, then measures in rounds. Within a round every case runs on each of its sides in turn, each in
a process of its own; every other round in the opposite order. A ratio is that of the medians of one round; tables show
its median over the rounds with the smallest and largest. RUN is a run of a language model with ReLU attention and FIRE:
its queries, keys, values and biases on its own text are the trained inputs; without it they are random alone. Of
several runs, the first one is timed, and what is left out is counted in all.
PyTorch's side is bench/torch_attention.py, run by $PYTHON or, where that is not set, by the Python that runs this file.
"""

import argparse
import datetime
import json
import os
import statistics
import sys

from step import HERE, build_lessen, load_before, machine, output_of, spread, versions, write_aside

LENGTHS = (512, 1024, 2048, 4096, 8192)
HEADS = (1, 12)
# The unfused graph holds the hidden layer of FIRE for every pair of tokens.
LONGEST_UNFUSED = {1: 4096, 12: 2048}


class Sides:
    """Runs sides of cases, and keeps what they found by round."""

    def __init__(self, args, lessen, python):
        self.args, self.lessen, self.python = args, lessen, python
        self.found = {}
        self.peak = []

    def runs(self, tokens, heads):
        """Fewer runs of long cases: a case takes a few seconds at most."""
        work = heads * (tokens / 1024) ** 2
        return max(3, min(self.args.runs, int(200 / work)))

    def ours(self, tokens, heads, *flags, trained=False):
        command = [self.lessen, "bench", "attention", "--json", "--tokens", str(tokens), "--heads", str(heads)]
        command += ["--runs", str(self.runs(tokens, heads)), *flags]
        if trained:
            command += ["--run", self.args.run[0]]
        environment = dict(os.environ, LESSEN_THREADS=str(self.args.threads))
        got = json.loads(output_of(command, "lessen bench attention", environment))
        self.peak.append(got["peak_gflops"])
        return got["cases"][0]

    def theirs(self, tokens, heads, *flags):
        command = [self.python, os.path.join(HERE, "torch_attention.py"), "--tokens", str(tokens)]
        command += ["--heads", str(heads), "--runs", str(self.runs(tokens, heads))]
        command += ["--threads", str(self.args.threads), *flags]
        return json.loads(output_of(command, "bench/torch_attention.py"))

    def measure(self, cases):
        """`cases`: {name: {side: function}}; every side runs once in every round."""
        for round_ in range(self.args.rounds):
            for name, sides in cases.items():
                order = list(sides.items())
                for side, run in order if round_ % 2 == 0 else reversed(order):
                    print(f"round {round_ + 1} of {self.args.rounds}, {name}, {side} ...", file=sys.stderr, flush=True)
                    self.found.setdefault((name, side), []).append(run())

    def ms(self, name, side):
        return [got["ms"] for got in self.found[name, side]]

    def ratios(self, name, above, below):
        """How many times as long `above` takes as `below`."""
        return [a / b for a, b in zip(self.ms(name, above), self.ms(name, below))]


def passes():
    return (("forward", ["--pass", "forward"], []), ("forward and backward", ["--pass", "both"], ["--backward"]))


def required(values, least):
    return f"{'yes' if statistics.median(values) >= least else 'NO'} (at least {least})"


def softmax_table(sides):
    """Softmax attention beside PyTorch's."""
    cases = {}
    for full in (False, True):
        for tokens in LENGTHS:
            for heads in HEADS:
                for title, ours, theirs in passes():
                    flags = ["--full"] if full else []
                    name = (("full" if full else "causal"), tokens, heads, title)
                    cases[name] = {
                        "lessen": lambda t=tokens, h=heads, f=[*ours, *flags]: sides.ours(t, h, *f),
                        "torch": lambda t=tokens, h=heads, f=[*theirs, *flags]: sides.theirs(t, h, *f),
                    }
    sides.measure(cases)
    lines = [
        "## Softmax attention",
        "",
        "`of the peak` is Lessen's share of the machine's peak. PyTorch does the same products, so its share is that divided by"
        " how many times as fast Lessen is.",
        "",
        "| | tokens | heads | pass | Lessen, ms | PyTorch, ms | times as fast | required | of the peak | Lessen, MiB"
        " beside operands | PyTorch, MiB beside operands |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name in cases:
        ratios = sides.ratios(name, "torch", "lessen")
        ours, theirs = sides.found[name, "lessen"][-1], sides.found[name, "torch"][-1]
        lines.append(
            f"| {name[0]} | {name[1]} | {name[2]} | {name[3]} | {spread(sides.ms(name, 'lessen'), 2)}"
            f" | {spread(sides.ms(name, 'torch'), 2)} | {spread(ratios, 2)} | {required(ratios, 1.2)}"
            f" | {100 * ours['gflops'] / statistics.median(sides.peak):.0f} %"
            f" | {ours['scratch_bytes'] / 2**20:.2f} | {theirs['growth_bytes'] / 2**20:.2f} |"
        )
    return lines


def flare_table(sides):
    """ReLU attention with FIRE: fused, unfused, and PyTorch's softmax with the bias as a mask, and without one."""
    weights = ["random"] + (["trained"] if sides.args.run else [])
    cases = {}
    for weight in weights:
        trained = weight == "trained"
        for tokens in LENGTHS:
            for heads in HEADS:
                for title, ours, theirs in passes():
                    flags = ours if trained else [*ours, "--attention", "relu:keys", "--position", "fire"]
                    case = {
                        "fused": lambda t=tokens, h=heads, f=flags, w=trained: sides.ours(t, h, *f, trained=w),
                    }
                    if tokens <= LONGEST_UNFUSED[heads]:
                        unfused = [*flags, "--form", "unfused"]
                        case["unfused"] = lambda t=tokens, h=heads, f=unfused, w=trained: sides.ours(t, h, *f, trained=w)
                    if tokens <= 4096:
                        mask = [*theirs, "--mask"]
                        case["torch"] = lambda t=tokens, h=heads, f=mask: sides.theirs(t, h, *f)
                    cases[(weight, tokens, heads, title)] = case
    sides.measure(cases)
    lines = [
        "## ReLU attention with FIRE",
        "",
        "PyTorch's side is softmax attention with the bias as a dense float mask, since it has no fused FIRE: that"
        " takes it longer than its causal softmax without a bias, which computes half of the scores. The column after it"
        " has that softmax from the table above, as a ratio of medians. Trained inputs are those of layer 0 of the first"
        " run; the next table says how its zeros compare with those of the other layers, of which nothing is timed here."
        " Required at 2,048 tokens, of trained inputs"
        " against PyTorch. A bias is skipped where a bound shows a whole tile to be zeros before its scores are computed; its"
        " value product also where all its scores come out zero; a tile with few weights sums over these alone."
        " A dash: not run, since graphs that hold all scores at once take too long or too much memory there.",
        "",
        "| inputs | tokens | heads | pass | fused, ms | unfused, ms | PyTorch with the mask, ms | unfused / fused"
        " | PyTorch with the mask / fused | PyTorch's causal softmax / fused | required | zeros | biases skipped | tiles skipped | value products skipped | few weights | fused, MiB beside operands"
        " | unfused, MiB beside operands |",
        "|---" * 18 + "|",
    ]
    for name, case in cases.items():
        fused = sides.found[name, "fused"][-1]
        own = sides.ratios(name, "unfused", "fused") if "unfused" in case else []
        other = sides.ratios(name, "torch", "fused") if "torch" in case else []
        causal = sides.found.get((("causal", *name[1:]), "torch"))
        plain = "–"
        if causal:
            ms = statistics.median(got["ms"] for got in causal)
            plain = f"{ms / statistics.median(sides.ms(name, 'fused')):.1f}"
        needs = []
        if name[1] == 2048:
            needs += [required(own, 2.0)]
            if name[0] == "trained":
                needs += [required(other, 2.0)]
        counts = fused.get("counts") or {}
        share = lambda key: f"{100 * counts[key]:.1f} %" if key in counts else "–"
        unfused = f"{sides.found[name, 'unfused'][-1]['scratch_bytes'] / 2**20:,.1f}" if own else "–"
        lines.append(
            f"| {name[0]} | {name[1]} | {name[2]} | {name[3]} | {spread(sides.ms(name, 'fused'), 2)}"
            f" | {spread(sides.ms(name, 'unfused'), 2) if own else '–'}"
            f" | {spread(sides.ms(name, 'torch'), 2) if other else '–'}"
            f" | {spread(own, 2) if own else '–'} | {spread(other, 2) if other else '–'} | {plain} | {'; '.join(needs)}"
            f" | {share('zeros')} | {share('biases_skipped')} | {share('tiles_skipped')} | {share('values_skipped')}"
            f" | {share('tiles_sparse')} | {fused['scratch_bytes'] / 2**20:.2f} | {unfused} |"
        )
    return lines


def shares_table(sides):
    """What the fused kernel leaves out of the layers of trained models."""
    if not sides.args.run:
        return []
    lengths = ("128", "512", "2048", "8192")
    kinds = ("zeros", "biases_skipped", "tiles_skipped", "values_skipped", "tiles_sparse")
    found = {}
    for run in sides.args.run:
        for layer in sides.args.layers.split(","):
            command = [sides.lessen, "bench", "attention", "--json", "--run", run, "--layer", layer, "--pass", "forward"]
            command += ["--tokens", ",".join(lengths), "--heads", str(sides.args.heads), "--runs", "1"]
            for case in json.loads(output_of(command, "lessen bench attention"))["cases"]:
                for kind in kinds:
                    found.setdefault((layer, case["tokens"], kind), []).append(100 * case["counts"][kind])
    lines = [
        "## What ReLU attention with FIRE leaves out",
        "",
        f"The layers of {len(sides.args.run)} trained model(s) with {sides.args.heads} heads on validation text: shares in"
        " percent, the mean and the deviation over the models. Zeros are of scores that queries see; biases, tiles and value"
        " products as above. The paper counts 98.9 % of zeros, and takes each for an operation that is saved; a vector unit"
        " saves what whole tiles leave out.",
        "",
        "| layer | tokens | zeros | biases skipped | tiles skipped | value products skipped | few weights |",
        "|---" * 7 + "|",
    ]
    for layer in sides.args.layers.split(","):
        for tokens in lengths:
            cells = [layer, tokens]
            for kind in kinds:
                values = found[layer, int(tokens), kind]
                deviation = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
                cells.append(f"{statistics.mean(values):.1f}{deviation}")
            lines.append("| " + " | ".join(cells) + " |")
    return [*lines, "", said_of_layers(sides.args.layers.split(","), found)]


def said_of_layers(layers, found):
    """How sparse the timed layer is beside the others."""
    zeros = {layer: statistics.mean(found[layer, 2048, "zeros"]) for layer in layers}
    said = f"At 2,048 tokens zeros are {', '.join(f'{share:.1f} % in layer {layer}' for layer, share in zeros.items())}."
    if "0" not in zeros or len(zeros) < 2:
        return said
    sparsest = max(zeros, key=zeros.get) == "0"
    return said + f" The times above are of layer 0, {'the sparsest' if sparsest else 'not the sparsest'} of them."


KINDS = (
    ("norm_softmax", "none"),
    ("norm_softmax:gamma=inf", "none"),
    ("logit_norm", "none"),
    ("relu:keys", "none"),
    ("sigmoid:keys", "none"),
    ("softmax", "alibi"),
    ("softmax", "fire"),
    ("norm_softmax", "fire"),
    ("sigmoid:keys", "fire"),
)


def kinds_table(sides):
    """Every other attention beside softmax."""
    cases = {}
    for tokens in (512, 2048, 8192):
        for title, ours, _ in passes():
            case = {"softmax": lambda t=tokens, f=ours: sides.ours(t, 12, *f)}
            for attention, position in KINDS:
                flags = [*ours, "--attention", attention, "--position", position]
                case[f"{attention}, {position}"] = lambda t=tokens, f=flags: sides.ours(t, 12, *f)
            cases[(tokens, title)] = case
    sides.measure(cases)
    lines = [
        "## Other attentions beside softmax",
        "",
        "Twelve heads, causal, random inputs; time over that of softmax without a bias. NormSoftmax must take at most 1.1"
        " times as long.",
        "",
        "| attention, position | " + " | ".join(f"{t} tokens, {title}" for t, title in cases) + " |",
        "|---" * (1 + len(cases)) + "|",
    ]
    for attention, position in KINDS:
        side = f"{attention}, {position}"
        row = [spread(sides.ratios(name, side, "softmax"), 2) for name in cases]
        lines.append(f"| `{attention}`, {position} | " + " | ".join(row) + " |")
    return lines


TABLES = {"softmax": softmax_table, "flare": flare_table, "shares": shares_table, "kinds": kinds_table}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--run", help="runs of a language model with ReLU attention and FIRE, separated by commas")
    parser.add_argument("--layers", default="0", help="layers of these in which is counted what is left out")
    parser.add_argument("--heads", type=int, default=4, help="heads of these")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runs", type=int, default=20, help="timed runs of short cases")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--lessen", help="use this lessen and build none")
    parser.add_argument("--write", metavar="FILE", help="also write the results as Markdown")
    args = parser.parse_args()
    tables = args.tables.split(",")
    args.run = args.run.split(",") if args.run else []
    for table in tables:
        if table not in TABLES:
            sys.exit(f"attention: there is no table {table!r}; take from {', '.join(TABLES)}")
    if args.rounds < 1 or args.runs < 1:
        sys.exit("attention: --rounds and --runs must be at least 1")
    python = os.environ.get("PYTHON", sys.executable)
    load = load_before("attention")
    sides = Sides(args, os.path.abspath(args.lessen) if args.lessen else build_lessen(), python)
    lines = []
    for table in tables:
        lines += ["", *TABLES[table](sides)]
    command = f"python3 bench/attention.py --tables {args.tables} --rounds {args.rounds} --runs {args.runs}"
    if args.run:
        command += f" --run {','.join(args.run)} --layers {args.layers} --heads {args.heads}"
    text = [
        "# One attention layer: Lessen and PyTorch",
        "",
        "Written by `bench/attention.py`, which anyone can run again:",
        "",
        "```",
        command,
        "```",
        "",
        f"- Date: {datetime.date.today().isoformat()}",
        f"- Machine: {machine()}; load before the first round {load:.2f}; peak of f32 products on {args.threads} threads"
        f" {spread(sides.peak, 0)} GFLOP/s",
        f"- Versions: {versions(python)}",
        f"- Both sides: float32, heads of 64, one sequence, {args.threads} threads; {args.rounds} round(s) in which the"
        " sides take turns, each case in a process of its own, the median of its runs after two to warm up; the inputs'"
        " seed is fixed",
        "- A figure is the median over the rounds, with the smallest and largest in brackets; a ratio is taken within each"
        " round. Lessen's bytes are the plan's less operands and results; PyTorch's are the growth of its process",
        *lines,
    ]
    page = "\n".join(text) + "\n"
    print(page)
    if args.write:
        write_aside(args.write, page)


if __name__ == "__main__":
    main()
