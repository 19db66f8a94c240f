"""The page docs/results/hardware.md, from what bench/hardware.py has measured."""

import datetime
import os
import platform
import subprocess
import textwrap

# Table 1 of FLARE's paper, 130 nm: MHz, mm2, mW, pJ in a cycle.
PAPER = {"ReLU": (1667, 0.0028, 4.87, 2.9), "softmax": (200, 0.2564, 516.28, 2581.4)}
# Energy of reading one bit of BitFusion's weight buffer (64 KB, 45 nm), pJ.
SRAM = 0.02137
# Part of the scores that are zero in FLARE's paper.
ZEROS = 0.989
# The row of attention that is counted as a whole: keys, and elements of a head.
KEYS, HEAD = 1024, 64


class Measured:
    """A unit in a library."""

    def __init__(self, unit, library):
        result = unit["results"][library.name]
        self.unit, self.name, self.lanes = unit, unit["name"], unit["lanes"]
        self.cells, self.area, self.period = result["cells"], result["area"], result["period"]
        self.flop_share = result["flop_area"] / result["area"]
        self.gates = result["area"] / library.nand
        self.mhz = 1e3 / self.period
        self.powers = [power["total"] for power in result["power"]]

    def milliwatts(self, at=0):
        """Power at the highest frequency."""
        return self.powers[at] * 1e3

    def cycle(self, at=0):
        """Energy of a cycle in pJ."""
        return self.powers[at] * self.period * 1e3

    def element(self, at=0):
        """Energy of an element in pJ, with the cycles in which a row waits."""
        activity = self.unit["activities"][at]
        return self.cycle(at) * activity["cycles"] / activity["elements"]

    def beats(self, length):
        """Cycles from the first score of a row of some length to the last."""
        longest = self.unit["longest"]
        if longest is None:
            return -(-length // self.lanes)
        rows, words = self.unit["cycles_of_longest"], -(-longest // self.lanes)
        passes = rows // words if words > 40 else self.passes()
        return passes * -(-length // self.lanes) + rows - passes * words

    def passes(self):
        """How often a row is read."""
        return {"softmax": 2 if "online" in self.name else 3, "NormSoftmax": 3}.get(self.unit["function"], 1)


def number(value):
    """A figure with three digits that count."""
    if value == 0:
        return "0"
    digits = max(0, 2 - int(f"{value:e}".partition("e")[2]))
    return f"{value:,.{digits}f}"


def table(head, rows):
    """A table in Markdown."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def wrapped(text, indent=""):
    """Prose in lines of 120 columns."""
    return textwrap.wrap(" ".join(text.split()), 120, subsequent_indent=indent, break_long_words=False,
                         break_on_hyphens=False)


def page(units, libraries, versions, seed, root):
    """All lines of the page."""
    measured = {library.name: {unit["name"]: Measured(unit, library) for unit in units
                               if library.name in unit.get("results", {})} for library in libraries}
    parts = [head(units, libraries, versions, seed, root)]
    for section in (findings, lambda _: method(), beside_the_paper, skipping, context, attention_row):
        try:
            parts.append(section(measured))
        except KeyError as missing:
            parts.append([f"A section of this page is left out: {missing} was not measured."])
    parts.append(errors(units))
    for function in dict.fromkeys(unit["function"] for unit in units):
        parts.append(all_units(function, units, libraries, measured))
    return [line for part in parts for line in part + [""]][:-1]


def head(units, libraries, versions, seed, root):
    """Command, date, commit, machine, tools."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=root, capture_output=True, text=True,
                            check=False).stdout.strip() or "no commit"
    tools = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    simulators = " and ".join(sorted({unit["simulator"] for unit in units if "simulator" in unit}))
    missing = [f"{unit['name']} ({library.name})" for library in libraries for unit in units
               if library.name not in unit.get("results", {})]
    left_out = wrapped(f"- Not measured in this run: {', '.join(missing)}", "  ") if missing else []
    rows = sum(unit["rows_checked"] for unit in units)
    return ["# Hardware of attention functions", "",
            "Written by `bench/hardware.py` (`scripts/hardware` is the same), which anyone can run again:", "", "```",
            "python3 bench/hardware.py", "```", "",
            f"- Date: {datetime.date.today()}; commit {commit}",
            f"- Machine: {os.cpu_count()} logical cores, {platform.system()} on {platform.machine()}; nothing here is a "
            "time of the machine",
            f"- Tools: {tools}",
            "- Libraries: " + "; ".join(library.title for library in libraries),
            *wrapped(f"- Seed {seed}; {len(units)} units, each simulated by {simulators} on corner and random rows, "
                     f"{rows:,} rows in all, and each netlist of both libraries by iverilog on rows of scores: every "
                     "result is that of the unit's model, to the bit", "  "), *left_out]


def ratio(a, b):
    """A ratio as text."""
    return number(a / b)


def findings(measured):
    """What the figures say, in sentences."""
    sky, small = measured["sky130"], measured["nangate45"]
    relu, soft = sky["relu_q15_16_x1"], sky["softmax_two_pass_table_bf16_x8_l8"]
    wide = sky["relu_bf16_x8"]
    flare, plain = sky["flare_q5_10_x8"], sky["add_relu_q5_10_x8"]
    floating, summed = sky["flare_bf16_x8"], sky["add_relu_bf16_x8"]
    row = row_energies(small, 16)
    share = row["softmax_two_pass_polynomial_q5_10_x8_l1024"]
    two, online = (small[f"softmax_{order}_polynomial_q5_10_x8_l1024"] for order in ("two_pass", "online"))
    say = []
    say.append(f"- **ReLU is far cheaper than softmax; how far depends on what is compared.** In sky130, one 32-bit ReLU "
               f"beside an 8-element softmax in bf16 with the table, the pair that fits the authors' code, has "
               f"{ratio(100 * relu.area, soft.area)} % of the area, {ratio(100 * relu.milliwatts(), soft.milliwatts())} % of the "
               f"power, {ratio(100 * relu.cycle(), soft.cycle())} % of the energy of a cycle and {ratio(relu.mhz, soft.mhz)} "
               f"times the frequency, at which its power is taken; the paper's table has 1.1 %, 0.94 %, 0.11 % and 8.3. "
               f"Eight bf16 ReLUs beside the same softmax, lane for lane, have {ratio(100 * wide.area, soft.area)} % of the "
               f"area and {ratio(100 * wide.element(), soft.element())} % of the energy of an element.")
    say.append(f"- **Comparing first saves energy where the adder is large, and costs energy where it is small.** At 98.9 % "
               f"zeros a score in 16-bit fixed point takes {number(flare.element(1))} pJ in FLARE's unit and "
               f"{number(plain.element(1))} in a sum followed by ReLU, with {ratio(flare.area, plain.area)} times the area; in "
               f"bf16 {number(floating.element(1))} and {number(summed.element(1))}, with "
               f"{ratio(floating.area, summed.area)} times (8 lanes, sky130). In fixed point a comparison of f and -a is itself a "
               f"subtraction, and the sign of one sum says the same for nothing.")
    say.append(f"- **The function's share of a row of attention** is what any of this can save. Of the energy of a row of {KEYS} keys and "
               f"{HEAD} elements of a head, in 16 bits and 45 nm, two-pass softmax is {share[2]:.0%}; ReLU in its place "
               f"changes the row's energy to {row['relu_q5_10_x8'][3]:.2f} of that.")
    say.append(f"- **Online softmax** reads the row twice instead of three times: {number(online.element())} pJ for an element "
               f"beside {number(two.element())} in Nangate45, with {ratio(online.area, two.area)} times the area and "
               f"{ratio(online.mhz, two.mhz)} times the frequency.")
    return ["## What the figures say", ""] + [line for text in say for line in wrapped(text, "  ")]


def method():
    """How it was done, and what is not in it."""
    items = [
        "Inputs and outputs of every unit are registers, so that its frequency is its own. The authors' ReLU has none.",
        "The mapping is yosys' with `&dch; &nf` and sizing in ABC, module by module for speed; lanes are then flattened. "
        "The highest frequency is that of OpenSTA's longest path between registers, without an uncertainty of the clock.",
        "Power is that at the highest frequency: for each net the transitions that the simulated netlist makes, times the "
        "library's energies (`bench/hardware_power.py`), with one typical slew. OpenSTA's own `report_power` was not used: "
        "the packaged version ignores an activity that is set for an output pin and doubles the clock's internal energy.",
        "Not in the figures: wires, placement, a clock tree, glitches (the simulation has no delays), scan chains. Real "
        "units are larger and slower, all of them; ratios suffer less than figures.",
        "Scores are normal with deviation 2, biases too. An element's energy is that of all cycles of a row over its "
        "elements, the waits for a reciprocal included. Rows have 64 beats, or as many elements as the unit takes.",
        "No row is stored in a softmax unit: the scores are read once for each pass, from a row buffer or from the "
        "accelerator's memory, whose energy is not in the unit's.",
        "A frequency of some GHz is that of a path of one gate between registers. No clock reaches it; it says only that ReLU is "
        "never what limits one.",
        "kGE is the area over that of the library's smallest NAND2, in thousands.",
    ]
    return ["## How it was measured", ""] + [line for item in items for line in wrapped("- " + item, "  ")]


def beside_the_paper(measured):
    """Table 1 of the paper, its ratios, and the units that may be meant."""
    rows = [[f"paper, {name}", number(mhz), f"{area:g}", f"{power:g}", f"{energy:g}", ""]
            for name, (mhz, area, power, energy) in PAPER.items()]
    chosen = [("relu_q15_16_x1", "one 32-bit ReLU, as the authors' code"), ("relu_q5_10_x8", "8 ReLUs of 16 bits"),
              ("relu_bf16_x8", "8 ReLUs of bf16"), ("relu_q5_10_x32", "32 ReLUs of 16 bits"),
              ("softmax_two_pass_table_bf16_x8_l8", "8-element softmax, bf16, table"),
              ("softmax_two_pass_table_q5_10_x8_l8", "8-element softmax, 16 bits, table"),
              ("softmax_two_pass_polynomial_bf16_x8_l1024", "softmax of 1024, bf16, 8 lanes"),
              ("softmax_two_pass_polynomial_q5_10_x8_l1024", "softmax of 1024, 16 bits, 8 lanes")]
    for library in measured:
        for name, title in chosen:
            if name not in measured[library]:
                continue
            unit = measured[library][name]
            rows.append([f"{title}, {library}", number(unit.mhz), number(unit.area / 1e6), number(unit.milliwatts()),
                         number(unit.cycle()), number(unit.element())])
    sky = measured["sky130"]
    relu, soft = sky["relu_q15_16_x1"], sky["softmax_two_pass_table_bf16_x8_l8"]
    wide = sky["relu_q5_10_x8"]
    text = [
        "The paper's own figures give these ratios: frequency 1667 / 200 = 8.3; area 0.0028 / 0.2564 = 1.1 %; power "
        "4.87 / 516.28 = 0.94 %, where the abstract and section 6.2 say 0.1 %; energy of a cycle 2.9 / 2581.4 = 0.11 %. Power "
        "and energy of a cycle differ because each is at its own highest frequency.",
        f"The paper's ReLU has {number(0.0028e6)} um2. One 32-bit ReLU with registers has {number(relu.area)} here and eight of "
        f"16 bits have {number(wide.area)}, of which {wide.flop_share:.0%} are registers: the paper's area is that of "
        f"{2800 / (wide.area / 8):.1f} such lanes with their registers. The paper does not say how many its unit has.",
        f"The paper's softmax takes 2581 pJ in a cycle, an 8-element unit here {number(soft.cycle())}: "
        f"{ratio(2581.4, soft.cycle())} times less, at {ratio(soft.area / 1e6, 0.2564)} of the area. For its area that "
        f"is {number(2581.4e3 / 256400)} fJ in each um2 and cycle; here it is {number(1e3 * soft.cycle() / soft.area)}. The paper does not say how its power was found, nor "
        f"whether wires, a clock tree and memories are in it; none of them is here.",
        "The paper's comparison is of one cycle, not of one element: an 8-element unit that is serial takes many cycles for "
        "its elements, which favours softmax, and the number of ReLUs is not given. The last column here is of an element.",
    ]
    return (["## Beside table 1 of FLARE's paper", ""]
            + table(["unit", "MHz", "area, mm2", "power, mW", "pJ in a cycle", "pJ for an element"], rows) + [""]
            + [line for item in text for line in wrapped("- " + item, "  ")])


def skipping(measured):
    """FLARE's unit beside a sum and its ReLU."""
    rows = []
    for library, units in measured.items():
        for name in [name for name in units if name.startswith("flare_") and name.replace("flare", "add_relu") in units]:
            plain = units[name.replace("flare", "add_relu")]
            flare = units[name]
            rows.append([library, name.removeprefix("flare_"), f"{number(flare.area)} / {number(plain.area)}",
                         f"{number(flare.mhz)} / {number(plain.mhz)}",
                         f"{number(flare.element(0))} / {number(plain.element(0))}",
                         f"{number(flare.element(1))} / {number(plain.element(1))}",
                         ratio(flare.element(1), plain.element(1))])
    lower = sum(1 for row in rows if float(row[-1]) < 1)
    text = (f"Both give the same scores. In FLARE's unit a comparison decides whether the adder after it gets new operands; "
            f"in the other the sign of the sum is the comparison. FLARE's unit takes less energy at 98.9 % zeros in {lower} of "
            f"{len(rows)} cases. Both tell which tiles are all zero, from which more can be saved: where zeros are independent, "
            f"a group of 8 scores is all zero with probability {ZEROS ** 8:.1%}, one of 16 x 16 with {ZEROS ** 256:.1%}, and one "
            f"of 64 x 64 never.")
    return ["## Compare and skip", ""] + wrapped(text) + [""] + table(
        ["library", "format and lanes", "area, um2: FLARE / sum and ReLU", "MHz", "pJ for a score, random",
         "pJ, 98.9 % zeros", "ratio"], rows)


def context(measured):
    """Section 2.2: what the length of rows changes."""
    names = ["softmax_two_pass_polynomial_q5_10_x8_l64", "softmax_two_pass_polynomial_q5_10_x8_l1024",
             "softmax_two_pass_polynomial_q5_10_x8_l65536"]
    online = "softmax_online_polynomial_q5_10_x8_l1024"
    lines = ["## Context lengths", ""]
    for library, units in measured.items():
        if not {"row_buffer_q5_10_x8_l64", "row_buffer_q5_10_x8_l256", online} <= set(units):
            continue
        small, large = units["row_buffer_q5_10_x8_l64"], units["row_buffer_q5_10_x8_l256"]
        each = (large.area - small.area) / (256 - 64)
        rows = []
        for name in [name for name in names if name in units]:
            unit, length = units[name], units[name].unit["longest"]
            buffer = large.area + each * (length - 256)
            if length == 64:
                buffer = small.area
            rows.append([library, f"{length:,}", number(unit.area), number(unit.mhz), number(buffer),
                         f"{unit.beats(length):,}", f"{units[online].beats(length):,}",
                         f"{units['relu_q5_10_x8'].beats(length):,}", number(units["relu_q5_10_x8"].area)])
        lines += table(["library", "row", "softmax unit, um2", "MHz", "row buffer in flip-flops, um2",
                        "cycles of a row, two-pass", "online", "ReLU", "ReLU unit, um2"], rows) + [""]
    sky = measured["sky130"]
    found = [sky[name] for name in names if name in sky]
    first, last = found[0], found[-1]
    short, long = first.unit["longest"], last.unit["longest"]
    text = (f"The paper's section 2.2 says that softmax grows with the longest context. The unit itself does so by the logarithm "
            f"alone: from {short:,} to {long:,} elements it has {(long // short).bit_length() - 1} more bits in the sum and "
            f"{ratio(last.area, first.area)} times the area in sky130. "
            f"What grows in proportion is the row, which is read again for each pass. 64 and 256 elements of the row buffer were "
            f"synthesised, the others follow from what an element adds; an SRAM is several times smaller. Where the "
            f"accelerator keeps scores anyway, the buffer is not the function's. ReLU needs neither, and its first result comes "
            f"at once, not after the whole row.")
    return lines + wrapped(text)


def row_energies(units, bits):
    """For each function its energy in a row in nJ, the row's whole energy, its share, and the row's ratio to softmax."""
    form = {8: "q3_4", 16: "q5_10"}[bits]
    dot = units[f"dot_{form}_x8_l64"]
    products = 2 * KEYS * HEAD * dot.element() / 1e3
    reads = 2 * KEYS * HEAD * bits * SRAM / 1e3
    names = [f"relu_{form}_x8", f"flare_{form}_x8", f"softmax_two_pass_polynomial_{form}_x8_l1024",
             f"softmax_online_polynomial_{form}_x8_l1024", f"softmax_two_pass_table_{form}_x8_l1024",
             f"norm_softmax_g1_polynomial_{form}_x8_l1024"]
    own = {name: KEYS * units[name].element(1 if "flare" in name else 0) / 1e3 for name in names if name in units}
    base = own[names[2]] + products + reads
    return {name: (energy, energy + products + reads, energy / (energy + products + reads),
                   (energy + products + reads) / base, products, reads) for name, energy in own.items()}


def attention_row(measured):
    """Energy and area of a row of attention."""
    units, rows = measured["nangate45"], []
    for bits in (8, 16):
        # Without two-pass softmax there is nothing to compare with.
        for name, (own, whole, share, to_softmax, products, reads) in row_energies(units, bits).items():
            skipped = whole
            if name.startswith(("relu", "flare")):
                skipped = whole - ZEROS ** 8 * (products + reads) / 2
            rows.append([str(bits), f"`{name}`", number(products), number(reads), number(own), number(whole), f"{share:.1%}",
                         f"{to_softmax:.3f}", number(skipped) if skipped != whole else ""])
    areas = []
    dot = units["dot_q5_10_x8_l64"]
    arrays = 2 * HEAD / 8 * dot.area
    for name in ("relu_q5_10_x1", "flare_q5_10_x1", "softmax_two_pass_polynomial_q5_10_x1_l1024",
                 "norm_softmax_g1_polynomial_q5_10_x1_l1024"):
        if name not in units:
            continue
        unit = units[name]
        copies = -(-unit.beats(KEYS) // KEYS)
        areas.append([f"`{name}`", str(copies), number(copies * unit.area), number(arrays),
                      f"{copies * unit.area / (arrays + copies * unit.area):.1%}", number(min(unit.mhz, dot.mhz)),
                      number(KEYS / min(unit.mhz, dot.mhz))])
    text = (f"One row of attention in Nangate45: {HEAD} products of the query with each of {KEYS} keys and as many of the "
            f"weights with the values, in units of 8 products as they were measured; keys and values are read once from an SRAM "
            f"of 64 KB at {SRAM} pJ a bit, which is BitFusion's buffer. DRAM, at 15 pJ a bit there, would be "
            f"{15 / SRAM:.0f} times that and hide everything else. FLARE's own row has 98.9 % zeros. The last column leaves out "
            f"the values, and their products, of groups of 8 keys whose weights are all zero, if zeros are independent; softmax "
            f"has no zeros to leave out. The bias's own computation is in none of them (FIRE's unit is in its table below).")
    areas_text = (f"The area of an engine that takes a key in each cycle: {2 * HEAD} multipliers of 16 bits, and as many units "
                  f"of the function as keep up with it. A row of a two-pass unit takes three readings, so it needs three and the "
                  f"wait for the reciprocal makes it a little late; that is counted as one more. A row's time is that of its keys "
                  f"at the lower of the two frequencies.")
    own, whole, share, _, products, _ = row_energies(units, 16)["softmax_two_pass_polynomial_q5_10_x8_l1024"]
    caution = (f"A product of 8 bits takes {number(units['dot_q3_4_x8_l64'].element())} pJ here and one of 16 "
               f"{number(dot.element())}, with new random operands in every cycle, registers around it, and gates sized for "
               f"speed. Tuned multipliers take several times less. At a quarter of that energy two-pass softmax would be "
               f"{own / (whole - 0.75 * products):.0%} of the row in 16 bits instead of {share:.0%}.")
    return (["## A whole row of attention", ""] + wrapped(text) + [""] + wrapped(caution) + [""]
            + table(["bits", "function", "products, nJ", "SRAM, nJ", "function, nJ", "row, nJ", "function's share",
                     "row to two-pass softmax's", "row, nJ, zeros left out"], rows) + [""] + wrapped(areas_text) + [""]
            + table(["function", "units", "their area, um2", "multipliers, um2", "function's share", "MHz", "row, us"], areas))


def errors(units):
    """How far results are from the functions."""
    rows = []
    for unit in units:
        activity = unit["activities"][0]
        if unit["function"] not in ("row buffer", "products") and activity["greatest_error"] > 0:
            rows.append([f"`{unit['name']}`", f"{activity['mean_error']:.2e}", f"{activity['greatest_error']:.2e}"])
    text = ("The difference of results from the functions in `f64`, on the rows of which power was measured. The tests hold "
            "bounds of each result on corner and random rows. Units that are not listed have none on these rows.")
    return ["## Errors", ""] + wrapped(text) + [""] + table(["unit", "mean", "greatest"], rows)


def all_units(function, units, libraries, measured):
    """The table of a function."""
    rows = []
    for library in libraries:
        for unit in units:
            if unit["function"] != function or unit["name"] not in measured[library.name]:
                continue
            found = measured[library.name][unit["name"]]
            rows.append([f"`{found.name}`", library.name, f"{found.cells:,}", number(found.area), number(found.gates / 1e3),
                         f"{found.flop_share:.0%}", number(found.mhz), number(found.milliwatts()), number(found.cycle()),
                         number(found.element())])
    return [f"## Units: {function}", ""] + table(
        ["unit", "library", "cells", "area, um2", "kGE", "registers", "MHz", "mW", "pJ in a cycle", "pJ for an element"], rows)


def write(path, lines):
    """Writes the page in one piece."""
    aside = path.with_name(f".tmp-{path.name}")
    aside.write_text("\n".join(lines) + "\n", encoding="utf-8")
    aside.replace(path)
