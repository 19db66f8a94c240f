#!/usr/bin/env python3
"""Faults of trainings that several processes share: kills, stopped processes, a cut link, a full disk, another version.

    python3 bench/process_faults.py [--kills 100] [--stops 20] [--links 3] [--mpiexec FILE] [--lessen FILE]
                                    [--write FILE]

A training of the recipe `adder` with six groups of micro-batches is begun again and again with one to four processes
under MPI and killed at a random time, until it ends; its model is then compared with that of one process that nobody
stopped, byte by byte. Stopped processes, with SIGSTOP, are found by a deadline of 4 s. The link is a pair of virtual
network devices between two namespaces, over which two processes of torchrun train, and which is set down. The disk is a
file system of 24 MiB in memory that is filled. The other version is a copy of the command in which its version is
another one. Link and disk need the rights to make them. $PYTHON, or the Python that runs this file, has PyTorch and
Lessen's package.
"""

import argparse
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import step

KEYS = ["train.ranks=6", "train.batch=96", "train.clip_norm=0.5", "train.checkpoint_every=10", "model.dropout=0.1"]
STEPS, DEADLINE, REPLY = 240, 4, 5
SEED = 7


def train(args, out, processes, *more):
    """The command of a training, or of one that goes on."""
    run = [args.mpiexec, "-n", str(processes), args.lessen, "train"]
    if os.path.isdir(out):
        run += ["--resume"]
    else:
        run += ["adder", f"--steps={STEPS}", *[f"--set={key}" for key in KEYS]]
    return [*run, f"--out={out}", "--threads=1", *more]


def begun(run, **more):
    return subprocess.Popen(run, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **more)


def processes_of(out):
    """The processes that train into a folder, in the order of their ranks."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline") as file:
                words = file.read().split("\0")
            if words[1:2] == ["train"] and f"--out={out}" in words:
                with open(f"/proc/{pid}/environ") as file:
                    rank = re.search(r"PMI_RANK=(\d+)|OMPI_COMM_WORLD_RANK=(\d+)", file.read())
                found.append((int(rank[1] or rank[2]) if rank else 0, int(pid)))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return [pid for _, pid in sorted(found)]


def model_of(out):
    with open(os.path.join(out, "model", "model.safetensors"), "rb") as file:
        return file.read()


def reference(args, place):
    out = os.path.join(place, "whole")
    step.output_of([args.lessen, "train", "adder", f"--steps={STEPS}", f"--out={out}", "--threads=1", "--quiet"]
                   + [f"--set={key}" for key in KEYS], "lessen train")
    return model_of(out)


def steps_done(out):
    folder = os.path.join(out, "checkpoints")
    numbers = [re.fullmatch(r"step-(\d+)", name) for name in os.listdir(folder)] if os.path.isdir(folder) else []
    return max((int(number[1]) for number in numbers if number), default=0)


def kills(args, place, chance):
    """Kills of random processes, each followed by another number of them, until the training ends."""
    expected, done, trainings, lost, codes = reference(args, place), 0, 0, 0, {}
    longest = 0.0
    while done < args.kills:
        out, before = os.path.join(place, f"killed-{trainings}"), 0
        while True:
            run = begun(train(args, out, chance.randint(1, 4), "--quiet"))
            kills_it = done < args.kills
            if kills_it:
                time.sleep(chance.uniform(0.5, 3.0))
                own = processes_of(out)
                if own and run.poll() is None:
                    killed = time.monotonic()
                    os.kill(chance.choice(own), signal.SIGKILL)
                    done += 1
                    run.wait()
                    longest = max(longest, time.monotonic() - killed)
            run.communicate()
            codes[run.returncode] = codes.get(run.returncode, 0) + 1
            lost += steps_done(out) < before
            before = steps_done(out)
            if run.returncode == 0 or not kills_it:
                break
        if run.returncode == 0:
            lost += model_of(out) != expected
            trainings += 1
        else:
            raise SystemExit(f"a training does not go on: {out}")
    told = ", ".join(f"{code} ({count})" for code, count in sorted(codes.items()))
    yield f"{done} kills of a random process", f"{trainings} trainings ended, {lost} with lost steps or other bytes", (
        f"all processes had ended after at most {longest:.1f} s; exit codes of the launcher: {told}"
    )


def stops(args, place, chance):
    """Processes that are stopped: the others end within the deadline and name them."""
    named, longest, sentence = 0, 0.0, ""
    for number in range(args.stops):
        out = os.path.join(place, f"stopped-{number}")
        run = begun(train(args, out, 3, f"--deadline={DEADLINE}", "--quiet"))
        while steps_done(out) < 10:
            time.sleep(0.05)
        own = processes_of(out)
        rank = chance.randrange(len(own))
        os.kill(own[rank], signal.SIGSTOP)
        begin = time.monotonic()
        # The launcher waits for the stopped process, so its end is that of the others.
        while any(is_running(pid) for at, pid in enumerate(own) if at != rank):
            time.sleep(0.05)
            if time.monotonic() - begin > 60:
                break
        longest = max(longest, time.monotonic() - begin)
        for pid in own:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        told = run.communicate()[1]
        if f"rank {rank}" in told:
            named, sentence = named + 1, next(line for line in told.splitlines() if f"rank {rank}" in line)
    limit = DEADLINE + REPLY
    yield f"{args.stops} stopped processes (SIGSTOP), a deadline of {DEADLINE} s", f"{named} named", (
        f"the others had ended after at most {longest:.1f} s of {limit}: `{sentence.strip()}`"
    )


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


PROGRAM = """
import sys
import lessen
import torch.distributed as dist

dist.init_process_group("gloo")
sums = dict(train_batch=96, train_ranks=2, train_checkpoint_every=10, threads=1)
try:
    lessen.train("adder", out=sys.argv[1], steps=5000, group=dist.group.WORLD, deadline=4, **sums)
except lessen.Error as error:
    print("told:", error, flush=True)
    raise SystemExit(2)
"""


def links(args, place, _chance):
    """A link that is cut: both processes end within the deadline and name each other."""
    space, near, far = "lessen-faults", "lsn0", "lsn1"
    commands = [
        f"ip netns add {space}",
        f"ip link add {near} type veth peer name {far}",
        f"ip link set {far} netns {space}",
        f"ip addr add 10.77.7.1/24 dev {near}",
        f"ip netns exec {space} ip addr add 10.77.7.2/24 dev {far}",
        f"ip netns exec {space} ip link set {far} up",
        f"ip netns exec {space} ip link set lo up",
    ]
    program = os.path.join(place, "program.py")
    with open(program, "w") as file:
        file.write(PROGRAM)
    python = os.environ.get("PYTHON", sys.executable)
    named, longest, sentence = 0, 0.0, ""
    try:
        for command in commands:
            subprocess.run(command.split(), check=True)
        for number in range(args.links):
            subprocess.run(f"ip link set {near} up".split(), check=True)
            out = os.path.join(place, f"cut-{number}")
            ranks = []
            for rank, device, words in ((0, near, []), (1, far, ["ip", "netns", "exec", space])):
                run = [*words, python, "-m", "torch.distributed.run", "--nnodes=2", f"--node-rank={rank}"]
                run += ["--nproc-per-node=1", "--master-addr=10.77.7.1", f"--master-port={29600 + number}", program, out]
                ranks.append(subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                              env={**os.environ, "GLOO_SOCKET_IFNAME": device}))
            while steps_done(out) < 10:
                time.sleep(0.05)
            subprocess.run(f"ip link set {near} down".split(), check=True)
            begin, told = time.monotonic(), []
            for rank in ranks:
                told.append(next((line for line in rank.stdout if line.startswith("told:")), ""))
                longest = max(longest, time.monotonic() - begin)
            both = all(f"rank {1 - rank}" in line for rank, line in enumerate(told))
            named, sentence = named + both, told[0].removeprefix("told:").strip()
            for rank in ranks:
                rank.kill()
                rank.communicate()
    finally:
        subprocess.run(["ip", "netns", "delete", space], stderr=subprocess.DEVNULL)
        subprocess.run(["ip", "link", "delete", near], stderr=subprocess.DEVNULL)
    yield f"{args.links} cut links between two processes of torchrun, a deadline of {DEADLINE} s", f"{named} named by both", (
        f"told after at most {longest:.1f} s: `{sentence}`"
    )


def disk(args, place, _chance):
    """A disk that is full: the training goes on without a checkpoint, and ends."""
    small = os.path.join(place, "disk")
    os.mkdir(small)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", small], check=True)
    try:
        out = os.path.join(small, "run")
        run = begun(train(args, out, 2, "--set=train.checkpoint_minutes=0"))
        while steps_done(out) < 10:
            time.sleep(0.05)
        try:
            with open(os.path.join(small, "fill"), "wb") as file:
                while True:
                    file.write(bytes(1 << 16))
        except OSError:
            pass
        time.sleep(2)
        os.remove(os.path.join(small, "fill"))
        told = run.communicate()[1]
        warning = next((line for line in told.splitlines() if "warning" in line), "")
        same = os.path.isdir(os.path.join(out, "model")) and model_of(out) == reference(args, place)
        yield "a full disk of rank 0, for 2 s", f"exit code {run.returncode}, {'the same' if same else 'other'} bytes", (
            f"`{warning.strip().replace(place, '…')}`"
        )
    finally:
        subprocess.run(["umount", small])


def version(args, place, _chance):
    """Another version of the command in one process."""
    with open(args.lessen, "rb") as file:
        code = file.read()
    number = re.search(rb'version = "([0-9.]+)"', open(os.path.join(step.ROOT, "Cargo.toml"), "rb").read())[1]
    other = number[:-1] + (b"9" if number[-1:] != b"9" else b"8")
    path = os.path.join(place, "other", "lessen")
    os.mkdir(os.path.dirname(path))
    with open(path, "wb") as file:
        file.write(code.replace(number, other))
    os.chmod(path, 0o755)
    words = ["train", "adder", "--steps=5", "--set=train.ranks=2", f"--out={os.path.join(place, 'versions')}"]
    run = begun([args.mpiexec, "-n", "1", args.lessen, *words, ":", "-n", "1", path, *words])
    told = run.communicate()[1]
    sentence = next((line for line in told.splitlines() if "version" in line), told[:200])
    yield "another version in rank 1", f"exit code {run.returncode}", f"`{sentence.strip()}`"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--stops", type=int, default=20)
    parser.add_argument("--links", type=int, default=3)
    parser.add_argument("--mpiexec", default="mpiexec", help="the launcher of MPI")
    parser.add_argument("--lessen", help="use this lessen and build none")
    parser.add_argument("--write", metavar="FILE", help="also write the results as Markdown")
    args = parser.parse_args()
    args.lessen = os.path.abspath(args.lessen) if args.lessen else step.build_lessen()
    chance = random.Random(SEED)
    rows = []
    for part in (version, disk, links, stops, kills):
        place = tempfile.mkdtemp()
        try:
            for row in part(args, place, chance):
                print(*row, sep=" | ", file=sys.stderr)
                rows.append(row)
        finally:
            shutil.rmtree(place, ignore_errors=True)
    command = f"python3 bench/process_faults.py --kills {args.kills} --stops {args.stops} --links {args.links}"
    text = ["# Faults of shared trainings", "", "Written by `bench/process_faults.py`, which anyone can run again:", ""]
    text += ["```", command, "```", "", f"- Machine: {step.machine()}", f"- Random numbers by the seed {SEED}", ""]
    text += ["| fault | result | what was seen |", "|---|---|---|"]
    text += [f"| {' | '.join(row)} |" for row in rows]
    step.publish("\n".join(text) + "\n", args.write)


if __name__ == "__main__":
    main()
