"""Training."""

import json
import os
import signal
import subprocess
import sys

import lessen
import numpy as np
import pytest
from conftest import LINEAR, TINY, command, folder_bytes, mails

ADDER = {**TINY, "train_batch": 8}


def adder_flags():
    return [f"--set={name.replace('_', '.', 1)}={value}" for name, value in ADDER.items()]


def test_a_run_writes_the_folder_that_the_command_writes(tmp_path):
    lessen.train("adder", out=tmp_path / "python", steps=4, seed=3, threads=1, **ADDER)
    command("train", "adder", "--out", "command", "--steps", 4, "--seed", 3, "--threads", 1, "--quiet", *adder_flags())
    own, other = folder_bytes(tmp_path / "python"), folder_bytes(tmp_path / "command")
    assert own.keys() == other.keys() and len(own) > 3
    assert [name for name in own if own[name] != other[name]] == []


def test_data_in_memory_and_in_a_file_give_equal_models(tmp_path):
    texts, labels = mails()
    rows = "".join(f"{text},{label}\n" for text, label in zip(texts, labels))
    (tmp_path / "mails.csv").write_text("text,label\n" + rows)
    of_file = lessen.train(LINEAR, "mails.csv", out=tmp_path / "file", threads=1)
    forms = [
        (texts, labels),
        {"text": texts, "label": labels},
        [{"text": t, "label": y} for t, y in zip(texts, labels)],
    ]
    forms.append(list(zip(texts, labels)))
    forms.append(iter(list(zip(texts, labels))))
    for module in ("pandas", "polars"):
        try:
            forms.append(__import__(module).DataFrame({"text": texts, "label": labels}))
        except ImportError:
            pass
    expected = of_file.model().state_dict()
    for number, data in enumerate(forms):
        run = lessen.train(LINEAR, data, out=tmp_path / str(number), threads=1)
        found = run.model().state_dict()
        assert found.keys() == expected.keys()
        assert all(np.array_equal(found[name], expected[name]) for name in found), type(data)


def test_a_trainer_plans_fits_evaluates_saves_and_resumes(tmp_path):
    seen = []

    class Course:
        def on_step_end(self, step, numbers):
            seen.append((step, numbers["loss"]))

        def on_save(self, step, folder):
            assert os.path.isdir(folder)

    trainer = lessen.Trainer(LINEAR, mails(), out=tmp_path / "run", callbacks=[Course()], threads=1, train_steps=6)
    plan = trainer.plan()
    assert plan["feasible"] and plan["peak_bytes"] > 0 and plan.shortfall is None
    assert "<html" in plan.page.lower() and str(plan) == plan.text
    assert 0 < plan.own_bytes < plan["peak_bytes"] - plan["account_bytes"]["code"] + 1 and "of it Lessen's" in plan.text
    with pytest.raises(lessen.Error, match="nothing is trained yet"):
        trainer.evaluate()
    run = trainer.fit()
    assert run.steps == 6 and run.folder == str(tmp_path / "run")
    assert seen and all(np.isfinite(loss) for _, loss in seen)
    assert trainer.evaluate().keys() >= {"dev_loss", "dev_accuracy"}
    saved = trainer.save(tmp_path / "saved")
    found, own = lessen.load(saved).state_dict(), trainer.state_dict()
    assert found.keys() == own.keys()
    assert trainer.resume(train_steps=8).steps == 8
    assert trainer.model().predict("cheap offer now 1") in ("spam", "ham")


def test_a_callback_stops_a_run_which_then_resumes_to_the_same_bytes(tmp_path):
    class Stop:
        def on_step_end(self, step, numbers):
            return step >= 3

    whole = lessen.train("adder", out=tmp_path / "whole", steps=8, threads=1, **ADDER)
    trainer = lessen.Trainer("adder", out=tmp_path / "parts", steps=8, threads=1, callbacks=[Stop()], **ADDER)
    part = trainer.fit()
    assert part.interrupted and 3 <= part.steps < 8
    trainer._callbacks = []
    assert trainer.resume().steps == 8
    expected, found = whole.model().state_dict(), trainer.state_dict()
    assert all(np.array_equal(found[name], expected[name]) for name in expected)


INTERRUPTED = """
import lessen, sys
class Told:
    def on_step_end(self, step, numbers):
        print("step", step, flush=True)
try:
    lessen.train("adder", out="run", steps=100000, threads=1, train_batch=8, model_layers=1, model_width=16,
                 model_heads=2, model_ffn=32, callbacks=[Told()])
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_ends_after_the_step_with_a_checkpoint(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", INTERRUPTED], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline().startswith("step")
    process.send_signal(signal.SIGINT)
    said = process.stdout.read()
    assert process.wait(60) == 0 and said.endswith("interrupted\n"), said
    assert list((tmp_path / "run").rglob("*.safetensors"))
    assert lessen.load(tmp_path / "run").generate("1+1=", tokens=2, temperature=0) is not None


def test_mistakes_are_the_sentences_of_the_command(tmp_path):
    with pytest.raises(lessen.Error, match="there is no key 'train.learning'"):
        lessen.train("adder", out=tmp_path / "run", train_learning=1)
    with pytest.raises(lessen.Error, match="no-recipe"):
        lessen.train("no-recipe", out=tmp_path / "run")
    with pytest.raises(lessen.Error, match="unexpected argument '--stepz'"):
        lessen.train("adder", out=tmp_path / "run", stepz=1)
    with pytest.raises(lessen.Error, match="has no rows|is empty"):
        lessen.train(LINEAR, ([], []), out=tmp_path / "run")
    with pytest.raises(lessen.Error, match="3 rows|rows in the column"):
        lessen.train(LINEAR, (["a", "b", "c"], ["x", "y"]), out=tmp_path / "run")
    with pytest.raises(lessen.Error, match="does not read a table in memory"):
        lessen.train("shakespeare", mails(), out=tmp_path / "run")
    with pytest.raises(TypeError, match="train.lr is a object"):
        lessen.train("adder", out=tmp_path / "run", train_lr=object())
    assert not (tmp_path / "run").exists()


def test_a_budget_below_the_floor_is_told_before_a_step(tmp_path):
    plan = lessen.plan("adder", budget="1MiB", cost="analytic", **ADDER)
    assert not plan["feasible"] and "budget" in plan.shortfall
    with pytest.raises(lessen.Error, match="budget"):
        lessen.train("adder", out=tmp_path / "run", budget="1MiB", cost="analytic", steps=1, **ADDER)


def test_foreign_callbacks_are_called(tmp_path):
    calls = []

    class TrainerCallback:
        def __getattr__(self, name):
            if not name.startswith("on_"):
                raise AttributeError(name)
            return lambda args, state, control, **more: calls.append((name, state.global_step))

    class Own(TrainerCallback):
        def on_step_end(self, args, state, control, **more):
            control.should_training_stop = state.global_step >= 2

    run = lessen.train("adder", out=tmp_path / "run", steps=9, threads=1, callbacks=[Own()], **ADDER)
    assert run.interrupted and run.steps < 9
    assert any(name == "on_log" for name, _ in calls) and any(name == "on_save" for name, _ in calls)


def test_reports_are_those_of_the_folder(classifier):
    with open(os.path.join(classifier.folder, "report.json"), encoding="utf-8") as file:
        assert json.load(file) == dict(classifier)
    assert classifier.text and "<table>" in classifier._repr_html_()


def steps_of(trainer, texts, labels, starts, size=4):
    return [trainer.step((texts[i : i + size], labels[i : i + size])) for i in starts]


def test_steps_on_own_batches_train_as_those_of_the_data_and_resume(tmp_path):
    texts, labels = mails(16)
    recipe = {**LINEAR, "data.shuffle": False, "train.steps": 4, "train.schedule": "constant"}
    recipe.pop("train.epochs")
    data = {"train": (texts, labels), "dev": (texts, labels)}
    plain = lessen.train(recipe, data, out=tmp_path / "plain", threads=1).model().state_dict()
    trainer = lessen.Trainer(recipe, data, out=tmp_path / "own", threads=1)
    numbers = steps_of(trainer, texts, labels, (0, 4))
    assert [one["step"] for one in numbers] == [1, 2] and numbers[1]["loss"] > 0 and numbers[0]["lr"] == 0.1
    assert 0 <= trainer.evaluate()["dev_accuracy"] <= 1
    with pytest.raises(lessen.Error, match="none of the classes|not one of|eggs"):
        trainer.step((["what"], ["eggs"]))
    assert trainer.pause().interrupted and trainer.pause() is None
    assert trainer.state_dict().keys() == plain.keys()
    steps_of(trainer, texts, labels, (8, 12))
    found = trainer.state_dict()
    assert all(np.array_equal(found[name], plain[name]) for name in plain)
    with pytest.raises(lessen.Error, match="has done its 4 steps"):
        trainer.step((texts[:4], labels[:4]))


def test_fit_goes_on_after_steps_and_weights_count(tmp_path):
    texts, labels = mails(16)
    trainer = lessen.Trainer({**LINEAR, "data.held_out": 0.25}, (texts, labels), out=tmp_path / "run", threads=1)
    trainer.step((texts[:3], labels[:3]))
    assert trainer.fit().steps == 12
    weights = np.where(np.array(labels) == "spam", 100.0, 0.01)
    shares = []
    for sample_weight in (None, weights):
        out = tmp_path / f"weighted-{sample_weight is not None}"
        model = lessen.train(LINEAR, (texts, labels), sample_weight=sample_weight, out=out, threads=1).model()
        shares.append(model.predict_proba(["see offer"])[0, model.labels.index("spam")])
    assert shares[1] > shares[0]
    for wrong, said in (([1.0], "1 weights for"), ([-1.0] * 16, "has the weight -1"), ("x", "something else than")):
        with pytest.raises(lessen.Error, match=said):
            lessen.train(LINEAR, (texts, labels), sample_weight=wrong, out=tmp_path / "wrong", threads=1)
