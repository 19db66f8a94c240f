"""Models that answer questions, and models that tag words."""

import json
from pathlib import Path

import lessen
import pytest
from test_ask import names


def question(number):
    """A context with an x, and the question where it is."""
    letters = [chr(ord("a") + (number * 7 + place * 5) % 20) for place in range(6 + number % 9)]
    place = number * 3 % len(letters)
    letters[place] = "x"
    asked = {"id": str(number), "question": "where?", "answers": [{"text": "x", "answer_start": place}]}
    return {"context": "".join(letters), "qas": [{**asked, "is_impossible": False}]}


@pytest.fixture(scope="module")
def answerer(tmp_path_factory):
    """A model that has learned to find the x."""
    place = tmp_path_factory.mktemp("squad")
    for name, numbers in (("train-v2.0.json", range(60)), ("dev-v2.0.json", range(60, 80))):
        paragraphs = [question(number) for number in numbers]
        file = {"version": "v2.0", "data": [{"title": "letters", "paragraphs": paragraphs}]}
        (place / name).write_text(json.dumps(file))
    keys = {"train_batch": 10, "train_lr": 0.01, "train_warmup": 0, "data_max_length": 32, "model_dropout": 0}
    tiny = {"model_layers": 1, "model_width": 32, "model_heads": 2, "model_ffn": 32}
    return lessen.train("squad", place, out=place / "run", steps=90, threads=1, **tiny, **keys).model()


def test_questions_are_answered(answerer):
    assert answerer.task == "answering"
    one = answerer.answer("where?", "fpxbg")
    assert (one["text"], one["start"], one["end"]) == ("x", 2, 3)
    assert 0 < one["probability"] <= 1 and isinstance(one["null_margin"], float)
    assert answerer.answer([("where?", "fpxbg"), ["where?", "xkpa"]])[0] == one
    assert answerer.answer([]) == []


def test_characters_are_counted_and_not_bytes(answerer):
    context = "éüxbg"
    one = answerer.answer("where?", context)
    assert one["text"] == context[one["start"] : one["end"]]


@pytest.mark.parametrize(
    "asked",
    [(1, "a"), ("where?", 1), ([("where?",)],), ([("a", "b", "c")],), ([1, 2],), (1,), ("where?", "\ud800"), (None,)],
)
def test_wrong_questions_are_sentences(answerer, asked):
    with pytest.raises(lessen.Error):
        answerer.answer(*asked)


@pytest.fixture(scope="module")
def tagger(tmp_path_factory):
    """A model that has learned names."""
    place = tmp_path_factory.mktemp("names")
    tiny = {"model_layers": 1, "model_width": 32, "model_heads": 2, "model_ffn": 32, "data_max_length": 32}
    keys = {"train_batch": 5, "train_lr": 0.01, "train_warmup": 0, "train_epochs": 8}
    data = {"train": names(), "dev": names(6)}
    return lessen.train("ner", data, out=place / "run", threads=1, **tiny, **keys).model()


def test_sentences_are_texts_lists_and_tuples(tagger):
    expected = tagger.tag("Ann Lee is in Rome")
    assert tagger.tag(["Ann", "Lee", "is", "in", "Rome"]) == expected
    assert tagger.tag(("Ann", "Lee", "is", "in", "Rome")) == expected
    assert tagger.tag(["Ann Lee is in Rome", "Rome is old"])[0]["words"][0]["word"] == "Ann"
    assert tagger.tag([["Rome"], ["Ann", "Lee"]])[0]["words"][0]["word"] == "Rome"
    assert tagger.tag([]) == []
    shares = [word["probability"] for word in expected["words"]]
    assert all(0 < share <= 1 for share in shares)


@pytest.mark.parametrize("asked", [1, None, [1, 2], [["Ann", 1]], [None], [["\ud800"]]])
def test_wrong_sentences_are_sentences(tagger, asked):
    with pytest.raises(lessen.Error):
        tagger.tag(asked)


def test_the_folder_is_that_of_the_run(tagger):
    assert Path(tagger.folder).is_dir() and repr(tagger).startswith("lessen.load(")
