"""From a unit's Verilog to area, frequency and power: simulation, synthesis, timing, switching activity.

Power is that of bench/hardware_power.py: the OpenSTA of Debian 12 (2.0.17) reads no activity file, ignores an activity
that is set for an output pin, and counts the clock's internal energy twice.

Used by bench/hardware.py. Needs yosys (with its ABC), OpenSTA (`sta`) and Icarus Verilog; Verilator simulates the
modules where it is installed, Icarus elsewhere.
"""

import gzip
import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import hardware_power

# For each library: cells that the mapping may not take: scan flip-flops, resets, latches, clock gates, and
# cells of other purposes; what drives inputs and loads outputs; the unit of energy; a typical slew in ns.
LIBRARIES = {
    "sky130": {
        "file": "sky130hd_tt.lib.gz",
        "title": "sky130 (130 nm, 1.8 V, typical, 25 C)",
        "unused": r"lpflow|probe|__s?edf|__sdf|__dl|__dfbb|__df[rs]|dfxbp|__macro|clkdly",
        "driver": "sky130_fd_sc_hd__inv_2",
        "load": 10.0,
        "volts": 1.8,
        "joule": 1e-12,
        "slew": 0.1,
    },
    "nangate45": {
        "file": "nangate45_typ.lib.gz",
        "title": "Nangate45 (45 nm, 1.1 V, typical, 25 C)",
        "unused": r"^SDFF|^CLKGATE|^DL|^TBUF|^TLAT|^FILL|^ANTENNA|^LOGIC|DFF[RS]",
        "driver": "INV_X2",
        "load": 3.0,
        "volts": 1.1,
        "joule": 1e-15,
        "slew": 0.02,
    },
}
# Lets ABC map for speed, then size and buffer gates against the library's delays.
ABC = "&get -n\n&st\n&dch\n&nf\n&put\nbuffer -c\ntopo\nstime -p\nupsize -c\ndnsize -c\nstime -p\n"
# The clock period in ns with which timing is asked; the highest frequency follows from the slack.
PERIOD = 20.0


class Failed(Exception):
    """A tool or a comparison that failed; the text says which."""


def run(command, folder, log):
    """Runs a tool in a folder; its output is in the file `log` there."""
    with open(folder / log, "w", encoding="utf-8") as out:
        done = subprocess.run(command, cwd=folder, stdout=out, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        tail = (folder / log).read_text(encoding="utf-8", errors="replace").splitlines()[-3:]
        raise Failed(f"{command[0]} in {folder} ended with {done.returncode}: {' / '.join(tail)}")


def digest(parts):
    """A short digest of some bytes."""
    key = hashlib.sha256()
    for part in parts:
        key.update(hashlib.sha256(part).digest())
    return key.hexdigest()[:16]


def matches(expression, name):
    """Whether a regular expression finds something in a name; the empty one does in all."""
    return re.search(expression, name) is not None


def versions():
    """The versions of the tools, None where one is missing."""
    asked = {"yosys": ["yosys", "-V"], "OpenSTA": ["sta", "-version"], "iverilog": ["iverilog", "-V"],
             "verilator": ["verilator", "--version"]}
    found = {}
    for name, command in asked.items():
        found[name] = None
        if shutil.which(command[0]):
            text = subprocess.run(command, capture_output=True, text=True, check=False).stdout
            number = re.search(r"\d+\.[\w.+-]+", text)
            found[name] = number[0] if number else "of unknown version"
    return found


def cells(text):
    """Names of a library's cells with the begin and end of their text."""
    for match in re.finditer(r'^\s*cell\s*\(\s*"?([^")]+?)"?\s*\)\s*\{', text, re.M):
        depth, at = 0, match.end() - 1
        for brace in re.finditer(r"[{}]", text[at:]):
            depth += 1 if brace[0] == "{" else -1
            if depth == 0:
                yield match[1], match.start(), at + brace.end()
                break


class Library:
    """A library of cells: its file, the same without unused cells, and models of its cells in Verilog."""

    def __init__(self, name, source, work):
        self.name, settings = name, LIBRARIES[name]
        self.title, self.settings = settings["title"], settings
        self.folder = work / name
        self.folder.mkdir(parents=True, exist_ok=True)
        text = gzip.decompress(source.read_bytes()).decode("utf-8", "replace")
        self.digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        self.full, self.mapped = self.folder / "full.lib", self.folder / "mapped.lib"
        self.models = self.folder / "cells.v"
        self.volts, self.joule = settings["volts"], settings["joule"]
        self.bodies, self.powers = {}, {}
        kept, at, self.area, self.flops = [], 0, {}, set()
        for cell, begin, end in cells(text):
            body = self.bodies[cell] = text[begin:end]
            area = re.search(r"^\s*area\s*:\s*\"?([\d.eE+-]+)", body, re.M)
            self.area[cell] = float(area[1]) if area else 0.0
            if re.search(r"^\s*ff\s*\(", body, re.M):
                self.flops.add(cell)
            if re.search(settings["unused"], cell):
                kept.append(text[at:begin])
                at = end
        kept.append(text[at:])
        self.full.write_text(text, encoding="utf-8")
        self.mapped.write_text("".join(kept), encoding="utf-8")
        (self.folder / "speed.abc").write_text(ABC, encoding="utf-8")
        (self.folder / "constraints").write_text(
            f"set_driving_cell {settings['driver']}\nset_load {settings['load']} [all_outputs]\n", encoding="utf-8")
        script = f"read_liberty -ignore_miss_func {self.full}\nwrite_verilog -noattr {self.models}\n"
        (self.folder / "cells.ys").write_text(script, encoding="utf-8")
        run(["yosys", "-q", "-s", "cells.ys"], self.folder, "cells.log")
        # A gate of two inputs, by which areas are compared between libraries.
        self.nand = self.area.get("sky130_fd_sc_hd__nand2_1") or self.area["NAND2_X1"]

    def power(self, cell):
        """Capacitances and energies of a cell."""
        if cell not in self.powers:
            self.powers[cell] = hardware_power.CellPower(self.bodies[cell].strip(), self.settings["slew"])
        return self.powers[cell]


def simulate(folder, name, verilator):
    """Simulates a module on its check; raises where a result is not the model's."""
    check = folder / "check"
    if verilator:
        run(["verilator", "--binary", "--timing", "-Wno-fatal", "-Wno-lint", "-O0", "-CFLAGS", "-O0", "--top-module",
             "testbench", "testbench.v", f"../{name}.v"], check, "verilator.log")
        run(["./obj_dir/Vtestbench"], check, "simulation.log")
        shutil.rmtree(check / "obj_dir")
    else:
        run(["iverilog", "-g2005", "-o", "bench", "testbench.v", f"../{name}.v"], check, "iverilog.log")
        run(["vvp", "-n", "bench"], check, "simulation.log")
    compare(check, name)


def compare(folder, name):
    """Raises where the results of a simulation are not those of the model."""
    got, expected = ((folder / file).read_text(encoding="utf-8").split() for file in ("results.hex", "expected.hex"))
    if got != expected:
        pairs = enumerate(zip(got, expected))
        at = next((at for at, (a, b) in pairs if a != b), min(len(got), len(expected)))
        raise Failed(f"{name}: result {at} of {len(expected)} in {folder} differs from the model")


def synthesize(folder, name, library):
    """Maps a module onto a library: `netlist.v` with single bits as ports; counts and area of its cells in um2."""
    script = "\n".join([
        f"read_verilog ../{name}.v", f"synth -noabc -top {name}", f"dfflibmap -liberty {library.mapped}",
        f"abc -liberty {library.mapped} -script {library.folder}/speed.abc -constr {library.folder}/constraints",
        "flatten", "setundef -zero", "opt_clean -purge",
        "hilomap -hicell " + tie(library, 1) + " -locell " + tie(library, 0), "splitnets -ports", "opt_clean -purge", "write_verilog -noattr -noexpr netlist.v", ""])
    (folder / "synthesis.ys").write_text(script, encoding="utf-8")
    run(["yosys", "-q", "-s", "synthesis.ys"], folder, "synthesis.log")
    found = [cell for cell, _, _ in instances((folder / "netlist.v").read_text(encoding="utf-8"))]
    unknown = set(found) - set(library.area)
    if unknown:
        raise Failed(f"{name}: {', '.join(sorted(unknown))} is no cell of {library.name}")
    flops = [cell for cell in found if cell in library.flops]
    area = sum(library.area[cell] for cell in found)
    return {"cells": len(found), "flops": len(flops), "area": area,
            "flop_area": sum(library.area[cell] for cell in flops)}


def tie(library, value):
    """The cell and pin of a constant."""
    if library.name == "sky130":
        return f"sky130_fd_sc_hd__conb_1 {'HI' if value else 'LO'}"
    return "LOGIC1_X1 Z" if value else "LOGIC0_X1 Z"


def sta(folder, name, library, commands, log):
    """Runs OpenSTA on the netlist; its output."""
    script = [f"read_liberty {library.full}", "read_verilog netlist.v", f"link_design {name}", *commands, "exit", ""]
    (folder / "sta.tcl").write_text("\n".join(script), encoding="utf-8")
    run(["sta", "-exit", "sta.tcl"], folder, log)
    return (folder / log).read_text(encoding="utf-8")


def timing(folder, name, library):
    """The least period in ns between flip-flops, and where the longest path begins and ends."""
    text = sta(folder, name, library, [f"create_clock -name clk -period {PERIOD} clk", "report_checks",
                                       "report_worst_slack"], "timing.log")
    slack = re.search(r"worst slack (-?[\d.]+)", text)
    exact = re.search(r"^\s*(-?[\d.]+)\s+slack", text, re.M)
    if not slack or not exact:
        raise Failed(f"{name}: OpenSTA finds no path in {folder}")
    return PERIOD - float(exact[1])


def toggles(path):
    """Transitions between 0 and 1 of each net in an activity file."""
    names, count, state = {}, {}, {}
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            if line[0] in "01xz":
                value, key = line[0], line[1:-1]
                before = state.get(key, "x")
                if before != value and before in "01" and value in "01":
                    count[key] = count.get(key, 0) + 1
                state[key] = value
            elif line.startswith("$var"):
                parts = line.split()
                names[parts[4].lstrip("\\")] = parts[3]
    return {name: count.get(key, 0) for name, key in names.items()}


def instances(netlist):
    """The cells of a netlist: type, name, and pairs of pin and net."""
    for cell, name, body in re.findall(r"^  (\w+) (\S+) \(\n(.*?)\n  \);", netlist, re.M | re.S):
        pins = re.findall(r"\.(\w+)\(([^)]*)\)", body)
        yield cell, name, [(pin, net.strip().lstrip("\\").strip()) for pin, net in pins if net.strip()]


def power(folder, name, library, activity, period, cycles):
    """Simulates the netlist on rows; its power in W at a period in ns, from all nets' transitions."""
    for file in ("stimulus.hex", "expected.hex", "testbench_netlist.v"):
        shutil.copy(activity / file, folder / file)
    run(["iverilog", "-g2005", "-o", "bench", "testbench_netlist.v", "netlist.v", str(library.models)], folder,
        "iverilog.log")
    run(["vvp", "-n", "bench"], folder, "simulation.log")
    compare(folder, f"the netlist of {name}")
    counts = toggles(folder / "activity.vcd")
    for file in ("activity.vcd", "bench"):
        (folder / file).unlink()
    parts = list(instances((folder / "netlist.v").read_text(encoding="utf-8")))
    nets = {net for _, _, pins in parts for _, net in pins}
    if missing := nets - set(counts):
        raise Failed(f"{name}: {len(missing)} nets, such as {min(missing)}, are not in its activity")
    rates = {net: counts[net] / cycles for net in nets}
    result = hardware_power.netlist_power(parts, rates, "clk", library, period)
    result["transitions"] = sum(rates.values()) / len(rates)
    return result


def result_file(unit, library, units, work):
    """Where the result of a unit in a library is kept; its name changes with everything that the result follows from."""
    name = unit["name"]
    parts = [Path(__file__).read_bytes(), Path(hardware_power.__file__).read_bytes(), library.digest.encode(),
             (units / name / f"{name}.v").read_bytes()]
    parts += [(units / name / f"activity{at}" / "stimulus.hex").read_bytes() for at in range(len(unit["activities"]))]
    return work / "results" / f"{name}-{library.name}-{digest(parts)}.json"


def measure(unit, library, units, work):
    """Area, frequency and power of a unit in a library, measured once."""
    name, kept = unit["name"], result_file(unit, library, units, work)
    if kept.exists():
        return json.loads(kept.read_text(encoding="utf-8"))
    folder = units / name / library.name
    folder.mkdir(exist_ok=True)
    result = synthesize(folder, name, library)
    result["period"] = timing(folder, name, library)
    result["power"] = [power(folder, name, library, units / name / f"activity{at}", result["period"],
                             activity["cycles"]) for at, activity in enumerate(unit["activities"])]
    kept.parent.mkdir(parents=True, exist_ok=True)
    aside = kept.with_suffix(".tmp")
    aside.write_text(json.dumps(result), encoding="utf-8")
    aside.replace(kept)
    return result
