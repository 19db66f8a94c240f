"""Searches, conversions, quantization and costs: answers as dictionaries, files as those of the command."""

from pathlib import Path

import lessen
import numpy as np
import pytest
from conftest import TINY, command, mails, squares

#: Keys of a search that ends in a moment.
SEARCH = {
    "search.width": 0.125,
    "search.depth": 1,
    "search.kernels": "3,5",
    "search.expansions": "1,2",
    "search.bits": "2,8",
    "search.batch": 16,
    "search.frozen_epochs": 1,
}


@pytest.fixture(scope="module")
def onnx_run(tmp_path_factory):
    """A network for images as an ONNX file, and images."""
    place = tmp_path_factory.mktemp("onnx")
    images, labels = squares()
    recipe = {"model.kind": "convnet-3", "data.format": "images", "train.batch": 8, "train.steps": 4}
    run = lessen.train(recipe, (images, labels), out=place / "run", threads=1)
    command("export", place / "run", "--onnx", place / "net.onnx", "--quiet")
    return run, place / "net.onnx", images


def test_a_network_is_searched(tmp_path):
    images, labels = squares(48, 16)
    np.savez("data.npz", images=images, labels=labels)
    found = lessen.search("mnist", "data.npz", out="found", epochs=2, threads=1, seed=1, **SEARCH)
    assert isinstance(found, lessen.Result) and Path("found").is_dir()
    assert found["epochs"] == 2 and "<table>" in found._repr_html_()
    command("search", "mnist", "--data", "data.npz", "--out", "other", "--epochs", 2, "--threads", 1, "--seed", 1,
            "--quiet", *(f"--set={key}={value}" for key, value in SEARCH.items()))  # fmt: skip
    for name in ("architecture.json", "choices.json"):
        assert (Path("found") / name).read_bytes() == (Path("other") / name).read_bytes(), name
    with pytest.raises(lessen.Error, match="invalid value 'beauty'"):
        lessen.search("mnist", "data.npz", cost="beauty")
    with pytest.raises(lessen.Error, match="no key 'search.charm'"):
        lessen.search("mnist", "data.npz", search_charm=1)


def test_norms_are_converted(tmp_path):
    texts, _ = mails()
    keys = {"data_max_length": 16, "train_batch": 4, "steps": 2, "train_eval_every": 0, **TINY}
    trainer = lessen.Trainer("shakespeare", ["\n".join(texts * 5)], out="run", threads=1, **keys)
    trainer.fit()
    folder = trainer.save("model")
    dry = lessen.convert(folder, dry_run=True)
    assert isinstance(dry, lessen.Result) and len(dry) > 0
    with pytest.raises(lessen.Error, match="invalid value 'batchnorm'"):
        lessen.convert(folder, "other", norm="batchnorm")
    with pytest.raises(lessen.Error, match="nowhere"):
        lessen.convert("nowhere", "other")


def test_an_onnx_file_is_quantized(onnx_run, tmp_path):
    _, file, images = onnx_run
    name, (dtype, _) = next(iter(lessen.onnx(file).inputs.items()))
    asked = {name: (images[:, None] / 255).astype(dtype)}
    np.savez("inputs.npz", **asked)
    found = lessen.quantize(file, "small.onnx", calibrate="inputs.npz", threads=1)
    assert isinstance(found, lessen.Result) and found["bytes"][1] < found["bytes"][0] / 3 and len(found.quantized) == 4
    whole, small = (lessen.onnx(one, threads=1).run(asked) for one in (file, "small.onnx"))
    assert whole.keys() == small.keys() and all(whole[output].shape == small[output].shape for output in whole)
    with pytest.raises(lessen.Error, match="nowhere"):
        lessen.quantize("nowhere", "other")


def test_int4_is_smaller_than_int8(adder, tmp_path):
    eight = lessen.quantize(adder.folder, "eight", threads=1)
    four = lessen.quantize(adder.folder, "four", weights="int4", threads=1)
    assert four["bytes"][0] == eight["bytes"][0] and four["bytes"][1] < eight["bytes"][1]
    with pytest.raises(lessen.Error, match="eight"):
        lessen.quantize(adder.folder, "eight")


def test_costs_of_hardware(onnx_run):
    run, file, _ = onnx_run
    published = [lessen.energy("resnet-50", bits=bits) for bits in (4, 8)]
    assert len(published[0].layers) == len(published[1].layers)
    own = lessen.energy(run.folder, bits=8, batch=1)
    assert own.layers and all(isinstance(layer, dict) for layer in own.layers)
    assert len(lessen.energy(file, bits=8).layers) == len(own.layers)
    with pytest.raises(lessen.Error, match="nowhere"):
        lessen.energy("nowhere")
    with pytest.raises(lessen.Error, match="--bits|bits"):
        lessen.energy("resnet-50", bits="many")
