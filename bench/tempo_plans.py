"""What bench/tempo.py asks of plans: the bytes of Tempo's techniques by formula and in plans, and the largest batches.

A hidden state is batch x tokens x width values, and probabilities are batch x heads x tokens x tokens, in f32.
"""

import json
import os
import sys

import step

MIB, GIB = 1 << 20, 1 << 30
LAYERS, WIDTH, HEADS = 12, 768, 12
# Cases of `lessen bench memory`, all BERT-base: what they are, examples and tokens of each.
CASES = {"b": ("32 tokens, vocabulary 21,128", 32, 32), "j": ("128 tokens, vocabulary 30,522", 16, 128)}
# Error that admits values of 8 bits.
ROUNDED = "0.004"
# What is saved of a layer, in hidden states and probabilities: by Tempo of what PyTorch keeps, by Lessen of the same.
TECHNIQUES = {
    "GELU in place": ((3, 0), (4, 0), "policy *Tempo*, with norms"),
    "LayerNorm in place": ((2, 0), (2, 0), "policy *Tempo*, with GELU"),
    "dropout computed again": ((0, 1), (0.5, 1.25), "no: always, of attention and of hidden states"),
    "softmax from its output": ((0, 1), (0, 2), "no: always"),
}
# Lengths at which a batch has as many tokens.
LENGTHS = (32, 128, 512)
TOKENS = 1024


def mib(bytes_):
    return f"{bytes_ / MIB:,.1f}"


def sizes(batch, tokens):
    """Bytes of a hidden state and of the probabilities of a layer."""
    return 4 * batch * tokens * WIDTH, 4 * batch * HEADS * tokens * tokens


def saved(amounts, batch, tokens, layers=LAYERS):
    return layers * sum(amount * size for amount, size in zip(amounts, sizes(batch, tokens)))


def amount(amounts):
    """Hidden states H and probabilities P, as text."""
    words = [f"{number:g} {letter}" for number, letter in zip(amounts, "HP") if number]
    return " + ".join(words)


class Plans:
    """Plans of `lessen bench memory`, each asked for once."""

    def __init__(self, lessen):
        self.lessen, self.known = lessen, {}

    def of(self, case, batch, error="0"):
        """Plans by name; those of the memory planner with `planner, ` before it."""
        key = (case, batch, error)
        if key not in self.known:
            print(f"plans of case {case}, batch {batch}, error {error} ...", file=sys.stderr, flush=True)
            command = [self.lessen, "bench", "memory", "--case", case, "--batch", str(batch)]
            command += ["--allow-error", error, "--json"]
            plans = json.loads(step.output_of(command, "lessen bench memory"))[case]["plans"]
            self.known[key] = {("planner, " if p["by_planner"] else "") + p["name"]: p for p in plans}
        return self.known[key]

    def largest(self, case, name, error, budget, unit):
        """The largest batch, within a hundredth and a multiple of `unit`, whose plan of this name takes at most so many
        bytes, and the plan. Bytes are nearly linear in the batch, so that a line through two plans is a good guess."""
        bytes_of = lambda units: self.of(case, units * unit, error)[name]["peak_bytes"]
        least = bytes_of(1)
        slope = (bytes_of(4) - least) / 3
        low, high, guess = 0, None, 1 + int((budget - least) / slope)
        while high is None or high - low > max(1, low // 100):
            guess = max(guess, low + 1)
            guess = guess if high is None else min(guess, high - 1)
            got = bytes_of(guess)
            if got <= budget:
                low = guess
            else:
                high = guess
            if guess > 1:
                slope = (got - least) / (guess - 1)
            guess += int((budget - got) / slope)
        return (low * unit, self.of(case, low * unit, error)[name]) if low else (0, None)


def by_formula(batches=CASES):
    """The table of what techniques save by their formulas."""
    heads = ["technique", "Tempo saves of each layer"]
    heads += [f"({case}), MiB" for case in batches] + ["Lessen saves"] + [f"({case}), MiB" for case in batches]
    text = ["| " + " | ".join([*heads, "can be left out in Lessen"]) + " |", "|---" * (len(heads) + 1) + "|"]
    for name, (theirs, ours, choice) in TECHNIQUES.items():
        cells = [name]
        for amounts in (theirs, ours):
            cells.append(amount(amounts))
            cells += [mib(saved(amounts, batch, tokens)) for _, batch, tokens in batches.values()]
        text.append("| " + " | ".join([*cells, choice]) + " |")
    return text


def in_plans(plans):
    """The table of what the plans of the policies take."""
    text = ["| case | plan | arena MiB | less than keep all, MiB | of the arena | of the peak | estimated time |"]
    text.append("|---" * 7 + "|")
    shown = ("keep all", "Tempo", "planner, as Tempo", "planner, no budget", "planner, floor")
    for case, (_, batch, _) in CASES.items():
        found = plans.of(case, batch)
        keep = found["keep all"]
        for name in (name for name in shown if name in found):
            plan = found[name]
            less = keep["arena_bytes"] - plan["arena_bytes"]
            cells = [case, name, mib(plan["arena_bytes"]), mib(less)]
            cells += [f"{100 * less / keep['arena_bytes']:.1f} %", f"{100 * less / keep['peak_bytes']:.1f} %"]
            text.append("| " + " | ".join([*cells, f"{plan['estimated_ms'] / keep['estimated_ms']:.3f}"]) + " |")
    return text


def of_formula(plans):
    """Sentences on how far plans agree with the formulas."""
    lines = []
    for case, (_, batch, tokens) in CASES.items():
        found = plans.of(case, batch)
        less = found["keep all"]["arena_bytes"] - found["Tempo"]["arena_bytes"]
        both = [sum(pair) for pair in zip(*(TECHNIQUES[name][1] for name in ("GELU in place", "LayerNorm in place")))]
        all_, others = saved(both, batch, tokens), saved(both, batch, tokens, LAYERS - 1)
        part = saved((TECHNIQUES["GELU in place"][1]), batch, tokens) / all_
        lines.append(
            f"- ({case}) GELU and norms are {mib(all_)} MiB by formula in {LAYERS} layers, {mib(others)} MiB in"
            f" {LAYERS - 1}; the plans differ by {mib(less)} MiB. GELU has {100 * part:.0f} % of it, norms the rest"
        )
    return lines


def plan_of_base(lessen, batch, tokens, dropout):
    """The plan of BERT-base by the recipe `thucnews`."""
    settings = {"model.kind": "bert", "model.layers": LAYERS, "model.width": WIDTH, "model.heads": HEADS}
    settings |= {"model.ffn": 4 * WIDTH, "model.vocab": 21128, "model.dropout": dropout}
    settings |= {"train.batch": batch, "data.max_length": tokens}
    command = [lessen, "plan", "thucnews", "--cost", "analytic", "--json"]
    command += [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    return json.loads(step.output_of(command, "lessen plan"))


def always(lessen):
    """The table of what cannot be left out: arenas with and without dropout, and with longer sequences."""
    text = [
        "| batch x tokens | arena MiB, dropout 0.1 | without dropout | masks and outputs of dropout, if kept"
        " | inputs and outputs of softmax, if kept |",
        "|---" * 5 + "|",
    ]
    for tokens in LENGTHS:
        batch = TOKENS // tokens
        print(f"plans of {batch} x {tokens} tokens ...", file=sys.stderr, flush=True)
        arenas = [plan_of_base(lessen, batch, tokens, dropout)["arena_bytes"] for dropout in (0.1, 0.0)]
        kept = [saved(TECHNIQUES[name][1], batch, tokens) for name in list(TECHNIQUES)[2:]]
        text.append("| " + " | ".join([f"{batch} x {tokens}", *map(mib, [*arenas, *kept])]) + " |")
    return text


def torch_growth(python, case, batches, threads):
    """{batch: bytes by which PyTorch's eager mode grows}"""
    found = {}
    for batch in batches:
        print(f"PyTorch, case {case}, batch {batch} ...", file=sys.stderr, flush=True)
        command = [python, os.path.join(step.HERE, "torch_step.py"), "--cases", case, "--modes", "eager"]
        command += ["--steps", "1", "--warmup", "1", "--threads", str(threads), "--batch", str(batch)]
        got = json.loads(step.output_of(command, "bench/torch_step.py"))["cases"][case]["eager"]
        if "does_not_run" in got:
            print(f"tempo: batch {batch} does not run: {got['does_not_run']}", file=sys.stderr)
            break
        found[batch] = got["peak_growth_bytes"]
    return found


def line_through(points):
    """Intercept and slope of the line with the least squares."""
    if len(points) < 2:
        return None
    x, y = list(points), list(points.values())
    middle = sum(x) / len(x)
    slope = sum((a - middle) * b for a, b in zip(x, y)) / sum((a - middle) ** 2 for a in x)
    return sum(y) / len(y) - slope * middle, slope


# Columns of the table of largest batches: the plan, and the allowed error.
SIDES = {
    "keep all": ("keep all", "0"),
    "Tempo": ("Tempo", "0"),
    "planner": ("planner, floor", "0"),
    f"planner, error {ROUNDED}": ("planner, floor", ROUNDED),
}


def largest_batches(plans, case, budgets, unit, growth):
    """The table of the largest batches within budgets."""
    text = ["| budget GiB | PyTorch, eager | " + " | ".join(SIDES) + " |", "|---" * (2 + len(SIDES)) + "|"]
    line = line_through(growth)
    for budget in budgets:
        cells, keep = [f"{budget:g}"], None
        fits = int((budget * GIB - line[0]) / line[1] // unit) * unit if line else 0
        is_measured = any(size >= budget * GIB for size in growth.values())
        cells.append(f"{max(fits, 0):,}" + ("" if is_measured else " (by the line)") if line else "")
        for name, error in SIDES.values():
            batch, plan = plans.largest(case, name, error, int(budget * GIB), unit)
            keep = keep or batch
            if plan is None:
                cells.append("none")
                continue
            more = f"{batch / keep:.2f} x, " if keep else ""
            cells.append(f"{batch:,} ({more}{1e3 * batch / plan['estimated_ms']:,.1f} /s)")
        text.append("| " + " | ".join(cells) + " |")
    return text
