"""Asking saved models."""

import threading

import numpy as np
import pytest
from conftest import mails, squares

import lessen


def test_a_classifier_answers_texts_alone_and_in_batches(classifier):
    model = lessen.load(classifier.folder)
    texts, labels = mails()
    assert model.task == "prediction" and model.reads == "texts" and set(model.labels) == {"ham", "spam"}
    assert model.predict(texts) == labels
    assert model.predict(texts[0]) == labels[0]
    shares = model.predict_proba(texts)
    assert shares.shape == (len(texts), 2) and shares.dtype == np.float64
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    np.testing.assert_array_equal(model.predict_proba(texts[3]), shares[3])
    logits = model.logits(texts)
    assert logits.dtype == np.float32
    exponents = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    np.testing.assert_allclose(exponents / exponents.sum(axis=1, keepdims=True), shares, rtol=1e-5)
    assert model.predict(np.array(texts[:2])) == labels[:2] and model.predict([]) == []


def test_threads_share_a_model_and_get_the_same_answers(classifier):
    model = lessen.load(classifier.folder, threads=2)
    texts, _ = mails()
    expected, wrong = model.predict_proba(texts), []

    def ask(number):
        own = model.predict_proba(texts[number % 20 :])
        if not np.array_equal(own, expected[number % 20 :]):
            wrong.append(number)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_mistakes_are_sentences(classifier, tmp_path):
    with pytest.raises(lessen.Error, match="nowhere"):
        lessen.load(tmp_path / "nowhere")
    model = lessen.load(classifier.folder)
    with pytest.raises(lessen.Error, match="reads texts, and a int is given") as caught:
        model.predict([1])
    assert isinstance(caught.value, TypeError) and isinstance(caught.value, ValueError)
    with pytest.raises(lessen.Error, match="finds no answers"):
        model.answer("who?", "nobody")
    with pytest.raises(lessen.Error, match="does not tell classes of words apart"):
        model.tag("a b")
    with pytest.raises(lessen.Error, match="there is no precision 'f8'; choose one of"):
        lessen.load(classifier.folder, precision="f8")
    with pytest.raises(lessen.Error, match="checkpoint is 'newest'"):
        lessen.load(classifier.folder, checkpoint="newest")


def test_a_language_model_continues_texts_and_streams_them(adder):
    model = lessen.load(adder.folder)
    whole = model.generate("1+2=", tokens=4, temperature=0)
    assert isinstance(whole, str)
    assert "".join(model.generate("1+2=", tokens=4, temperature=0, stream=True)) == whole
    several = model.generate(["1+2=", "3+4="], tokens=4, temperature=0)
    assert several[0] == whole and len(several) == 2
    assert len(model.generate("1+2=", tokens=2, samples=3)) == 3
    # A stream that nobody reads on ends, and the model answers again.
    stream = model.generate("1+2=", tokens=4, stream=True)
    del stream
    assert model.generate("1+2=", tokens=4, temperature=0) == whole
    with pytest.raises(lessen.Error, match="temperature"):
        model.generate("1+2=", temperature=-1)
    with pytest.raises(lessen.Error, match="chat template"):
        model.chat("hello")


def test_images_are_arrays_files_and_images_of_pillow(tmp_path):
    images, labels = squares()
    recipe = {"model.kind": "convnet-3", "data.format": "images", "train.batch": 8, "train.steps": 4}
    run = lessen.train(recipe, (images, labels), out=tmp_path / "run", threads=1)
    model = run.model()
    assert model.reads == "images"
    shares = model.predict_proba(images)
    assert shares.shape == (32, 2)
    # Other layouts of the same pixels.
    np.testing.assert_array_equal(model.predict_proba(images[..., None]), shares)
    np.testing.assert_array_equal(model.predict_proba(list(images)), shares)
    np.testing.assert_array_equal(model.predict_proba(np.asfortranarray(images)), shares)
    np.testing.assert_array_equal(model.predict_proba(images.astype(np.int64)), shares)
    backwards = images[:, ::-1][:, ::-1]
    np.testing.assert_array_equal(model.predict_proba(backwards), shares)
    np.testing.assert_allclose(model.predict_proba(images[0]), shares[0], rtol=1e-6)
    pillow = pytest.importorskip("PIL.Image")
    pillow.fromarray(images[0]).save(tmp_path / "one.png")
    np.testing.assert_allclose(model.predict_proba(tmp_path / "one.png"), shares[0], rtol=1e-6)
    np.testing.assert_allclose(model.predict_proba(pillow.fromarray(images[0])), shares[0], rtol=1e-6)
    with pytest.raises(lessen.Error, match="give bytes from 0 to 255"):
        model.predict(images / 255.0)
    with pytest.raises(lessen.Error, match="give \\[H, W\\]"):
        model.predict([np.zeros((4, 4, 2), np.uint8)])


def test_rows_are_frames_dictionaries_and_arrays(tmp_path):
    rows = np.random.default_rng(1).normal(size=(40, 2))
    labels = np.where(rows.sum(axis=1) > 0, "up", "down")
    recipe = {"model.kind": "linear-array", "data.format": "table", "data.label": "label", "train.batch": 8, "train.epochs": 2}
    model = lessen.train(recipe, (rows, labels), out=tmp_path / "run", threads=1).model()
    shares = model.predict_proba(rows)
    columns = {"x0": rows[:, 0], "x1": rows[:, 1]}
    np.testing.assert_array_equal(model.predict_proba(columns), shares)
    one = {"x0": rows[0, 0], "x1": rows[0, 1]}
    np.testing.assert_array_equal(model.predict_proba(one), shares[0])
    np.testing.assert_array_equal(model.predict_proba([one]), shares[:1])
    assert model.logits(rows).shape == (40, 2)
    pandas = pytest.importorskip("pandas")
    np.testing.assert_array_equal(model.predict_proba(pandas.DataFrame(columns)), shares)
    with pytest.raises(lessen.Error, match="no column \"x1\""):
        model.predict({"x0": [1.0]})


def test_parameters_are_arrays(classifier):
    weights = lessen.load(classifier.folder).state_dict()
    assert weights and all(isinstance(weight, np.ndarray) for weight in weights.values())
    assert all(np.isfinite(weight).all() for weight in weights.values())


def test_a_forked_child_gets_a_sentence(classifier):
    import os

    model = lessen.load(classifier.folder, threads=2)
    model.predict("see you")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            model.predict("see you")
            os.write(writer, b"an answer")
        except lessen.Error as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(0)
    os.close(writer)
    said = os.read(reader, 1000).decode()
    os.waitpid(child, 0)
    assert "was opened before this process was forked" in said
