"""Data of a program as Lessen reads it: tables, sentences, texts and images, and their splits.

Libraries are known by what their objects have, and none is imported: frames have ``columns``, datasets of Hugging Face
``column_names``, loaders of PyTorch ``dataset``, images of Pillow ``convert`` and ``mode``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._errors import ArgumentError, Error

#: What splits are called, by the names that others give them.
SPLITS = {"train": "train", "dev": "dev", "valid": "dev", "validation": "dev", "test": "test"}


def is_path(data: Any) -> bool:
    """Whether it is a path, which Lessen reads itself."""
    return isinstance(data, (str, os.PathLike))


def is_frame(data: Any) -> bool:
    """Whether it is a frame of pandas or polars."""
    return hasattr(data, "columns") and hasattr(data, "dtypes") and not isinstance(data, Mapping)


def is_image(value: Any) -> bool:
    """Whether it is an image of Pillow."""
    return hasattr(value, "convert") and hasattr(value, "mode") and hasattr(value, "size")


def is_text(value: Any) -> bool:
    return isinstance(value, (str, np.str_))


def memory(
    data: Any, dev: Any = None, test: Any = None, classes: Sequence[str] | None = None, sample_weight: Any = None
) -> Any:
    """Data in memory as the extension takes it: the splits for training, evaluation and tests, names of classes, and
    weights of the training examples."""
    if isinstance(data, Mapping) and data and set(data) <= set(SPLITS):
        named = {SPLITS[name]: split for name, split in data.items()}
        if "train" not in named:
            raise Error("the data has no split train; add one, or give one split alone")
        data, dev, test = named["train"], named.get("dev", dev), named.get("test", test)
    names = list(classes) if classes is not None else class_names(data)
    others = (None if one is None else split(one, names) for one in (dev, test))
    return (split(data, names), *others, names, weights(sample_weight))


def weights(given: Any) -> NDArray[Any] | None:
    """Weights of examples, a number for each."""
    if given is None:
        return None
    try:
        found = np.asarray(given, dtype=np.float32)
    except (TypeError, ValueError):
        raise ArgumentError("sample_weight has something else than numbers; give a number for each example") from None
    if found.ndim != 1:
        raise Error(f"sample_weight has the shape {list(found.shape)}; give a number for each example")
    return np.ascontiguousarray(found)


def class_names(data: Any) -> list[str] | None:
    """The names of classes that a dataset of Hugging Face has."""
    features = getattr(data, "features", None)
    label = features.get("label") if isinstance(features, Mapping) else None
    names = getattr(label, "names", None)
    return list(names) if names else None


def split(data: Any, names: list[str] | None = None) -> Any:
    """A split as the extension takes it."""
    if hasattr(data, "column_names"):
        columns = {name: data[name] for name in data.column_names}
        if names is not None and "label" in columns:
            columns["label"] = [names[number] for number in columns["label"]]
        return of_columns(columns)
    if hasattr(data, "dataset") and hasattr(data, "batch_size"):
        return split(data.dataset, names)
    if is_frame(data):
        return of_columns({str(name): data[name] for name in data.columns})
    if isinstance(data, Mapping):
        return of_columns(data)
    if isinstance(data, tuple) and len(data) == 2:
        return labelled(*data)
    if isinstance(data, np.ndarray):
        raise Error("an array without labels is given; give the pair (inputs, labels)")
    return of_items(items_of(data))


def items_of(data: Any) -> list[Any]:
    """The items of a list, of a dataset with numbers, or of a generator."""
    if isinstance(data, (list, tuple)):
        return list(data)
    if hasattr(data, "__getitem__") and hasattr(data, "__len__"):
        return [data[number] for number in range(len(data))]
    if isinstance(data, Iterable):
        return list(data)
    raise ArgumentError(
        f"data is a {type(data).__name__}; give a path, the pair (inputs, labels), a frame, a dataset or a list"
    )


def of_items(items: list[Any]) -> Any:
    """A split of items: texts, pairs of an input and its label, or dictionaries."""
    if not items:
        raise Error("the data is empty; give at least one example")
    first = items[0]
    if is_text(first):
        return strings(items)
    if isinstance(first, Mapping):
        return of_columns({str(name): [item.get(name) for item in items] for name in first})
    if isinstance(first, (list, tuple)) and len(first) == 2:
        inputs, labels = zip(*items)
        return labelled(list(inputs), list(labels))
    raise ArgumentError(
        f"the examples are of the type {type(first).__name__}; give texts, pairs of input and label, or dictionaries"
    )


def of_columns(columns: Mapping[str, Any]) -> Any:
    """A table, or images where a column has such."""
    found = {str(name): values if is_array(values) else list(values) for name, values in columns.items()}
    for name in ("image", "img"):
        if name in found and len(found[name]) and not is_text(found[name][0]):
            return labelled(found[name], found.get("label", found.get("labels", [])))
    if {"tokens", "labels"} <= set(found):
        return [(strings(words), strings(labels)) for words, labels in zip(found["tokens"], found["labels"])]
    return [(name, column(values, name)) for name, values in found.items()]


def labelled(inputs: Any, labels: Any) -> Any:
    """A split of inputs with their labels."""
    labels = labels if is_array(labels) else list(labels)
    if is_frame(inputs):
        columns = [(str(name), column(inputs[name], str(name))) for name in inputs.columns]
        return [*columns, ("label", column(labels, "label"))]
    if not is_array(inputs) and not isinstance(inputs, np.ndarray):
        inputs = items_of(inputs)
        if not inputs:
            raise Error("the data is empty; give at least one example")
        first = inputs[0]
        if is_text(first):
            return [("text", strings(inputs)), ("label", column(labels, "label"))]
        if is_image(first) or np.ndim(first) in (2, 3):
            return ([pixels(image) for image in inputs], image_labels(labels))
        if isinstance(first, (list, tuple)) and len(first) and is_text(first[0]):
            if len(labels) and not is_text(labels[0]) and isinstance(labels[0], (list, tuple)):
                return [(strings(words), strings(tags)) for words, tags in zip(inputs, labels)]
            if all(len(pair) == 2 for pair in inputs):
                first, second = zip(*inputs)
                pair = [("text", strings(first)), ("text_pair", strings(second))]
                return [*pair, ("label", column(labels, "label"))]
    values = np.asarray(inputs)
    if values.ndim == 1 and values.dtype.kind in "UO":
        return [("text", strings(values)), ("label", column(labels, "label"))]
    if values.ndim in (3, 4):
        return (list(values.shape), flat(bytes_of(values)), image_labels(labels))
    if values.ndim == 2:
        return [*rows(values), ("label", column(labels, "label"))]
    raise Error(
        f"inputs of the shape {list(values.shape)} are neither rows [N, columns] nor images [N, H, W] or [N, H, W, C]"
    )


def is_array(values: Any) -> bool:
    """Whether NumPy reads it as an array: its own, a series of a frame, a tensor."""
    return hasattr(values, "__array__") and not is_image(values)


def strings(values: Iterable[Any]) -> list[str]:
    """Values as texts; None is an empty one."""
    return [text(value) for value in values]


def text(value: Any) -> str:
    """A value as a text; None is an empty one."""
    found = "" if value is None else str(value)
    try:
        found.encode()
    except UnicodeEncodeError:
        raise Error(f"the text {found!r} has half of a character (a lone surrogate); decode its bytes again") from None
    return found


def rows(values: NDArray[Any]) -> list[tuple[str, Any]]:
    """The columns ``x0``, ``x1`` and so on of an array of rows."""
    return [(f"x{number}", column(values[:, number], f"x{number}")) for number in range(values.shape[1])]


def column(values: Any, name: str) -> Any:
    """A column of numbers, of texts, or of lists of texts."""
    array = values
    if is_array(values):
        array = np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)
    elif not any(isinstance(value, (list, tuple)) for value in values):
        array = np.asarray(values, dtype=None if all(is_number(value) for value in values) else object)
    if isinstance(array, np.ndarray):
        if array.ndim != 1:
            raise Error(f"the column {name} has the shape {list(array.shape)}; give one value for each row")
        if array.dtype.kind in "iuf":
            return np.ascontiguousarray(array, dtype="<f8")
        if array.dtype.kind == "c":
            raise ArgumentError(f"the column {name} has complex numbers; give real ones")
        return ["" if is_missing(value) else text(value) for value in array.tolist()]
    return [strings(value) for value in array]


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def is_missing(value: Any) -> bool:
    return (
        value is None or (isinstance(value, float) and value != value) or type(value).__name__ in ("NAType", "NaTType")
    )


def image_labels(labels: Any) -> Any:
    """Labels of images: numbers of classes from 0 on, or names."""
    found = column(labels, "label")
    if isinstance(found, np.ndarray):
        numbers = found.astype(np.int64)
        if not np.array_equal(numbers, found):
            raise Error("labels of images have fractions or NaN; give numbers of classes from 0 on, or names")
        return [int(number) for number in numbers]
    return found


def bytes_of(values: NDArray[Any]) -> NDArray[Any]:
    """Pixels as bytes in row-major order."""
    if values.dtype == np.bool_ or values.dtype.kind in "iu" and values.dtype != np.uint8:
        if values.size and (values.min() < 0 or values.max() > 255):
            raise Error("images have values beyond 0 to 255; convert them with astype('uint8')")
        values = values.astype(np.uint8)
    if values.dtype != np.uint8:
        raise Error(f"images are {values.dtype}; give bytes from 0 to 255, such as (255 * images).astype('uint8')")
    return np.ascontiguousarray(values)


def flat(values: NDArray[Any]) -> NDArray[Any]:
    """The bytes of an array in row-major, little-endian order."""
    little = values.astype(values.dtype.newbyteorder("<"), copy=False)
    return np.ascontiguousarray(little).reshape(-1).view(np.uint8)


def pixels(image: Any) -> NDArray[Any]:
    """An image as bytes ``[H, W, C]``."""
    if is_image(image):
        image = image.convert("L" if image.mode in ("1", "L", "I;16") else "RGB")
    values = bytes_of(np.asarray(image))
    if values.ndim == 2:
        values = values[:, :, None]
    if values.ndim != 3 or values.shape[2] not in (1, 3):
        raise Error(f"an image has the shape {list(values.shape)}; give [H, W], [H, W, 1] or [H, W, 3]")
    return np.ascontiguousarray(values)


def asked(reads: str, inputs: Any) -> tuple[Any, bool]:
    """What a model is asked about, as the extension takes it, and whether it is one example alone."""
    ways: dict[str, Callable[[Any], tuple[Any, bool]]] = {"images": asked_images, "rows": asked_rows}
    return ways.get(reads, asked_texts)(inputs)


def asked_texts(inputs: Any) -> tuple[Any, bool]:
    """Texts, or pairs of texts as tuples."""
    if is_text(inputs):
        return [(text(inputs), None)], True
    if isinstance(inputs, tuple) and len(inputs) == 2 and all(map(is_text, inputs)):
        return [(text(inputs[0]), text(inputs[1]))], True
    items = list(inputs) if is_array(inputs) else items_of(inputs)
    for item in items:
        if not is_text(item) and not (isinstance(item, (tuple, list)) and len(item) == 2 and all(map(is_text, item))):
            raise ArgumentError(
                f"the model reads texts, and a {type(item).__name__} is given; give texts, or pairs of them"
            )
    return [(text(item), None) if is_text(item) else (text(item[0]), text(item[1])) for item in items], False


def asked_images(inputs: Any) -> tuple[Any, bool]:
    """Files, arrays of bytes and images of Pillow."""
    if is_path(inputs) or is_image(inputs):
        return [one_image(inputs)], True
    if is_array(inputs):
        values = np.asarray(inputs)
        if values.ndim == 2 or values.ndim == 3 and values.shape[2] in (1, 3):
            return [one_image(values)], True
        if values.ndim not in (3, 4):
            raise Error(f"images have the shape {list(values.shape)}; give [N, H, W] or [N, H, W, C]")
        return [one_image(image) for image in values], False
    return [one_image(image) for image in items_of(inputs)], False


def one_image(image: Any) -> Any:
    return os.fspath(image) if is_path(image) else pixels(image)


def asked_rows(inputs: Any) -> tuple[Any, bool]:
    """Frames, dictionaries of columns or of cells, lists of dictionaries, and arrays ``[N, columns]``."""
    if isinstance(inputs, Mapping):
        if all(np.ndim(value) == 0 for value in inputs.values()):
            return ([str(name) for name in inputs], [[cell(value) for value in inputs.values()]]), True
        columns = {str(name): list(values) for name, values in inputs.items()}
    elif is_frame(inputs):
        columns = {str(name): inputs[name].to_numpy().tolist() for name in inputs.columns}
    elif is_array(inputs) or not isinstance(inputs[0], Mapping):
        values = np.asarray(inputs)
        if values.ndim not in (1, 2):
            raise Error(f"rows have the shape {list(values.shape)}; give [N, columns], or one row")
        table = values.reshape(-1, values.shape[-1])
        names = [f"x{number}" for number in range(table.shape[1])]
        return (names, [[cell(value) for value in row] for row in table.tolist()]), values.ndim == 1
    else:
        columns = {str(name): [row.get(name) for row in inputs] for name in inputs[0]}
    lengths = {len(values) for values in columns.values()}
    if len(lengths) > 1:
        raise Error("the columns have several lengths; give each a value for each row")
    cells = [[cell(value) for value in row] for row in zip(*columns.values())]
    return (list(columns), cells), False


def cell(value: Any) -> Any:
    """A cell: a number, a text, or None."""
    if is_missing(value):
        return None
    return float(value) if is_number(value) else str(value)
