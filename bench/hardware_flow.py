"""From a unit's Verilog to area, frequency and power: simulation, synthesis, timing, switching activity.

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

# Cells that the mapping may not take: scan flip-flops, resets, latches, clock gates, and cells of other purposes.
LIBRARIES = {
    "sky130": {
        "file": "sky130hd_tt.lib.gz",
        "title": "sky130 (130 nm, 1.8 V, typical, 25 C)",
        "unused": r"lpflow|probe|__s?edf|__sdf|__dl|__dfbb|__df[rs]|dfxbp|__macro|clkdly",
        "driver": "sky130_fd_sc_hd__inv_2",
        "load": 10.0,
    },
    "nangate45": {
        "file": "nangate45_typ.lib.gz",
        "title": "Nangate45 (45 nm, 1.1 V, typical, 25 C)",
        "unused": r"^SDFF|^CLKGATE|^DL|^TBUF|^TLAT|^FILL|^ANTENNA|^LOGIC|DFF[RS]",
        "driver": "INV_X2",
        "load": 3.0,
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
        kept, at, self.area, self.flops = [], 0, {}, set()
        for cell, begin, end in cells(text):
            body = text[begin:end]
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
        script = f"read_liberty -ignore_miss_func {self.mapped}\nwrite_verilog -noattr {self.models}\n"
        (self.folder / "cells.ys").write_text(script, encoding="utf-8")
        run(["yosys", "-q", "-s", "cells.ys"], self.folder, "cells.log")
        # A gate of two inputs, by which areas are compared between libraries.
        self.nand = self.area.get("sky130_fd_sc_hd__nand2_1") or self.area["NAND2_X1"]


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
        at = next((at for at, pair in enumerate(zip(got, expected)) if pair[0] != pair[1]), min(len(got), len(expected)))
        raise Failed(f"{name}: result {at} of {len(expected)} in {folder} differs from the model")


def synthesize(folder, name, library):
    """Maps a module onto a library: `netlist.v` with single bits as ports; counts and area of its cells in um2."""
    script = "\n".join([
        f"read_verilog ../{name}.v", f"synth -flatten -top {name}", f"dfflibmap -liberty {library.mapped}",
        f"abc -liberty {library.mapped} -script {library.folder}/speed.abc -constr {library.folder}/constraints",
        "setundef -zero", "hilomap -hicell " + tie(library, 1) + " -locell " + tie(library, 0),
        "splitnets -ports", "opt_clean -purge", "write_verilog -noattr -noexpr netlist.v", ""])
    (folder / "synthesis.ys").write_text(script, encoding="utf-8")
    run(["yosys", "-q", "-s", "synthesis.ys"], folder, "synthesis.log")
    instances = re.findall(r"^  (\w+) \S+ \($", (folder / "netlist.v").read_text(encoding="utf-8"), re.M)
    unknown = set(instances) - set(library.area)
    if unknown:
        raise Failed(f"{name}: {', '.join(sorted(unknown))} is no cell of {library.name}")
    flops = [cell for cell in instances if cell in library.flops]
    area = sum(library.area[cell] for cell in instances)
    return {"cells": len(instances), "flops": len(flops), "area": area,
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
    """Transitions between 0 and 1 of each net in an activity file, the part of the time that it is 1, and the time."""
    names, count, high, last, state = {}, {}, {}, {}, {}
    now = begin = None
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("$var"):
                parts = line.split()
                names.setdefault(parts[3], []).append(parts[4].lstrip("\\"))
            elif line[0] == "#":
                now = int(line[1:])
                begin = now if begin is None and state else begin
            elif line[0] in "01xz":
                value, key = line[0], line[1:].strip()
                before = state.get(key)
                if before == "1":
                    high[key] = high.get(key, 0) + now - last[key]
                if before in ("0", "1") and value in ("0", "1") and before != value:
                    count[key] = count.get(key, 0) + 1
                state[key], last[key] = value, now
    begin = begin or 0
    for key, value in state.items():
        if value == "1":
            high[key] = high.get(key, 0) + now - last[key]
    total = max(now - begin, 1)
    return {name: (count.get(key, 0), min(high.get(key, 0) / total, 1.0))
            for key, all_names in names.items() for name in all_names}


def outputs(netlist, library_models):
    """The pins that drive nets: pairs of `instance/pin` and net."""
    pins = {}
    for module in re.finditer(r"^module (\w+)\((.*?)endmodule", library_models, re.M | re.S):
        pins[module[1]] = set(re.findall(r"^  output (\w+);", module[2], re.M))
    for cell, instance, body in re.findall(r"^  (\w+) (\S+) \(\n(.*?)\n  \);", netlist, re.M | re.S):
        for pin, net in re.findall(r"\.(\w+)\(([^)]*)\)", body):
            if pin in pins.get(cell, {"Z", "HI", "LO"}):
                yield f"{instance}/{pin}", net.strip().lstrip("\\").strip()


def power(folder, name, library, activity, period, cycles):
    """Simulates the netlist on rows and asks OpenSTA for the power in W that follows from all nets' transitions."""
    for file in ("stimulus.hex", "expected.hex", "testbench_netlist.v"):
        shutil.copy(activity / file, folder / file)
    run(["iverilog", "-g2005", "-o", "bench", "testbench_netlist.v", "netlist.v", str(library.models)], folder,
        "iverilog.log")
    run(["vvp", "-n", "bench"], folder, "simulation.log")
    compare(folder, f"the netlist of {name}")
    nets = toggles(folder / "activity.vcd")
    (folder / "activity.vcd").unlink()
    netlist = (folder / "netlist.v").read_text(encoding="utf-8")
    commands = [f"create_clock -name clk -period {period:.4f} clk"]
    inputs = re.findall(r"^  input (\S+) *;", netlist, re.M)
    settings = [("-input_ports", f"[get_ports {{{port.lstrip(chr(92))}}}]", port.lstrip("\\"))
                for port in inputs if port != "clk"]
    settings += [("-pins", f"[get_pins {pin}]", net)
                 for pin, net in outputs(netlist, library.models.read_text(encoding="utf-8"))]
    missing = 0
    for flag, where, net in settings:
        if net not in nets:
            missing += 1
            continue
        count, duty = nets[net]
        commands.append(f"set_power_activity {flag} {where} -activity {count / cycles:.6f} -duty {duty:.4f}")
    if missing:
        raise Failed(f"{name}: {missing} nets of the netlist are not in its activity")
    text = sta(folder, name, library, commands + ["report_power"], "power.log")
    if "Error" in text or "Warning" in text:
        raise Failed(f"{name}: OpenSTA says {re.search('.*(Error|Warning).*', text)[0]}")
    rows = dict(re.findall(r"^(Sequential|Combinational|Total)\s+(.*)$", text, re.M))
    number = {key: [float(word) for word in row.split()[:4]] for key, row in rows.items()}
    used = [count for pin, net in outputs(netlist, library.models.read_text(encoding='utf-8'))
            for count in [nets[net][0]]]
    return {"total": number["Total"][3], "leakage": number["Total"][2], "sequential": number["Sequential"][3],
            "toggle_rate": sum(used) / max(len(used), 1) / cycles}


def measure(unit, library, units, work):
    """Area, frequency and power of a unit in a library; kept in the work folder as long as nothing that it follows
    from has changed."""
    name = unit["name"]
    folder = units / name / library.name
    folder.mkdir(exist_ok=True)
    key = hashlib.sha256()
    for part in (Path(__file__).read_bytes(), library.digest.encode(), (units / name / f"{name}.v").read_bytes(),
                 *((units / name / f"activity{at}" / "stimulus.hex").read_bytes()
                   for at in range(len(unit["activities"])))):
        key.update(hashlib.sha256(part).digest())
    kept = work / "results" / f"{name}-{library.name}-{key.hexdigest()[:16]}.json"
    if kept.exists():
        return json.loads(kept.read_text(encoding="utf-8"))
    result = synthesize(folder, name, library)
    result["period"] = timing(folder, name, library)
    result["power"] = [power(folder, name, library, units / name / f"activity{at}", result["period"],
                             activity["cycles"]) for at, activity in enumerate(unit["activities"])]
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(result), encoding="utf-8")
    return result
