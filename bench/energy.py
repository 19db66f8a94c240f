#!/usr/bin/env python3
"""Writes docs/results/energy.md: networks at 8 bit on BitFusion under each way to compute groups, beside the energies
that a dissertation published.

    python3 bench/energy.py [--write docs/results/energy.md]

All numbers are computed, none is measured: they do not depend on the machine.
"""

import argparse
import datetime
import json
import math
import os
import sys

import step

# The tables 2.11 (ImageNet) and 2.12 (CIFAR-100) at 8 bit: mJ and ms; none where the tables have no such row.
PUBLISHED = {
    "vgg-16": ("VGG-16", 753.11, 838.03),
    "resnet-50": ("ResNet-50", 557.46, 591.17),
    "mobilenet-v1": ("MobileNetV1", None, None),
    "mobilenet-v2": ("MobileNetV2", 29.01, 73.85),
    "densenet-bc-190": ("DenseNet-BC-190, CIFAR-100", 125.74, 247.21),
    "mobilenet-v2-cifar": ("MobileNetV2, CIFAR-100", 5.09, 13.13),
}
ACCELERATORS = ("bf_e", "bf_s")
BATCH = 16
# pJ of a bit from or to DRAM: of the simulator, and of a comment in its source.
DRAM, DRAM_OF_COMMENT = 15, 6
# A choice fits where every figure is off by less than this factor.
FITS = 1.05


def cost(total):
    """Cycles, ms and mJ of a batch, the latter at both prices of DRAM, and the share of the units that is used."""
    energy = total["energy_nj"]
    millijoules = energy["total"] * 1e-6
    cheaper = (energy["total"] - energy["dram"] * (1 - DRAM_OF_COMMENT / DRAM)) * 1e-6
    return {
        "cycles": total["cycles"],
        "ms": total["ms"],
        "mJ": millijoules,
        "mJ6": cheaper,
        "used": total["utilisation"],
    }


def modelled(lessen, accelerator, network):
    """The costs by way to compute groups; one under None where a network has no groups."""
    command = [lessen, "energy", network, "--bits", "8", "--accelerator", accelerator, "--batch", str(BATCH), "--json"]
    found = json.loads(step.output_of(command, "lessen energy"))
    choices = found.get("depthwise_choices")
    if choices is None:
        return {None: cost(found["total"])}
    return {choice: cost(total) for choice, total in choices.items()}


def off(found, published):
    """The factor by which a figure is off, 1 or more."""
    return max(found / published, published / found)


def table(found, accelerator):
    lines = [
        "| network | groups | cycles | units used | ms of a batch | mJ of a batch | ms of an image | mJ of an image"
        " | published ms | published mJ |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for network, (title, energy, time) in PUBLISHED.items():
        for choice, own in found[accelerator, network].items():
            published = [f"{value:,.2f}" if value else "–" for value in (time, energy)]
            cells = [title, choice or "none", f"{own['cycles']:,}", f"{100 * own['used']:.1f} %", f"{own['ms']:,.2f}"]
            cells += [f"{own['mJ']:,.2f}", f"{own['ms'] / BATCH:,.3f}", f"{own['mJ'] / BATCH:,.3f}", *published]
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def choices_of(found):
    """The ways to compute groups."""
    return list(found["bf_e", "mobilenet-v2"])


def readings(found):
    """Each reading of the published figures: its name, and the largest factors in ms and mJ over the networks."""
    for accelerator in ACCELERATORS:
        for images, per in ((1, "a batch"), (BATCH, "an image")):
            for dram, key in ((DRAM, "mJ"), (DRAM_OF_COMMENT, "mJ6")):
                for choice in choices_of(found):
                    times, energies = [], []
                    for network, (_, energy, time) in PUBLISHED.items():
                        if energy is None:
                            continue
                        costs = found[accelerator, network]
                        own = costs.get(choice) or costs[None]
                        times.append(off(own["ms"] / images, time))
                        energies.append(off(own[key] / images, energy))
                    yield (accelerator, per, dram, choice), times, energies


def fits(found):
    """The readings whose factors have the least product, and what follows."""
    scored = []
    for reading, times, energies in readings(found):
        entry = (math.prod(times + energies), max(times), max(energies), reading, times, energies)
        scored.append(entry)
    scored.sort(key=lambda entry: entry[0])
    names = [title for title, energy, _ in PUBLISHED.values() if energy is not None]
    lines = [
        "| accelerator | figures are of | DRAM, pJ a bit | groups | largest factor, ms | largest factor, mJ | by network,"
        " ms | by network, mJ |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for _, time, energy, (accelerator, per, dram, choice), times, energies in scored[:8]:
        each = [", ".join(f"{value:.2f}" for value in values) for values in (times, energies)]
        cells = [accelerator, per, str(dram), choice, f"{time:.2f}", f"{energy:.2f}", *each]
        lines.append("| " + " | ".join(cells) + " |")
    best = min(scored, key=lambda entry: max(entry[1:3]))
    worst = max(best[1:3])
    by_time = min(scored, key=lambda entry: math.prod(entry[4]))
    said = [
        f"Networks in the last two columns: {'; '.join(names)}. A factor is how far the larger of the published and the"
        " modelled figure is above the other.",
        "",
    ]
    accelerator, per, dram, choice = (best if worst <= FITS else scored[0])[3]
    if worst <= FITS:
        said.append(f"**{choice} fits** on {accelerator}, figures of {per}: all are within {100 * (FITS - 1):.0f} %.")
    else:
        said.append(
            f"**No choice fits.** No reading has a largest factor below {worst:.2f}. The nearest by the product of all"
            f" factors is {choice} on {accelerator} with figures of {per} and {dram} pJ a bit of DRAM. By times alone it is"
            f" {by_time[3][3]} on {by_time[3][0]} with figures of {by_time[3][1]}, off by {by_time[1]:.2f} at most."
        )
    return lines + [""] + said


def ratios(found):
    """What no reading can change: figures of networks without groups beside each other."""
    published = {network: (energy, time) for network, (_, energy, time) in PUBLISHED.items()}
    lines = ["| | published mJ | published ms | bf_e mJ | bf_e ms | bf_s mJ | bf_s ms |", "|---|---|---|---|---|---|---|"]
    for above, below in (("vgg-16", "resnet-50"), ("vgg-16", "densenet-bc-190")):
        cells = [f"{PUBLISHED[above][0]} / {PUBLISHED[below][0]}"]
        cells += [f"{published[above][at] / published[below][at]:.2f}" for at in (0, 1)]
        for accelerator in ACCELERATORS:
            both = [found[accelerator, network][None] for network in (above, below)]
            cells += [f"{both[0][key] / both[1][key]:.2f}" for key in ("mJ", "ms")]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def markdown(found, python):
    text = [
        "# Energy on BitFusion, and what the published energies rest on",
        "",
        "Written by `bench/energy.py`, which anyone can run again:",
        "",
        "```",
        "python3 bench/energy.py",
        "```",
        "",
        f"- Date: {datetime.date.today().isoformat()}",
        f"- Versions: {step.versions(python)}",
        "- All figures are computed: no machine, seed or spread changes them. `lessen energy NETWORK --bits 8` shows one"
        " network layer by layer",
        "- That the model is BitFusion's is a test: of its published simulation every layer of eight networks and five"
        " configurations has the cycles and stalls to the last digit and the energy to nine digits"
        " (`hardware/tests/all/oracle.rs`)",
        "- bf_e: 16 x 32 units at 500 MHz, 192 bits of memory in a cycle; bf_s: the same units at 980 MHz, 4,096 bits,"
        " whose banks of 256 bytes of weights are interpolated between two rows of the table of memories",
        "- Published: chapter 2.3 of the dissertation, tables 2.11 and 2.12, at 8 bit, \"for the inference with a batch"
        " of 16 images\"; it names BitFusion's simulator, but no configuration and nothing about depthwise convolutions",
        "- The simulator has no groups. The ways to compute them are those of `--depthwise`:"
        " [hardware](../reference/hardware.md#groups)",
    ]
    for accelerator in ACCELERATORS:
        text += ["", f"## {accelerator}, batches of 16", "", *table(found, accelerator)]
    text += [
        "",
        "## Which choice the published figures rest on",
        "",
        "Every reading of the published figures: both configurations, figures of a batch or of an image of"
        " it, DRAM at the 15 pJ a bit that the simulator computes with or the 6 of a comment in its source, and"
        " each way to compute groups. The eight nearest:",
        "",
        *fits(found),
        "",
        "Networks without groups beside each other depend on no choice of groups, nor on whether figures are of a batch:",
        "",
        *ratios(found),
        "",
        "VGG-16 has 3.8 times the multiplications of ResNet-50, and both use nearly all units of the array; published"
        " figures that are 1.35 to 1.42 apart do not come from this simulator in either configuration.",
    ]
    return "\n".join(text) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lessen", help="the command (default: it is built)")
    parser.add_argument("--write", metavar="FILE", help="also write the page to a file")
    args = parser.parse_args()
    lessen = os.path.abspath(args.lessen) if args.lessen else step.build_lessen()
    found = {
        (accelerator, network): modelled(lessen, accelerator, network)
        for accelerator in ACCELERATORS
        for network in PUBLISHED
    }
    step.publish(markdown(found, os.environ.get("PYTHON", sys.executable)), args.write)


if __name__ == "__main__":
    main()
