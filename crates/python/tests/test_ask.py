"""Asking saved models."""

import threading
from pathlib import Path

import lessen
import numpy as np
import pytest
from conftest import mails, squares


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
    recipe = {
        "model.kind": "linear-array",
        "data.format": "table",
        "data.label": "label",
        "train.batch": 8,
        "train.epochs": 2,
    }
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
    with pytest.raises(lessen.Error, match='no column "x1"'):
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


def names(count=30):
    """Sentences with names, and the labels of their words."""
    sentences = [["Ann", "Lee", "is", "in", "Rome"], ["in", "Rome", "is", "Ann"], ["Rome", "is", "old"]]
    labels = [["B-PER", "I-PER", "O", "O", "B-LOC"], ["O", "B-LOC", "O", "B-PER"], ["B-LOC", "O", "O"]]
    return [sentences[i % 3] for i in range(count)], [labels[i % 3] for i in range(count)]


def test_words_are_tagged(tmp_path):
    tiny = {"model_layers": 1, "model_width": 32, "model_heads": 2, "model_ffn": 32, "data_max_length": 32}
    keys = {"train_batch": 5, "train_lr": 0.01, "train_warmup": 0, "train_epochs": 8}
    data = {"train": names(), "dev": names(6)}
    model = lessen.train("ner", data, out=tmp_path / "run", threads=1, **tiny, **keys).model()
    assert model.task == "tagging"
    one = model.tag("Ann Lee is in Rome")
    assert [word["label"] for word in one["words"]] == ["B-PER", "I-PER", "O", "O", "B-LOC"]
    assert [(span["label"], span["text"]) for span in one["entities"]] == [("PER", "Ann Lee"), ("LOC", "Rome")]
    assert model.tag([["Rome", "is", "old"], ["in", "Rome"]])[0]["entities"][0]["start"] == 0


def test_a_language_model_chats(tmp_path):
    texts = ["u:ab\na:abc\ns:x\n" * 60]
    keys = {"data_max_length": 32, "train_batch": 4, "train_eval_every": 0, "steps": 2}
    tiny = {"model_layers": 1, "model_width": 16, "model_heads": 2, "model_ffn": 32}
    trainer = lessen.Trainer("shakespeare", texts, out=tmp_path / "run", threads=1, **tiny, **keys)
    trainer.fit()
    folder = trainer.save(tmp_path / "chat")
    template = "{% for m in messages %}{{ m.role[0] }}:{{ m.content }}\n{% endfor %}a:"
    (tmp_path / "chat" / "chat_template.jinja").write_text(template)
    model = lessen.load(folder)
    said = model.chat("ab", tokens=4, temperature=0)
    assert said == model.chat([{"role": "user", "content": "ab"}], tokens=4, temperature=0)
    assert "".join(model.chat("ab", tokens=4, temperature=0, stream=True)) == said
    assert isinstance(model.chat("ab", system="x", tokens=2, temperature=0), str)
    with pytest.raises(lessen.Error):
        model.chat([{"content": "ab"}])


EMBEDDER = Path(__file__).parents[2] / "saved/tests/fixtures/embeddings/cls"


def test_texts_are_embedded():
    model = lessen.load(EMBEDDER)
    vectors = model.embed(["a b", "b"])
    assert vectors.dtype == np.float32 and vectors.shape[0] == 2
    np.testing.assert_array_equal(model.embed("b"), vectors[1])
    assert model.embed([]).shape == (0, vectors.shape[1])
    lengths = np.linalg.norm(model.embed(["a b"], normalize=True), axis=1)
    np.testing.assert_allclose(lengths, 1, rtol=1e-5)
