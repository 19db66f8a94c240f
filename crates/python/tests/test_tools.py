"""The package, the command and its other functions."""

import subprocess
import sys
from pathlib import Path

import lessen
import numpy as np
import pytest
from conftest import TINY, command, squares


def test_the_command_comes_with_the_package():
    assert lessen.__version__ in command("--version")
    done = subprocess.run([sys.executable, "-m", "lessen", "train", "no-recipe"], capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.startswith("error: ") and done.stdout == ""


def test_importing_does_nothing_else():
    code = """
import signal, sys
before = signal.getsignal(signal.SIGINT)
import lessen
assert signal.getsignal(signal.SIGINT) is before
heavy = {"torch", "transformers", "datasets", "pandas", "polars", "sklearn", "IPython", "PIL"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_model_is_quantized(classifier, adder, tmp_path):
    found = lessen.quantize(adder.folder, tmp_path / "small", threads=1)
    assert found["bytes"][1] < found["bytes"][0] and found.quantized
    assert isinstance(lessen.load(tmp_path / "small").generate("1+1=", tokens=2, temperature=0), str)
    with pytest.raises(lessen.Error, match="invalid value 'int3'"):
        lessen.quantize(adder.folder, tmp_path / "other", weights="int3")


def test_a_model_is_evaluated(adder):
    scores = lessen.evaluate(adder.folder)
    assert scores["split"] == "dev" and scores["examples"] > 0 and np.isfinite(scores["dev_loss"])


def test_energy_is_a_table_of_layers():
    report = lessen.energy("resnet-50", bits=8)
    assert len(report.layers) > 50 and "<h4>layers</h4><table>" in report._repr_html_()


def test_images_are_condensed(tmp_path):
    images, labels = squares(64, 16)
    np.savez(tmp_path / "data.npz", images=images, labels=labels)
    keys = {"per_class": 1, "iterations": 1, "method": "dm", "threads": 1}
    found = lessen.condense("mnist", tmp_path / "data.npz", out=tmp_path / "few", **keys)
    arrays = found.arrays()
    assert arrays["images"].shape == (2, 16, 16, 1) and sorted(arrays["labels"]) == [0, 1]


def onnx_file(path):
    """A file that adds two matrices, written by hand: y = x + x."""

    def field(number, kind, content):
        key = bytes([number << 3 | kind])
        return key + (bytes([content]) if kind == 0 else bytes([len(content)]) + content)

    def value(name):
        dims = b"".join(field(1, 2, field(1, 0, extent)) for extent in (2, 3))
        tensor = field(1, 0, 1) + field(2, 2, dims)
        return field(1, 2, name) + field(2, 2, field(1, 2, tensor))

    node = field(1, 2, b"x") + field(1, 2, b"x") + field(2, 2, b"y") + field(4, 2, b"Add")
    graph = field(1, 2, node) + field(2, 2, b"g") + field(11, 2, value(b"x")) + field(12, 2, value(b"y"))
    Path(path).write_bytes(field(1, 0, 8) + field(7, 2, graph) + field(8, 2, field(2, 0, 17)))
    return path


def test_an_onnx_file_runs_on_arrays(tmp_path):
    session = lessen.onnx(onnx_file(tmp_path / "add.onnx"), threads=1)
    assert session.inputs == {"x": ("float32", [2, 3])} and session.outputs == ["y"]
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for form in (x, np.asfortranarray(x), x.astype(">f4"), x[::-1][::-1], x.tolist()):
        np.testing.assert_array_equal(session.run({"x": form})["y"], x + x)
    read_only = x.copy()
    read_only.flags.writeable = False
    assert list(session.run({"x": read_only}, ["y"])) == ["y"]
    with pytest.raises(lessen.Error, match="holds float64, but the input takes float32"):
        session.run({"x": x.astype(np.float64) / 3})
    with pytest.raises(lessen.Error, match="takes \\[2, 3\\]"):
        session.run({"x": x.T})
    with pytest.raises(lessen.Error, match="no array for the input `x`"):
        session.run({})
    with pytest.raises(lessen.Error, match="`z` is no input"):
        session.run({"x": x, "z": x})
    with pytest.raises(TypeError, match="give numbers"):
        session.run({"x": np.array([["a"]], dtype=object)})


def test_plans_of_batches_and_budgets():
    plan = lessen.plan("adder", sweep=True, batches=[2, 4], cost="analytic", **TINY)
    assert len(plan["batches"]) == 2 and plan["best_batch"] in (2, 4)
