#!/usr/bin/env python3
"""One command for both sides of the step benchmark: `lessen bench step` and PyTorch on the same cores.

    python3 bench/step.py [--cases a,b,c] [--modes eager,compile] [--precision f32,bf16] [--rounds 3] [--steps N]
                          [--write FILE]

Builds lessen in release, then measures in rounds: within a round each case runs in Lessen and in every
PyTorch mode, in turn, each in a process of its own, and every other round in the opposite order. A ratio is
Lessen's median step time over PyTorch's in the same round; the table shows its median over the rounds and its
smallest and largest value. The rival of a precision is the fastest of the PyTorch modes that ran in it: in bf16 those
that begin with bfloat16, in f32 all others. Where only one ran, the table calls it by its name and not the fastest. A mode in which PyTorch cannot run a case is reported with the first line of
its error. BUDGETS says to how much memory Lessen is held. PyTorch's side is bench/torch_step.py, run by $PYTHON or,
where that is not set, by the Python that runs this file.

The table goes to stdout; --write also writes it as Markdown with the command, the machine, versions and all
rounds.
"""

import argparse
import datetime
import json
import os
import platform
import re
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
CASES = {
    "a": "GPT, 6 layers x 384, 6 heads, 256 tokens, batch 16, vocabulary 512",
    "b": "BERT-base, 32 tokens, batch 32, vocabulary 21,128, 10 classes, dropout 0.1",
    "c": "`thucnews`: encoder, 2 layers x 128, 4 heads, 32 characters, batch 128, dropout 0.2",
    "d": "ResNet-18 for CIFAR, 32 x 32, batch 128",
    "e": "ResNet-50, 224 x 224, batch 8",
    "f": "MobileNetV2, 224 x 224, batch 16",
    "g": "RevNet-38 for CIFAR, 32 x 32, batch 128",
    "h": "ViT-S/16, 224 x 224, batch 8",
    "i": "ConvNet-3, gradient matching of one class: 256 real images, 10 synthetic ones, 32 x 32",
    "j": "BERT-base, 128 tokens, batch 16, vocabulary 30,522, 2 classes, dropout 0.1",
    "k": "reversible encoder (a Reformer's residuals with full attention in place of LSH), 12 layers x 256, 4 heads, 256 tokens, batch 16, vocabulary 8,000, dropout 0.1",
}
REQUIRED_RATIO = {
    "f32": {"a": 0.80, "d": 0.95, "e": 0.95, "f": 0.60, "g": 0.95, "i": 0.70},
    "bf16": {"a": 0.80, "b": 0.80, "c": 0.60, "d": 0.95, "e": 0.95, "f": 0.60, "g": 0.95, "i": 0.70},
}
# The most memory of a step of Lessen in MiB, by precision and case; the others have no budget.
BUDGETS = {"f32": {"b": 1400, "i": 440}, "bf16": {"a": 450, "b": 1400, "e": 630, "h": 500, "i": 425}}
# The modes of bench/torch_step.py that compute whole steps without a limit of memory.
MODES = ("eager", "eager_fused", "eager_last", "compile", "compile_last", "bfloat16", "bfloat16_last", "bfloat16_compile",
         "bfloat16_compile_last")
# Cases without images, for which channels-last is no order of its own.
WITHOUT_IMAGES = "abcjk"
# The most of Lessen's memory, as a part of the growth of PyTorch's fastest mode in the same precision.
REQUIRED_MEMORY = 0.55
REQUIRED_PEAK = {"a": 0.80}
REQUIRED_GAIN = {"a": 1.6}


def output_of(command, what, env=None):
    """The standard output of a command; ends the benchmark where the command fails."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, env=env, cwd=ROOT, text=True)
    except OSError as error:
        sys.exit(f"step: {what} cannot be started: {error}")
    if done.returncode != 0:
        sys.exit(f"step: {what} failed with exit code {done.returncode}; its message stands above")
    return done.stdout


def build_lessen():
    """Builds the release binary and returns its path."""
    output_of(["cargo", "build", "--release", "-p", "lessen", "--quiet"], "cargo build")
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
    return os.path.join(ROOT, target, "release", "lessen")


def measure_lessen(lessen, case, precision, steps, threads):
    environment = dict(os.environ, LESSEN_THREADS=str(threads))
    command = [lessen, "bench", "step", "--case", case, "--precision", precision, "--steps", str(steps), "--json"]
    if budget := BUDGETS[precision].get(case):
        command += ["--budget", f"{budget}MiB"]
    got = json.loads(output_of(command, "lessen bench step", environment))
    return dict(got["cases"][case], peak_gflops=got["peak_gflops"])


def measure_torch(python, case, mode, steps, threads):
    command = [python, os.path.join(HERE, "torch_step.py"), "--cases", case, "--modes", mode]
    command += ["--steps", str(steps), "--threads", str(threads)]
    got = json.loads(output_of(command, "bench/torch_step.py"))
    return dict(got["cases"][case][mode], torch=got["torch"])


def modes_of(case, modes):
    """The modes of PyTorch that a case is measured in."""
    return [mode for mode in modes if not (mode.endswith("_last") and case in WITHOUT_IMAGES)]


def measure(lessen, python, cases, precisions, modes, rounds, steps, threads):
    """{case: {side: [one result per round]}}; the sides are precisions of Lessen and modes of PyTorch."""
    results = {case: {side: [] for side in [*precisions, *modes_of(case, modes)]} for case in cases}
    for round_ in range(rounds):
        for case in cases:
            sides = list(results[case])
            for side in sides if round_ % 2 == 0 else reversed(sides):
                print(f"round {round_ + 1} of {rounds}, case {case}, {side} ...", file=sys.stderr, flush=True)
                if side in precisions:
                    got = measure_lessen(lessen, case, side, steps, threads)
                elif not does_run(results[case][side]):
                    # It would take as long to fail again.
                    got = results[case][side][0]
                else:
                    got = measure_torch(python, case, side, steps, threads)
                results[case][side].append(got)
    return results


def does_run(results):
    """Whether a case has run in a mode, as far as is known."""
    return not any("does_not_run" in result for result in results)


def failure(results):
    """Why a case does not run in a mode, for a table."""
    reason = next(result["does_not_run"] for result in results if "does_not_run" in result)
    return f"does not run: {reason}".replace("|", "\\|")


def side_name(precision, case):
    """What a side of Lessen is called, with the budget that it is held to."""
    budget = BUDGETS[precision].get(case)
    return f"Lessen {precision}" + (f", budget {budget:,} MiB" if budget else "")


def column(results, key):
    return [result[key] for result in results]


def spread(values, digits):
    """Median and, where there is more than one value, smallest and largest."""
    middle = f"{statistics.median(values):,.{digits}f}"
    if len(values) == 1:
        return middle
    return f"{middle} ({min(values):,.{digits}f}..{max(values):,.{digits}f})"


def publish(page, path):
    """Prints a page, and writes it where a file is named."""
    print(page)
    if path:
        with open(path, "w", encoding="utf-8") as file:
            file.write(page)


def mib(value):
    return f"{value / 2**20:,.1f}"


def verdict(value, limit, form, least=False):
    word, met = ("least", value >= limit) if least else ("most", value <= limit)
    return f"{'yes' if met else 'NO'} (at {word} {limit:{form}})"


def ratios_to(ours, theirs, mine, other):
    return [a / b for a, b in zip(column(ours, mine), column(theirs, other))]


def modes_in(precision, modes):
    """The modes of PyTorch that compute in a precision."""
    return [mode for mode in modes if mode.startswith("bfloat16") == (precision == "bf16")]


def rivals(sides, modes, precision):
    """The modes of PyTorch that run a case in a precision, the one with the shortest median step first."""
    own = [mode for mode in modes_in(precision, modes) if does_run(sides[mode])]
    return sorted(own, key=lambda mode: statistics.median(column(sides[mode], "step_ms")))


def missed(text):
    """A line of a page that names the limits which its tables miss: cells that say NO, by section and row."""
    section, names, count = "", [], 0
    for line in text:
        if line.startswith("## "):
            section = line[3:].split(":")[0].split(",")[0]
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        found = [cell for cell in cells if re.search(r"\b(yes|NO)\b", cell)]
        count += sum(len(re.findall(r"\b(?:yes|NO)\b", cell)) for cell in found)
        for cell in found:
            limits = [part.replace(": NO", "").strip() for part in cell.split(";") if "NO" in part]
            names += [f"{section}: {cells[0]} ({limit.removeprefix('NO (').removesuffix(')')})" for limit in limits]
    return f"- Limits missed, {len(names)} of {count}: {'; '.join(names) or 'none'}"


def said_of_modes(precisions, modes):
    """How many modes of PyTorch a ratio has to choose from."""
    counts = [(precision, modes_in(precision, modes)) for precision in precisions]
    ran = "; ".join(f"{precision}: {', '.join(own) or 'none'}" for precision, own in counts)
    alone = " and ".join(precision for precision, own in counts if len(own) == 1)
    left_out = [mode for mode in MODES if mode not in modes]
    more = f". Left out: {', '.join(left_out)}" if left_out else ""
    more += f". In {alone} one mode alone ran, so nothing here says how fast PyTorch's others are" if alone else ""
    if "compile" in modes:
        more += ". `compile` has the default AdamW, every other mode a fused one; `_last` is channels-last, on images alone"
    return f"- PyTorch's modes that ran: {ran}{more}"


def rows(case, sides, precisions, modes):
    """The lines of one case's table: name, value, whether the requirement is met."""
    lines = []
    for mode in modes:
        if not does_run(sides[mode]):
            lines.append((f"PyTorch {mode}", failure(sides[mode]), ""))
            continue
        lines.append((f"PyTorch {mode} step, ms", spread(column(sides[mode], "step_ms"), 1), ""))
        growth = [g / 2**20 for g in column(sides[mode], "peak_growth_bytes")]
        lines.append((f"PyTorch {mode} peak growth, MiB", spread(growth, 1), ""))
    for precision in precisions:
        lines.append((side_name(precision, case), "", ""))
        lines += lessen_rows(case, sides, modes, precision)
    if "f32" in precisions and "bf16" in precisions:
        gains = ratios_to(sides["f32"], sides["bf16"], "step_ms", "step_ms")
        limit = REQUIRED_GAIN.get(case)
        needs = verdict(statistics.median(gains), limit, ".1f", least=True) if limit else ""
        lines.append(("step time, f32 / bf16 of Lessen", spread(gains, 2), needs))
    return lines


def lessen_rows(case, sides, modes, precision):
    """The lines about one precision of Lessen."""
    ours = sides[precision]
    last = ours[-1]
    name = f"Lessen {precision}"
    lines = [(f"{name} step, ms", spread(column(ours, "step_ms"), 1), "")]
    ran = rivals(sides, modes, precision)
    rival = ran[0] if ran else None
    if rival:
        ratios = ratios_to(ours, sides[rival], "step_ms", "step_ms")
        limit = REQUIRED_RATIO[precision].get(case)
        needs = verdict(statistics.median(ratios), limit, ".2f") if limit else ""
        whose = f"PyTorch's fastest of {len(ran)}, {rival}" if len(ran) > 1 else f"PyTorch {rival}"
        lines.append((f"step time, {name} / {whose}", spread(ratios, 3), needs))
    lines.append((f"{name} compile, ms", spread(column(ours, "compile_ms"), 1), ""))
    shares = [100 * share for share in column(ours, "matmul_share")]
    lines.append((f"matrix products' share of the step, {precision}", spread(shares, 0) + " %", ""))
    lines.append((f"{name} GFLOP/s", spread(column(ours, "gflops"), 0), ""))
    lines.append(("machine's peak GFLOP/s in f32, same run", spread(column(ours, "peak_gflops"), 0), ""))
    shares = [r["gflops"] / r["peak_gflops"] for r in ours]
    limit = REQUIRED_PEAK.get(case) if precision == "f32" else None
    needs = verdict(100 * statistics.median(shares), 100 * limit, ".0f", least=True) if limit else ""
    lines.append((f"share of the peak, {name}", spread([100 * share for share in shares], 0) + " %", needs))
    if rival:
        work = last["step_ms"] * last["gflops"]
        shares = [100 * work / r["step_ms"] / last["peak_gflops"] for r in sides[rival]]
        lines.append((f"share of the peak, PyTorch {rival}", spread(shares, 0) + " %", ""))
    planned, measured = last["planned_peak_bytes"], last["measured_peak_bytes"]
    same = f"{'yes' if planned == measured else 'NO'} (as planned)"
    lines.append((f"{name} planned peak, MiB", mib(planned), ""))
    lines.append((" of it arena, MiB", mib(last["arena_bytes"]), ""))
    lines.append((" of it parameters and optimizer state, MiB", mib(last["state_bytes"]), ""))
    lines.append((f"{name} measured peak, MiB", mib(measured), same))
    resident = [r / 2**20 for r in column(ours, "resident_growth_bytes")]
    lines.append((f"{name} resident growth, MiB", spread(resident, 1), ""))
    if rival:
        ratios = ratios_to(ours, sides[rival], "planned_peak_bytes", "peak_growth_bytes")
        needs = verdict(statistics.median(ratios), REQUIRED_MEMORY, ".2f")
        lines.append((f"memory, {name} / PyTorch {rival}", spread(ratios, 3), needs))
        ratios = ratios_to(ours, sides[rival], "resident_growth_bytes", "peak_growth_bytes")
        lines.append((f"resident growth, {name} / PyTorch {rival}", spread(ratios, 3), ""))
    return lines


def plain_table(results, precisions, modes):
    for case, sides in results.items():
        lines = rows(case, sides, precisions, modes_of(case, modes))
        wide, middle = max(len(line[0]) for line in lines), max(len(line[1]) for line in lines)
        print(f"\n{case}  {CASES[case].replace('`', '')}")
        for name, value, needs in lines:
            print(f"   {name:{wide}}  {value:{middle}}  {needs}".rstrip())


def load_before(name="step"):
    """The machine's load. Other work slows both sides, and most of all threads that wait for each other."""
    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"{name}: the machine is busy (load {load:.1f}), so the figures mean little", file=sys.stderr)
    return load


def machine():
    model, memory = platform.processor() or platform.machine(), ""
    try:
        with open("/proc/cpuinfo") as info:
            model = next(
                (line.split(":", 1)[1].strip() for line in info if line.startswith("model name")), model
            )
        with open("/proc/meminfo") as info:
            memory = f", {int(info.readline().split()[1]) / 2**20:.0f} GiB memory"
    except OSError:
        pass
    cores = f"{os.cpu_count()} logical cores"
    return f"{model}, {cores}{memory}, {platform.system()} on {platform.machine()}; {instruction_sets()}"


def instruction_sets():
    """What decides how fast products are, of the sets that the processor has."""
    known = {"avx2": "AVX2", "avx512f": "AVX-512", "avx_vnni": "AVX-VNNI", "avx512_vnni": "AVX-512 VNNI", "avx512_bf16": "AVX-512 BF16", "amx_bf16": "AMX"}
    try:
        with open("/proc/cpuinfo") as info:
            flags = next((line.split() for line in info if line.startswith("flags")), [])
    except OSError:
        flags = []
    return ", ".join(name for flag, name in known.items() if flag in flags) or "instruction sets unknown"


def versions(python):
    """What ran: Lessen, its commit, rustc, PyTorch and transformers."""
    with open(os.path.join(ROOT, "Cargo.toml")) as manifest:
        lessen = re.search(r'^version = "(.+)"', manifest.read(), re.M).group(1)
    head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    commit = head.stdout.strip() or "no commit"
    rustc = output_of(["rustc", "--version"], "rustc").split()[1]
    ask = (
        "import platform, importlib.metadata as m\n"
        "names = {d.metadata['Name'] for d in m.distributions()}\n"
        "wanted = [n for n in ('torch', 'transformers') if n in names]\n"
        "print(', '.join([platform.python_version(), *(f'{n} {m.version(n)}' for n in wanted)]))"
    )
    theirs = output_of([python, "-c", ask], "Python").strip()
    return f"Lessen {lessen} ({commit}), rustc {rustc}; Python {theirs}"


def markdown(results, precisions, modes, args, python, load):
    command = f"python3 bench/step.py --cases {','.join(results)} --modes {','.join(modes)}"
    command += f" --precision {','.join(precisions)}"
    command += f" --rounds {args.rounds} --steps {args.steps} --threads {args.threads}"
    text = [
        "# One training step: Lessen and PyTorch",
        "",
        "Written by `bench/step.py`, which anyone can run again:",
        "",
        "```",
        command,
        "```",
        "",
        f"- Date: {datetime.date.today().isoformat()}",
        f"- Machine: {machine()}; load before the first round {load:.2f}",
        f"- Versions: {versions(python)}",
        f"- Both sides: {args.threads} threads, AdamW; {args.rounds} round(s) in which the sides"
        " take turns, each run in a process of its own, the median of"
        f" {args.steps} steps after warming up; the inputs' seed is fixed",
        "- A figure is the median over the rounds, with the smallest and largest in brackets; a ratio is"
        " taken within each round. Lessen's planned peak holds parameters, optimizer state and arena;"
        " PyTorch's peak growth is its highest resident size over its resident size after the imports, where it compiles"
        " with what that takes in the process; Lessen's"
        " resident growth is the same of its process, which also holds code, first values and the products'"
        " packed operands",
        said_of_modes(precisions, modes),
    ]
    head = len(text)
    for case, sides in results.items():
        text += ["", f"## ({case}) {CASES[case]}", "", "| | | required |", "|---|---|---|"]
        headings = [side_name(precision, case) for precision in precisions]
        for name, value, needs in rows(case, sides, precisions, modes_of(case, modes)):
            name = f"**{name}**" if name in headings else name.strip()
            text.append(f"| {name} | {value} | {needs} |")
        names = [side_name(side, case) if side in precisions else side for side in sides]
        text += ["", "Median step of every round, ms:", "", "| round | " + " | ".join(names) + " |"]
        text += ["|---" * (1 + len(names)) + "|"]
        for round_ in range(args.rounds):
            each = [f"{sides[side][round_]['step_ms']:.1f}" if does_run(sides[side]) else "–" for side in sides]
            text.append(f"| {round_ + 1} | " + " | ".join(each) + " |")
    text.insert(head, missed(text))
    return "\n".join(text) + "\n"


def write_aside(path, text):
    """Writes beside `path`, then renames, so that a reader never meets half a file."""
    aside = path + ".part"
    with open(aside, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(aside, path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", default="a,b,c")
    parser.add_argument("--modes", default="eager,compile", help="those of bench/torch_step.py")
    parser.add_argument("--precision", default="f32", help="of f32, bf16")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10, help="timed steps per run")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--lessen", help="use this lessen and build none")
    parser.add_argument("--write", metavar="FILE", help="also write the results as Markdown")
    args = parser.parse_args()
    cases, modes, precisions = args.cases.split(","), args.modes.split(","), args.precision.split(",")
    for case in cases:
        if case not in CASES:
            sys.exit(f"step: there is no case {case!r}; take from {', '.join(CASES)}")
    for precision in precisions:
        if precision not in REQUIRED_RATIO:
            sys.exit(f"step: there is no precision {precision!r}; take from {', '.join(REQUIRED_RATIO)}")
    if args.rounds < 1 or args.steps < 1:
        sys.exit("step: --rounds and --steps must be at least 1")
    python = os.environ.get("PYTHON", sys.executable)
    load = load_before()
    lessen = os.path.abspath(args.lessen) if args.lessen else build_lessen()

    results = measure(lessen, python, cases, precisions, modes, args.rounds, args.steps, args.threads)
    print(f"{machine()}\n{versions(python)}")
    plain_table(results, precisions, modes)
    if args.write:
        write_aside(args.write, markdown(results, precisions, modes, args, python, load))


if __name__ == "__main__":
    main()
