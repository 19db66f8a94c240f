"""Trainings that processes of torch.distributed share."""

import json
import subprocess
import sys
import time

import lessen
import pytest
from conftest import LINEAR, TINY, command, folder_bytes, mails

pytest.importorskip("torch")

SUMS = {**TINY, "train_batch": 8, "threads": 1, "seed": 3}

BEGIN = f"""
import json, os, signal, subprocess
import lessen
import torch.distributed as dist

dist.init_process_group("gloo")
rank, group = dist.get_rank(), dist.group.WORLD
sums = {SUMS!r}


def tell(**told):
    with open(f"told-{{rank}}.json", "w") as file:
        json.dump(told, file)
"""


def together(place, program, processes=2, succeeds=True):
    """Runs a program in processes of torchrun; what each of them told."""
    (place / "program.py").write_text(BEGIN + program)
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", "program.py"]
    done = subprocess.run(run, cwd=place, capture_output=True, text=True, timeout=120)
    assert (done.returncode == 0) == succeeds, done.stderr
    told = [place / f"told-{rank}.json" for rank in range(processes)]
    return [json.loads(path.read_text()) if path.exists() else None for path in told]


def test_two_processes_write_the_bytes_of_one(tmp_path):
    told = together(
        tmp_path,
        """
numbers = []

class Losses:
    def on_step_end(self, step, found):
        numbers.append(found["loss"])

run = lessen.train("adder", out="shared", steps=4, group=group, callbacks=[Losses()], **sums)
tell(loss=run.loss, folder=run.folder, numbers=numbers)
""",
    )
    assert told[0] == told[1] and told[0]["folder"] == "shared" and len(told[0]["numbers"]) > 1
    run = lessen.train("adder", out="alone", steps=4, train_ranks=2, **SUMS)
    assert run.loss == told[0]["loss"]
    shared, alone = folder_bytes("shared"), folder_bytes("alone")
    assert shared.keys() == alone.keys() and len(alone) > 3
    assert [name for name in alone if alone[name] != shared[name]] == []

    command("train", "--resume", "--out", "shared", "--steps", 6, "--threads", 1, "--quiet")
    lessen.Trainer("adder", out="alone", **SUMS).resume(steps=6)
    shared, alone = folder_bytes("shared"), folder_bytes("alone")
    assert [name for name in alone if alone[name] != shared[name]] == []


def test_parameters_in_pieces_write_the_same_bytes(tmp_path):
    wide = {**SUMS, "model_width": 128}
    told = together(
        tmp_path,
        f"""
run = lessen.train("adder", out="pieces", steps=4, group=group, train_shard_parameters=True, **{wide!r})
tell(loss=run.loss)
""",
    )
    run = lessen.train("adder", out="whole", steps=4, train_ranks=2, **wide)
    assert told == [{"loss": run.loss}] * 2
    pieces, whole = (folder_bytes(name) for name in ("pieces", "whole"))
    assert pieces["model/model.safetensors"] == whole["model/model.safetensors"]


def test_a_trainer_goes_on_and_data_may_be_in_memory(tmp_path):
    texts, labels = mails()
    told = together(
        tmp_path,
        f"""
trainer = lessen.Trainer({LINEAR!r}, {(texts, labels)!r}, out="shared", threads=1, group=group)
first = trainer.fit()
second = trainer.resume(train_epochs=6)
own = lessen.Trainer({LINEAR!r}, ({texts!r}[rank:], {labels!r}[rank:]), out="other", threads=1, group=group)
try:
    own.fit()
except lessen.Error as error:
    tell(steps=[first.steps, second.steps], loss=second.loss, refused=str(error))
""",
    )
    # The process that is told of the mistake first may end the run before the other one has its answer.
    assert all("the digest of the data of rank 1 is" in own.pop("refused") for own in told)
    assert told[0] == told[1] and told[0]["steps"][0] < told[0]["steps"][1]
    alone = lessen.Trainer(LINEAR, (texts, labels), out="alone", threads=1, train_ranks=2)
    alone.fit()
    assert alone.resume(train_epochs=6).loss == told[0]["loss"]


def test_each_process_gives_a_batch_to_a_step(tmp_path):
    texts, labels = mails(16)
    recipe = {key: value for key, value in LINEAR.items() if key != "train.epochs"} | {"train.steps": 6}
    told = together(
        tmp_path,
        f"""
texts, labels = {texts!r}, {labels!r}
data = {{"train": (texts, labels), "dev": (texts, labels)}}
trainer = lessen.Trainer({recipe!r}, data, out="shared", threads=1, group=group)
numbers = [trainer.step((texts[2 * at + rank :: 4][:2], labels[2 * at + rank :: 4][:2])) for at in range(2)]
refused = []
for label, asks in (("eggs" if rank else "ham", False), ("ham", rank == 1)):
    try:
        trainer.evaluate() if asks else trainer.step((["see you"], [label]))
    except lessen.Error as error:
        refused.append(str(error))
numbers.append(trainer.step((texts[rank:3], labels[rank:3])))
tell(numbers=numbers, refused=refused, scores=trainer.evaluate(), steps=trainer.pause().steps, all=trainer.resume().steps)
""",
    )
    assert told[0] == told[1]
    assert [numbers["step"] for numbers in told[0]["numbers"]] == [1, 2, 3]
    assert (told[0]["steps"], told[0]["all"]) == (3, 6)
    wrong, other = told[0]["refused"]
    assert "eggs" in wrong and wrong.endswith("(rank 1 of 2)")
    assert other == "rank 1 asks for an evaluation where rank 0 asks for a step; let every process ask for the same"
    alone = lessen.Trainer(recipe, {"train": (texts, labels), "dev": (texts, labels)}, out="alone", threads=1)
    for at, numbers in enumerate(told[0]["numbers"]):
        rows = [range(2 * at + rank, 16, 4)[:2] if at < 2 else range(rank, 3) for rank in range(2)]
        rows = [row for own in rows for row in own]
        batch = [texts[row] for row in rows], [labels[row] for row in rows]
        assert alone.step(batch)["loss"] == pytest.approx(numbers["loss"], rel=1e-5)


def test_a_mistake_of_one_process_is_the_same_sentence_on_all(tmp_path):
    told = together(
        tmp_path,
        """
told = []
for wrong in ({"train_batch": 8 + 8 * rank}, {"train_lr": "much" if rank else 0.1}, {"train_batch": 9}):
    try:
        lessen.train("adder", out="shared", steps=2, group=group, **{**sums, **wrong})
    except lessen.Error as error:
        told.append(str(error))
run = lessen.train("adder", out="shared", steps=2, group=group, **sums)
tell(told=told, steps=run.steps)
""",
    )
    for own in told:
        # The process that is told of the mistake first may end the run before the other one has its answer.
        other, wrong, uncut = own["told"]
        assert "rank 1 and rank 0 have other settings" in other
        assert "much" in wrong
        assert "a batch of train.batch = 9 examples cannot be cut for train.ranks = 2" in uncut
        assert own["steps"] == 2


@pytest.mark.parametrize("how", ["SIGKILL", "SIGSTOP"])
def test_a_process_that_is_gone_is_named(tmp_path, how):
    begun = time.monotonic()
    told = together(
        tmp_path,
        f"""
class Gone:
    def on_step_end(self, step, numbers):
        if rank == 1 and step >= 3:
            subprocess.Popen(["sh", "-c", f"sleep 4; kill -9 {{os.getpid()}}"])
            os.kill(os.getpid(), signal.{how})

signal.signal(signal.SIGTERM, signal.SIG_IGN)
try:
    lessen.train("adder", out="shared", steps=100000, group=group, deadline=2, callbacks=[Gone()], **sums)
except lessen.Error as error:
    tell(error=str(error))
    raise
""",
        succeeds=False,
    )
    said = {"SIGKILL": "the connection to rank 1 of 2 has broken", "SIGSTOP": "rank 1 of 2 has not answered for 2 s"}
    assert said[how] in told[0]["error"] and told[0]["error"].startswith("step "), told
    assert time.monotonic() - begun < 60


def test_what_is_no_group_is_refused(monkeypatch):
    with pytest.raises(lessen.ArgumentError, match="group is a int; give one of torch.distributed"):
        lessen.train("adder", group=3)
    with pytest.raises(lessen.ArgumentError, match="deadline is for processes"):
        lessen.train("adder", deadline=3)
    # What torch.distributed.group.WORLD is before init_process_group, in one of two processes.
    monkeypatch.setenv("WORLD_SIZE", "2")
    for recipe in ("adder", None):
        with pytest.raises(lessen.ArgumentError, match="group is None, as .* is before init_process_group"):
            lessen.train(recipe, group=None)
