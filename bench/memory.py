#!/usr/bin/env python3
"""The memory of whole runs: what Lessen announces, what is counted, and by how much the process grows.

    python3 bench/memory.py [--runs thucnews,cola,base] [--data data] [--write FILE]

Each run trains, evaluates and saves checkpoints, and a second process resumes it and trains on. A run of BERT-base's size
then goes from its start to the saved model in a process that cannot have more than 1.9 GiB: in a control group of its own
where one can be made, or else with that limit of its data, which also counts what is not resident.

Jobs and random first weights are those of bench/finetune.py, which are made by $PYTHON or the Python that runs this file.
"""

import argparse
import datetime
import json
import os
import resource
import shutil
import subprocess
import sys

import finetune
import step

RUNS = {
    "thucnews": "recipe `thucnews`: encoder, 2 layers x 128, batch 128",
    "cola": "CoLA with BERT of MiniLM's size (6 x 384, 12 heads, vocabulary 30,522), batch 32",
    "base": "THUCNews titles with BERT-base (vocabulary 21,128), batch 32, at most 32 tokens, clipping 1.0",
}
# Steps of the first process and of both, and after how many steps there are an evaluation and a checkpoint.
STEPS = {"thucnews": (200, 300, 50), "cola": (60, 90, 20), "base": (12, 18, 6)}
MIB = 1 << 20
LIMIT = 19 * (1 << 30) // 10


def arguments_of(name, data, prepared):
    if name == "thucnews":
        return ["thucnews", "--data", os.path.join(data, "thucnews")]
    return prepared[{"cola": "cola", "base": "thucnews"}[name]][2]


def settings_of(name, steps):
    every = STEPS[name][2]
    given = [f"train.steps={steps}", f"train.eval_every={every}", f"train.checkpoint_every={every}"]
    return [word for setting in given for word in ("--set", setting)]


def said(command, threads, before=None):
    """What a command prints as JSON. `before` runs in its process first."""
    environment = dict(os.environ, LESSEN_THREADS=str(threads))
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, cwd=step.ROOT, preexec_fn=before
    )
    if done.returncode != 0:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no message"]
        sys.exit(f"memory: {' '.join(command)} ended with {done.returncode}: {last[0]}")
    return json.loads(done.stdout)


def sessions_of(name, lessen, arguments, work, threads):
    """The figures of both processes of a run: what `lessen plan` says, and what the report has of the process."""
    out = os.path.join(work, f"memory-{name}")
    shutil.rmtree(out, ignore_errors=True)
    first, both, _ = STEPS[name]
    planned = said([lessen, "plan", *arguments, *settings_of(name, first), "--json"], threads)["peak_bytes"]
    found = []
    print(f"{name}: {first} steps ...", file=sys.stderr, flush=True)
    trained = said([lessen, "train", *arguments, *settings_of(name, first), "--out", out, "--json"], threads)
    found.append({"what": f"training, steps 1 to {first}", "plan": planned, **trained["session_bytes"]})
    found[-1]["parts"] = trained["account_bytes"]
    print(f"{name}: resumed to {both} steps ...", file=sys.stderr, flush=True)
    resumed = said([lessen, "train", "--resume", "--out", out, "--steps", str(both), "--json"], threads)
    found.append({"what": f"resumed, steps {first + 1} to {both}", "plan": None, **resumed["session_bytes"]})
    found[-1]["parts"] = resumed["account_bytes"]
    shutil.rmtree(out)
    return found


class Limit:
    """A limit of memory for a process: a control group where one can be made, else a limit of its data."""

    def __init__(self, most):
        self.most, self.group, self.version = most, None, None
        for version, root, file in [
            (2, "/sys/fs/cgroup", "memory.max"),
            (1, "/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        ]:
            group = os.path.join(root, f"lessen-bench-{os.getpid()}")
            try:
                os.mkdir(group)
            except OSError:
                continue
            try:
                # In a file system that is none of control groups, the folder stays empty.
                with open(os.path.join(group, file), "r+", encoding="ascii") as limit:
                    limit.write(str(most))
                self.group, self.version = group, version
                return
            except OSError:
                os.rmdir(group)

    def enter(self):
        """Puts the process that calls this under the limit."""
        if self.group is None:
            resource.setrlimit(resource.RLIMIT_DATA, (self.most, self.most))
            return
        with open(os.path.join(self.group, "cgroup.procs"), "w", encoding="ascii") as processes:
            processes.write(str(os.getpid()))

    def __str__(self):
        if self.group is None:
            return "a limit of its data (`RLIMIT_DATA`)"
        return f"a control group (version {self.version})"

    def remove(self):
        if self.group is not None:
            os.rmdir(self.group)


def limited_run(lessen, arguments, work, threads):
    """The BERT-base run under the limit: how it was limited, and the figures of its process."""
    out = os.path.join(work, "memory-limited")
    shutil.rmtree(out, ignore_errors=True)
    limit = Limit(LIMIT)
    print(f"base, in {limit} of {LIMIT / 2**30:.1f} GiB ...", file=sys.stderr, flush=True)
    command = [lessen, "train", *arguments, *settings_of("base", STEPS["base"][0]), "--out", out, "--json"]
    try:
        report = said(command, threads, limit.enter)
    finally:
        limit.remove()
    saved = sorted(os.listdir(os.path.join(out, "checkpoints")), key=lambda name: int(name.split("-")[-1]))
    if not saved or not os.path.exists(os.path.join(out, "model", "model.safetensors")):
        sys.exit("memory: the run under the limit has saved no checkpoint")
    shutil.rmtree(out)
    return {"limit": str(limit), "saved": saved[-1], **report["session_bytes"]}


def is_counted(planned, measured):
    return measured <= planned <= measured + MIB


def is_resident(planned, resident):
    return resident <= planned + planned // 20 + 24 * MIB


def mib(value):
    return "" if value is None else f"{value / MIB:,.1f}"


def word(holds):
    return "yes" if holds else "**NO**"


def rows(found):
    for session in found:
        planned, measured, resident = (session[key] for key in ("planned", "measured", "resident"))
        yield (
            session["what"],
            mib(session["plan"]),
            mib(planned),
            mib(measured),
            word(is_counted(planned, measured)),
            mib(resident),
            mib(planned + planned // 20 + 24 * MIB),
            word(is_resident(planned, resident)),
        )


HEADS = (
    "process",
    "`lessen plan`",
    "planned",
    "counted",
    "at most planned, within 1 MiB",
    "resident growth",
    "at most",
    "holds",
)


def failures(results, limited):
    lines = []
    for name, found in results.items():
        for session in found:
            planned, measured, resident = (session[key] for key in ("planned", "measured", "resident"))
            if not is_counted(planned, measured):
                lines.append(f"{name}, {session['what']}: {mib(measured)} MiB counted, {mib(planned)} planned")
            if not is_resident(planned, resident):
                lines.append(f"{name}, {session['what']}: {mib(resident)} MiB resident, {mib(planned)} planned")
    if limited and limited["resident"] > LIMIT:
        lines.append(f"base under the limit: {mib(limited['resident'])} MiB resident")
    return lines


def markdown(results, limited, args, python):
    runs = ",".join(results)
    text = [
        "# The memory of whole runs",
        "",
        "Written by `bench/memory.py`, which anyone can run again:",
        "",
        "```",
        f"python3 bench/memory.py --runs {runs} --threads {args.threads}",
        "```",
        "",
        f"- Date: {datetime.date.today().isoformat()}",
        f"- Machine: {step.machine()}; {args.threads} threads",
        f"- Versions: {step.versions(python)}",
        "- Each run trains with evaluations and checkpoints in between, and a second process resumes it. All figures are of"
        " one process, in MiB",
        "- Planned is what the process announces before its first step: data, tokenizer, parameters, optimizer state, arena,"
        " programs of all layouts of batches, batches that wait, what compiling and saving take for a moment. `lessen plan`"
        " says it without running",
        "- Counted is the most that the allocator had given out at once; resident growth is the highest resident size less"
        " that at the start. Required: counted at most planned and within 1 MiB, resident at most planned + 5 % + 24 MiB",
    ]
    missed = failures(results, limited)
    text += [f"- Not met: {line}" for line in missed] or ["- All requirements are met"]
    for name, found in results.items():
        text += ["", f"## {RUNS[name]}", "", f"Evaluations and checkpoints every {STEPS[name][2]} steps.", ""]
        text += [f"| {' | '.join(HEADS)} |", "|---" * len(HEADS) + "|"]
        text += [f"| {' | '.join(row)} |" for row in rows(found)]
        parts = found[0]["parts"]
        named = ", ".join(f"{part} {mib(size)}" for part, size in parts.items() if size is not None)
        text += ["", f"The plan of the first process in MiB: {named}."]
    if limited:
        text += [
            "",
            f"## BERT-base within {LIMIT / 2**30:.1f} GiB",
            "",
            f"The same run of {STEPS['base'][0]} steps, from its start over evaluations to the checkpoint"
            f" `{limited['saved']}` and the saved model, in {limited['limit']} of {mib(LIMIT)} MiB: planned"
            f" {mib(limited['planned'])}, counted {mib(limited['measured'])}, resident growth {mib(limited['resident'])} MiB.",
        ]
    return "\n".join(text) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", default=",".join(RUNS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--data", default=os.path.join(step.ROOT, "data"))
    parser.add_argument("--work", default=os.path.join(step.ROOT, "target", "finetune"))
    parser.add_argument("--lessen", help="use this lessen and build none")
    parser.add_argument("--write", metavar="FILE", help="also write the results as Markdown")
    args = parser.parse_args()
    names = args.runs.split(",")
    for name in names:
        if name not in RUNS:
            sys.exit(f"memory: there is no run {name!r}; take from {', '.join(RUNS)}")
    python = os.environ.get("PYTHON", sys.executable)
    lessen = os.path.abspath(args.lessen) if args.lessen else step.build_lessen()
    data, work = os.path.abspath(args.data), os.path.abspath(args.work)
    jobs = [job for name, job in (("cola", "cola"), ("base", "thucnews")) if name in names]
    prepared = finetune.prepare_all(jobs, data, work, python)

    os.makedirs(work, exist_ok=True)
    arguments = {name: arguments_of(name, data, prepared) for name in names}
    results = {name: sessions_of(name, lessen, arguments[name], work, args.threads) for name in names}
    limited = limited_run(lessen, arguments["base"], work, args.threads) if "base" in names else None
    text = markdown(results, limited, args, python)
    print(text)
    if args.write:
        step.write_aside(args.write, text)
    if failures(results, limited):
        sys.exit("memory: not all requirements are met")


if __name__ == "__main__":
    main()
