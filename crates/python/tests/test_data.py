"""Data in memory: every form is the right one, or a sentence."""

import numpy as np
import pytest
from conftest import mails, squares

import lessen

TABLE = {
    "model.kind": "linear-array",
    "data.format": "table",
    "data.label": "label",
    "train.batch": 8,
    "train.steps": 2,
}


def rows():
    numbers = np.random.default_rng(1).normal(size=(40, 3))
    return numbers, np.where(numbers[:, 0] > 0, "up", "down")


def weights(data, out):
    return lessen.train(TABLE, data, out=out, threads=1).model().state_dict()


def test_layouts_of_an_array_are_the_same_data(tmp_path):
    numbers, labels = rows()
    expected = weights((numbers, labels), tmp_path / "own")
    read_only = numbers.copy()
    read_only.flags.writeable = False
    wide = np.zeros((40, 6))
    wide[:, ::2] = numbers
    forms = [
        (np.asfortranarray(numbers), labels),
        (numbers.astype(">f8"), labels.astype(object)),
        (read_only, list(labels)),
        (wide[:, ::2], labels),
        (numbers.astype(object), labels),
        {**{f"x{i}": numbers[:, i] for i in range(3)}, "label": labels},
    ]
    for number, form in enumerate(forms):
        found = weights(form, tmp_path / str(number))
        assert all(np.array_equal(found[name], expected[name]) for name in expected), number


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ((np.zeros((0, 3)), []), "has no rows"),
        ((np.zeros((4, 3)), ["a"]), "4 rows in the column 'x0' and 1 in 'label'"),
        ((np.zeros((4, 3)), np.zeros((4, 2))), "the column label has the shape \\[4, 2\\]"),
        ((np.zeros((4, 3), complex), ["a"] * 4), "has complex numbers"),
        ((np.zeros(4), ["a"] * 4), "are neither rows"),
        ((np.zeros((4, 3)),), "are of the type ndarray"),
        (np.zeros((4, 3)), "give the pair \\(inputs, labels\\)"),
        ((squares()[0] / 255, squares()[1]), "give bytes from 0 to 255"),
        ((squares()[0].astype(int) * 2, squares()[1]), "beyond 0 to 255"),
        ((squares()[0], [float("nan")] * 32), "have fractions or NaN"),
        ((squares()[0], [0, 1]), "2 labels for 32 images"),
        ((["\ud800"] * 4, ["a", "b"] * 2), "lone surrogate"),
        ({"dev": mails()}, "has no split train"),
        ([], "is empty"),
        ([1, 2], "are of the type int"),
        (3, "data is a int"),
    ],
)
def test_wrong_data_is_refused(data, sentence, tmp_path):
    with pytest.raises(lessen.Error, match=sentence):
        lessen.train(TABLE, data, out=tmp_path / "run", threads=1)
    assert not (tmp_path / "run").exists()


def test_datasets_of_others_are_read_by_what_they_have(tmp_path):
    texts, labels = mails()

    class Names:
        names = ["ham", "spam"]

    class HuggingFace:
        column_names = ["text", "label"]
        features = {"label": Names}

        def __getitem__(self, name):
            return texts if name == "text" else [Names.names.index(label) for label in labels]

    class Torch:
        def __len__(self):
            return len(texts)

        def __getitem__(self, number):
            return texts[number], labels[number]

    class Loader:
        dataset = Torch()
        batch_size = 7

    from lessen._data import memory

    expected = memory((texts, labels))
    assert memory(Torch()) == memory(Loader()) == memory(iter(list(zip(texts, labels)))) == expected
    assert memory(HuggingFace())[:3] == expected[:3] and memory(HuggingFace())[3] == ["ham", "spam"]
