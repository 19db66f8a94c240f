#!/usr/bin/env python3
"""What `lessen convert` makes of files of PyTorch's exporters: a table, checked by ONNX Runtime.

    python3 bench/onnx_conversions.py [--models …] [--exporters …] [--opsets 12,…,23] [--work DIR] [--lessen FILE] [--write FILE]

Exports the models of bench/onnx_models.py in size `tiny`, converts each file to RMSNorm and to CRMSNorm, and runs original
and result in ONNX Runtime on the same random inputs. A row is a model and an exporter; its figures are the largest over the
opsets. Needs torch, transformers, onnx, onnxscript and onnxruntime.
"""

import argparse
import datetime
import json
import os
import re
import subprocess
import sys
import tempfile

import onnx_models
import step

NORMS = ("rmsnorm", "crmsnorm")


def outputs(path, x):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    own = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return own.run(None, {"x": x})[0]


def convert(lessen, path, to, norm):
    command = [lessen, "convert", path, "-o", to, "--norm", norm, "--json"]
    return json.loads(step.output_of(command, "lessen convert"))


def measure(lessen, folder, name, work):
    """For each norm the report and the difference in ONNX Runtime; None where that does not run the original."""
    path = os.path.join(folder, name)
    x = onnx_models.inputs(onnx_models.MODELS[name.split("-")[0]](*onnx_models.SIZES["tiny"])[1], 2)[0].numpy()
    try:
        expected = outputs(path, x)
    except Exception as error:  # ONNX Runtime has errors of its own.
        print(f"{name}: ONNX Runtime does not run it: {str(error).splitlines()[0][:150]}", file=sys.stderr)
        expected = None
    found = {}
    for norm in NORMS:
        to = os.path.join(work, f"{norm}-{name}")
        report = convert(lessen, path, to, norm)
        theirs = None
        if expected is not None:
            theirs = float(abs(outputs(to, x) - expected).max() / abs(expected).max())
        found[norm] = (report, theirs)
    return found


def rows(results):
    lines = ["| model, exporter | opsets | LayerNorms | converted | left | difference in f64 | as files | in ONNX Runtime |"]
    lines += ["|" + "---|" * 8]
    groups = {}
    for name, found in results.items():
        model, exporter, opset = re.match(r"(.+)-(.+)-(\d+)\.onnx", name).groups()
        groups.setdefault((model, exporter), []).append((int(opset), found))
    reasons = []
    for (model, exporter), files in groups.items():
        reports = [(report, theirs) for _, found in sorted(files) for report, theirs in found.values()]
        counts = {(report["found"], len(report["converted"]), len(report["left"])) for report, _ in reports}
        assert len(counts) == 1, f"{model}-{exporter}: the opsets differ: {counts}"
        worst = [max((report[key] or {"relative": float("nan")})["relative"] for report, _ in reports)
                 for key in ("difference_f64", "difference_files")]
        theirs = [difference for _, difference in reports if difference is not None]
        opsets = ", ".join(str(opset) for opset, _ in sorted(files))
        all_, converted, left = counts.pop()
        lines.append(f"| {model}, {exporter} | {opsets} | {all_} | {converted} | {left} | {worst[0]:.1e} | {worst[1]:.1e}"
                     f" | {max(theirs):.1e} |")
        for kept in reports[0][0]["left"]:
            reasons.append(f"- {model}, {exporter}: `{kept['norm']}`, since {kept['why']}")
    return lines + [""] + (["What is left, and why:", ""] + reasons if reasons else [])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=",".join(onnx_models.MODELS))
    parser.add_argument("--exporters", default="script,dynamo")
    parser.add_argument("--opsets", default="12,14,17,18,20,23")
    parser.add_argument("--work", help="folder for the files, which stay there; those that are there are not written again")
    parser.add_argument("--lessen", help="use this lessen and build none")
    parser.add_argument("--write", metavar="FILE", help="also write the results as Markdown")
    args = parser.parse_args()
    lessen = os.path.abspath(args.lessen) if args.lessen else step.build_lessen()
    with tempfile.TemporaryDirectory() as temporary:
        folder = os.path.join(args.work or temporary, "files")
        if not os.path.isdir(folder):
            script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "onnx_models.py")
            command = [sys.executable, script, folder, "--models", args.models, "--exporters", args.exporters]
            subprocess.run(command + ["--opsets", args.opsets], check=True, stdout=subprocess.DEVNULL)
        names = sorted(os.listdir(folder))
        results = {name: measure(lessen, folder, name, temporary) for name in names}
    import onnxruntime
    import torch
    import transformers

    text = ["# Conversions of exported files", "", "Written by `bench/onnx_conversions.py`, which anyone can run again:", ""]
    text += ["```", f"python3 bench/onnx_conversions.py --models {args.models} --exporters {args.exporters} --opsets {args.opsets}"]
    text += ["```", "", f"- Date: {datetime.date.today().isoformat()}", f"- Machine: {step.machine()}"]
    text += [f"- torch {torch.__version__}, transformers {transformers.__version__}, ONNX Runtime {onnxruntime.__version__}"]
    text += ["- Random weights whose means are far from zero; a difference is that of an output's element, over the output's"]
    text += ["  largest one, for RMSNorm and CRMSNorm, whichever is larger: of graphs whose parameters are computed in f64, of the"]
    text += ["  files evaluated in f64, and of the files in ONNX Runtime"]
    text += ["- An opset that is not there is one for which the exporter writes no valid file", ""]
    step.publish("\n".join(text + rows(results)) + "\n", args.write)


if __name__ == "__main__":
    main()
