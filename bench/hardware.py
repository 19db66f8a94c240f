#!/usr/bin/env python3
"""Measures the hardware of attention functions and writes docs/results/hardware.md.

    python3 bench/hardware.py [--library DIR] [--work DIR] [--only REGEX] [--cells sky130|nangate45] [--measured]
                              [--jobs N] [--seed S] [--simulator verilator|iverilog]

Generates all units of `lessen_hardware::rtl`, simulates each on random and corner rows against its model, maps it onto
sky130 and Nangate45 with yosys and ABC, asks OpenSTA for its highest frequency, simulates the netlist on rows of scores
and computes its power from the transitions of its nets. What is done stays in the work folder and is not done again.
"""

import argparse
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import hardware_flow as flow
import hardware_page

ROOT = Path(__file__).resolve().parent.parent


def arguments():
    """The command's flags."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", type=Path, help="folder of the Liberty files; data/hardware or "
                        "../shared/data/hardware, whichever exists")
    parser.add_argument("--work", type=Path, default=ROOT / "target/hardware", help="folder of what is generated")
    parser.add_argument("--only", default="", help="measure units whose names this expression finds; write no page")
    parser.add_argument("--cells", choices=list(flow.LIBRARIES), help="measure in this library alone; write no page")
    parser.add_argument("--measured", action="store_true", help="write the page from what the work folder has; the page "
                        "names what is missing")
    parser.add_argument("--jobs", type=int, default=2, help="units at a time")
    parser.add_argument("--seed", type=int, default=1, help="seed of all random rows")
    parser.add_argument("--simulator", choices=["verilator", "iverilog"], help="what simulates the modules on their "
                        "checks; Verilator where it is installed")
    return parser.parse_args()


def libraries(folder, work):
    """The libraries of cells."""
    folders = [folder] if folder else [ROOT / "data/hardware", ROOT.parent / "shared/data/hardware"]
    for found in folders:
        files = {name: found / settings["file"] for name, settings in flow.LIBRARIES.items()}
        if all(file.is_file() for file in files.values()):
            return [flow.Library(name, file, work) for name, file in files.items()]
    names = " and ".join(settings["file"] for settings in flow.LIBRARIES.values())
    sys.exit(f"error: {' and '.join(map(str, folders))}: there is no {names}; name their folder with --library")


def check(unit, units, work, simulator):
    """Simulates a module on its check once; the simulator that found its results to be the model's."""
    name = unit["name"]
    parts = [(units / name / file).read_bytes() for file in (f"{name}.v", "check/stimulus.hex", "check/expected.hex")]
    kept = work / "results" / f"{name}-check-{simulator}-{flow.digest(parts)}.json"
    if not kept.exists():
        flow.simulate(units / name, name, simulator == "verilator")
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(simulator), encoding="utf-8")
    return simulator


def main():
    args = arguments()
    versions = flow.versions()
    missing = [name for name in ("yosys", "OpenSTA", "iverilog") if not versions[name]]
    if missing:
        sys.exit(f"error: {', '.join(missing)} not found; install yosys, opensta and iverilog")
    simulator = args.simulator or ("verilator" if versions["verilator"] else "iverilog")
    work = args.work.resolve()
    units = work / "units"
    units.mkdir(parents=True, exist_ok=True)
    cells = libraries(args.library, work)
    subprocess.run(["cargo", "run", "--quiet", "--locked", "-p", "lessen-hardware", "--example", "rtl", "--", units,
                    str(args.seed)], cwd=ROOT, check=True)
    listed = json.loads((units / "units.json").read_text(encoding="utf-8"))["units"]
    chosen = [unit for unit in listed if flow.matches(args.only, unit["name"])]
    failures = []

    def done(job):
        unit, library = job
        try:
            if args.measured and library and not flow.result_file(unit, library, units, work).exists():
                return
            if library is None:
                unit["simulator"] = check(unit, units, work, simulator)
                what = f"simulated by {simulator}"
            else:
                result = flow.measure(unit, library, units, work)
                unit.setdefault("results", {})[library.name] = result
                what = f"{library.name}: {result['area']:.0f} um2, {1e3 / result['period']:.0f} MHz"
            print(f"{unit['name']}: {what}", file=sys.stderr, flush=True)
        except flow.Failed as error:
            failures.append(str(error))
            print(f"error: {error}", file=sys.stderr, flush=True)

    chosen_cells = [library for library in cells if args.cells in (None, library.name)]
    jobs = [(unit, library) for library in (*chosen_cells, None) for unit in chosen]
    with ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(done, jobs))
    if failures:
        sys.exit(f"error: {len(failures)} of {len(jobs)} measurements failed; the page is not written")
    if args.only or args.cells:
        return
    page = hardware_page.page(listed, cells, versions, args.seed, ROOT)
    hardware_page.write(ROOT / "docs/results/hardware.md", page)


if __name__ == "__main__":
    main()
