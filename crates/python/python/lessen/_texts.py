"""Texts, pairs of texts and sentences that a model is asked about: checked, and as the extension takes them."""

from __future__ import annotations

from typing import Any

from ._data import is_array, is_path, is_text, items_of, text
from ._errors import ArgumentError


def items(values: Any, wanted: str) -> list[Any]:
    """The items of a list, an array, a series or a generator."""
    if is_array(values) and getattr(values, "ndim", 1) == 1:
        return list(values)
    if is_path(values) or isinstance(values, (bytes, dict, set, frozenset)) or not hasattr(values, "__iter__"):
        raise ArgumentError(f"a {type(values).__name__} is given; give {wanted}")
    return items_of(values)


def one_text(value: Any, wanted: str) -> str:
    """A text."""
    if not is_text(value):
        raise ArgumentError(f"a {type(value).__name__} is given in place of a text; give {wanted}")
    return text(value)


def texts_of(values: Any) -> tuple[list[str], bool]:
    """Texts, and whether one alone is given."""
    wanted = "a text or a list of texts"
    if is_text(values):
        return [text(values)], True
    return [one_text(value, wanted) for value in items(values, wanted)], False


def pairs_of(question: Any, context: Any) -> tuple[list[tuple[str, str]], bool]:
    """Pairs of question and context, and whether one alone is given."""
    wanted = "a question and its context, or a list of such pairs"
    if context is not None:
        return [(one_text(question, wanted), one_text(context, wanted))], True
    if is_text(question):
        raise ArgumentError(f"the question has no context; give {wanted}")
    pairs = [pair if is_text(pair) else items(pair, wanted) for pair in items(question, wanted)]
    for pair in pairs:
        if is_text(pair) or len(pair) != 2:
            raise ArgumentError(f"{pair!r} is no pair; give {wanted}")
    return [(one_text(pair[0], wanted), one_text(pair[1], wanted)) for pair in pairs], False


def sentences_of(sentences: Any) -> tuple[list[list[str]], bool]:
    """Sentences as lists of words, and whether one alone is given."""
    wanted = "a text, a list of words, or a list of these"
    if is_text(sentences):
        return [text(sentences).split()], True
    parts = items(sentences, wanted)
    if parts and all(map(is_text, parts)) and not any(" " in part for part in parts):
        return [[text(part) for part in parts]], True
    of_words = [part.split() if is_text(part) else items(part, wanted) for part in parts]
    return [[one_text(word, wanted) for word in words] for words in of_words], False
