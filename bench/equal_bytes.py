#!/usr/bin/env python3
"""Trainings of one process and of several: whether they write the same bytes.

    python3 bench/equal_bytes.py [--mpiexec FILE]... [--torchrun] [--processes 2,3,4,8] [--steps 50]
                                 [--cases adamw,8bit,...] [--lessen FILE]

Each case is a recipe with `train.ranks = 8`. One process trains it, then each number of processes trains it under each
launcher of MPI and, with --torchrun, under torchrun over gloo. Under MPI a training of four processes also stops after
two fifths of the steps, and three go on with it. Compared are the saved model and the states of the newest checkpoint.
Ends with exit code 1 where any byte differs. torchrun and Lessen's package are those of $PYTHON or, where that is not
set, of the Python that runs this file.
"""

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

import step

RANKS, BEFORE, AFTER = 8, 4, 3
GPT = ["model.layers=2", "model.width=128", "model.heads=4", "model.ffn=512", "model.dropout=0.1", "train.batch=48",
       "train.clip_norm=0.5"]
IMAGES = ["train.batch=24", "model.kind=resnet20"]
CASES = {
    "adamw": ("adder", GPT),
    "8bit": ("adder", [*GPT, "optimizer.kind=adamw_8bit", "optimizer.placement=separate", "train.accumulate=16"]),
    "adafactor": ("adder", [*GPT, "optimizer.kind=adafactor", "train.ema=0.9"]),
    "forward-fused": ("adder", [*GPT, "optimizer.placement=forward-fused"]),
    "pieces": ("adder", [*GPT, "train.shard_parameters=true"]),
    "pieces-fused": ("adder", [*GPT, "train.shard_parameters=true", "optimizer.placement=forward-fused",
                               "train.accumulate=16"]),
    "unpadded": ("thucnews", ["model.dropout=0.1", "train.tokens=256", "train.accumulate=8", "train.clip_norm=0.5"]),
    "batch-norm": ("cifar10", IMAGES),
    "synchronized": ("cifar10", [*IMAGES, "model.batch_norm=synchronized"]),
}
SHARED = """
import sys
import lessen
import torch.distributed as dist
dist.init_process_group("gloo")
recipe, out, steps, *keys = sys.argv[1:]
settings = dict(key.split("=", 1) for key in keys)
lessen.train(recipe, out=out, steps=int(steps), threads=1, group=dist.group.WORLD, **settings)
dist.destroy_process_group()
"""


def data_in(place):
    """Titles of two words with labels, and images of two classes as CIFAR-10 has them."""
    chance = random.Random(5)
    titles, images = os.path.join(place, "titles"), os.path.join(place, "images")
    os.makedirs(titles)
    os.makedirs(images)
    words = ["sun", "rain", "snow", "wind", "cloud", "frost", "storm", "mild"]
    for name, count in [("train.txt", 1000), ("dev.txt", 100)]:
        with open(os.path.join(titles, name), "w") as file:
            for _ in range(count):
                label = chance.randrange(2)
                title = " ".join(chance.choices(words[label::2], k=chance.randint(1, 5)))
                file.write(f"{title}\t{['even', 'odd'][label]}\n")
    with open(os.path.join(titles, "class.txt"), "w") as file:
        file.write("even\nodd\n")
    for name, count in [("train.bin", 400), ("test.bin", 40)]:
        with open(os.path.join(images, name), "wb") as file:
            for _ in range(count):
                label = chance.randrange(10)
                file.write(bytes([label]) + bytes(min(255, 20 * label + chance.randrange(60)) for _ in range(3072)))
    return {"thucnews": [f"--data={titles}"], "cifar10": [f"--data={images}"], "adder": []}


def written(out):
    """The bytes of the saved model, and of the states of the newest checkpoint."""
    folder = os.path.join(out, "checkpoints")
    newest = max(os.listdir(folder), key=lambda name: int(re.search(r"\d+", name)[0]))
    found = []
    for path in [os.path.join(out, "model", "model.safetensors"), os.path.join(folder, newest, "training.safetensors")]:
        with open(path, "rb") as file:
            found.append(file.read())
    return found


def launcher_of(mpiexec):
    """The words that begin processes of a launcher of MPI."""
    told = subprocess.run([mpiexec, "--version"], capture_output=True, text=True).stdout
    return [mpiexec, *(["--allow-run-as-root", "--oversubscribe"] if "Open" in told else [])]


class Case:
    def __init__(self, lessen, name, data, steps):
        self.recipe, keys = CASES[name]
        self.lessen, self.data, self.steps = lessen, data[self.recipe], steps
        self.keys = [*keys, f"train.ranks={RANKS}", "train.schedule=constant", "train.warmup=0", "train.eval_every=0",
                     f"train.checkpoint_every={steps}"]

    def train(self, out, steps, under=()):
        command = [*under, self.lessen, "train", self.recipe, *self.data, f"--out={out}", f"--steps={steps}"]
        step.output_of([*command, "--threads=1", "--quiet", *[f"--set={key}" for key in self.keys]], "lessen train")

    def resume(self, out, under):
        command = [*under, self.lessen, "train", "--resume", f"--out={out}", f"--steps={self.steps}"]
        step.output_of([*command, "--threads=1", "--quiet"], "lessen train --resume")

    def torchrun(self, out, processes, program):
        python = os.environ.get("PYTHON", sys.executable)
        run = [python, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", program]
        keys = [key.replace(".", "_", 1) for key in self.keys] + [path[2:] for path in self.data]
        step.output_of([*run, self.recipe, out, str(self.steps), *keys], "torchrun")


def compared(case, args, place):
    """What was compared, and whether the bytes were equal."""
    program, out = os.path.join(place, "shared.py"), os.path.join(place, "out")
    with open(program, "w") as file:
        file.write(SHARED)
    case.train(out, case.steps)
    expected = written(out)
    shutil.rmtree(out)

    def same(what):
        equal = written(out) == expected
        shutil.rmtree(out)
        return what, equal

    for mpiexec in args.mpiexec:
        launcher = launcher_of(mpiexec)
        for processes in args.processes:
            case.train(out, case.steps, [*launcher, "-n", str(processes)])
            yield same(f"{processes} processes of {mpiexec}")
        case.train(out, case.steps * 2 // 5, [*launcher, "-n", str(BEFORE)])
        case.resume(out, [*launcher, "-n", str(AFTER)])
        yield same(f"{BEFORE}, then {AFTER} processes of {mpiexec}")
    for processes in args.processes if args.torchrun else []:
        case.torchrun(out, processes, program)
        yield same(f"{processes} processes of torchrun")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mpiexec", action="append", default=[], help="a launcher of MPI; may be given again")
    parser.add_argument("--torchrun", action="store_true", help="also train under torchrun over gloo")
    parser.add_argument("--processes", default="2,3,4,8")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--lessen", help="use this lessen and build none")
    args = parser.parse_args()
    args.processes = [int(number) for number in args.processes.split(",")]
    lessen = os.path.abspath(args.lessen) if args.lessen else step.build_lessen()
    runs, different = 0, 0
    with tempfile.TemporaryDirectory() as place:
        data = data_in(place)
        for name in args.cases.split(","):
            for what, equal in compared(Case(lessen, name, data, args.steps), args, place):
                runs, different = runs + 1, different + (not equal)
                print(f"{name}: {what}: {'equal' if equal else 'OTHER BYTES'}", flush=True)
    print(f"{runs} trainings of {args.steps} steps: {different} with other bytes than one process")
    return int(different > 0)


if __name__ == "__main__":
    sys.exit(main())
