#!/usr/bin/env python3
"""ONNX's backend suite through `lessen run`: which cases pass, are wrong, or are refused.

    python3 bench/onnx_suite.py [--lessen FILE] [--filter PART] [--kinds node,…] [--jobs 2] [--verbose] [--write FILE]

Each case runs in a process of its own, which reads the suite's inputs and writes outputs in ONNX's own format. A case
passes if each output has the declared type and extents and is as near as the suite asks (1e-3 relative, 1e-7 absolute
unless the case says otherwise; integers, truth values and texts exactly). It is refused if the program ends with exit code
2 and a sentence. Anything else, such as a signal or more than 60 s, is a failure. Exits with 1 where a case is wrong or
fails. Needs onnx.
"""

import argparse
import collections
import concurrent.futures
import datetime
import os
import re
import subprocess
import sys
import tempfile
import textwrap

import onnx
import onnx_cases
import step

TIMEOUT = 60
OUTCOMES = ("pass", "wrong", "refused", "failure")


def run(lessen, case, work):
    """The outcome of a case and its reason."""
    graph = case.model.graph
    with tempfile.TemporaryDirectory(dir=work) as folder:
        for number, (inputs, outputs) in enumerate(case.sets):
            to = os.path.join(folder, str(number), "")
            command = [lessen, "run", case.path, "-o", to]
            for i, path in sorted(inputs.items()):
                command += ["--input", f"{graph.input[i].name}={path}"]
            try:
                done = subprocess.run(
                    command, capture_output=True, timeout=TIMEOUT, env=dict(os.environ, LESSEN_THREADS="1")
                )
            except subprocess.TimeoutExpired:
                return "failure", f"more than {TIMEOUT} s"
            said = done.stderr.decode(errors="replace").strip()
            if done.returncode == 2:
                return "refused", said
            if done.returncode != 0:
                return "failure", f"exit code {done.returncode}: {said[:300]}"
            why = wrong_output(case, to, outputs)
            if why:
                return "wrong", why
    return "pass", ""


def wrong_output(case, folder, outputs):
    """What is wrong with the outputs in a folder, if anything is."""
    for i, path in sorted(outputs.items()):
        value = case.model.graph.output[i]
        mine = os.path.join(folder, f"output_{i}.pb")
        if not os.path.isfile(mine):
            return f"there is no output `{value.name}`"
        right = onnx_cases.read(path, value.type)
        try:
            found = onnx_cases.read(mine, value.type)
        except Exception as error:  # onnx has errors of many kinds for what is no such value.
            return f"the output `{value.name}` cannot be read: {error}"
        why = onnx_cases.difference(found, right, case.rtol, case.atol)
        if why:
            return f"the output `{value.name}` has {why}"
    return None


def reason(said):
    """A sentence without what names one file alone, for counting."""
    said = said.splitlines()[-1] if said else "no sentence"
    node = re.search(r"the node (\S+) `.*?` cannot be run, since (.*)", said)
    if node:
        operator, why = node.groups()
        unknown = re.fullmatch(r"the operator (\S+)( of \S+)? is not known", why)
        said = unknown.group(0) if unknown else f"{operator}: {why}"
    else:
        said = re.sub(r"^(error: )?\S*\.onnx: ", "", said)
    return re.sub(r"`[^`]*`", "`…`", said)


def totals(results, key):
    """{key: {outcome: count}}"""
    found = collections.defaultdict(collections.Counter)
    for case, (outcome, _) in results.items():
        found[key(case)][outcome] += 1
    return found


def table(head, counts):
    lines = [f"| {head} | cases | " + " | ".join(OUTCOMES) + " |", "|---" * (2 + len(OUTCOMES)) + "|"]
    for name, count in counts:
        lines.append(f"| {name} | {count.total()} | " + " | ".join(str(count[each]) for each in OUTCOMES) + " |")
    return lines


def listed(results, outcome):
    """Lines with the names and reasons of cases of an outcome."""
    found = [(case.name, why) for case, (each, why) in results.items() if each == outcome]
    return [f"- `{name}`: {why}" for name, why in found] or ["None."]


def page(results, args):
    whole = collections.Counter(outcome for outcome, _ in results.values())
    kinds = totals(results, lambda case: case.kind)
    families = sorted(totals(results, lambda case: case.family()).items(), key=lambda row: row[0].lower())
    complete = [name for name, count in families if count["pass"] == count.total()]
    partial = [(name, count) for name, count in families if name not in complete]
    reasons = collections.Counter(reason(why) for outcome, why in results.values() if outcome == "refused")
    command = "python3 bench/onnx_suite.py"
    command += f" --filter {args.filter}" if args.filter else ""
    command += f" --kinds {args.kinds}" if args.kinds else ""
    text = ["# ONNX's backend suite", "", "Written by `bench/onnx_suite.py`, which anyone can run again:", ""]
    text += ["```", command, "```", ""]
    text += [f"- Date: {datetime.date.today().isoformat()}", f"- Machine: {step.machine()}"]
    text += [f"- Versions: {step.versions(sys.executable)}; onnx {onnx.__version__}"]
    text += ["- Each case is a run of `lessen run` in a process of its own. Outputs have the declared types and extents and are"]
    text += ["  within 1e-3 relative and 1e-7 absolute, where the case says nothing else; integers, truth values and texts are"]
    text += ["  the same. Refused is what ends with a sentence that names the operator or the type"]
    text += [f"- {whole['pass']} of {whole.total()} pass, {whole['wrong']} are wrong, {whole['refused']} are refused,"
             f" {whole['failure']} fail"]
    text += ["", *table("kind", [*kinds.items(), ("all", whole)])]
    text += ["", "## Wrong", "", *listed(results, "wrong")]
    if whole["failure"]:
        text += ["", "## Failures", "", *listed(results, "failure")]
    text += ["", "## Refused", ""]
    if reasons:
        text += ["| cases | since |", "|---|---|"]
        # Unescaped bars would end a cell.
        rows = sorted(reasons.items(), key=lambda row: (-row[1], row[0]))
        text += [f"| {count} | {why.replace('|', chr(92) + '|')} |" for why, count in rows]
    else:
        text += ["None."]
    text += ["", "## By operator", ""]
    if partial:
        text += [*table("operator", partial), ""]
    others = f"All cases pass of {len(complete)} others: {', '.join(complete) or 'none'}."
    text += textwrap.wrap(others, 118, break_on_hyphens=False)
    return "\n".join(text) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lessen", help="use this lessen and build none")
    parser.add_argument("--filter", metavar="PART", help="run cases whose names have this part")
    parser.add_argument("--kinds", help=f"of {', '.join(onnx_cases.KINDS)}, light")
    parser.add_argument("--jobs", type=int, default=2, help="processes at once")
    parser.add_argument("--verbose", action="store_true", help="say what came of each case that does not pass")
    parser.add_argument("--write", metavar="FILE", help="also write the results as Markdown")
    args = parser.parse_args()
    lessen = os.path.abspath(args.lessen) if args.lessen else step.build_lessen()
    with tempfile.TemporaryDirectory() as work:
        chosen = [
            case
            for case in onnx_cases.cases(work)
            if (not args.filter or args.filter in case.name) and (not args.kinds or case.kind in args.kinds.split(","))
        ]
        if not chosen:
            sys.exit("onnx_suite: no case is called so")
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            outcomes = list(pool.map(lambda case: run(lessen, case, work), chosen))
    results = dict(zip(chosen, outcomes))
    if args.verbose:
        for case, (outcome, why) in results.items():
            if outcome != "pass":
                print(f"{outcome:8}{case.name}: {why}")
    text = page(results, args)
    if args.write:
        step.write_aside(args.write, text)
    if args.verbose:
        count = collections.Counter(outcome for outcome, _ in outcomes)
        print(", ".join(f"{count[each]} {each}" for each in OUTCOMES))
    else:
        print(text)
    sys.exit(1 if any(outcome in ("wrong", "failure") for outcome, _ in outcomes) else 0)


if __name__ == "__main__":
    main()
