"""Saved models."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _lessen
from ._data import asked, is_text
from ._errors import ArgumentError, Error
from ._flags import flags_of
from ._texts import items, one_text, pairs_of, sentences_of, texts_of
from ._weights import weights_of


def load(
    folder: str | os.PathLike[str],
    *,
    checkpoint: int | str | None = None,
    precision: str | None = None,
    threads: int | None = None,
    base: str | os.PathLike[str] | None = None,
    max_length: int | None = None,
) -> Model:
    """Opens the folder of a run, of Hugging Face or of sentence-transformers.

    ``checkpoint`` is a number of steps or ``"best"``; by default it is the model at the end. ``precision`` is one of
    ``"f32"``, ``"bf16"``, ``"int8"`` and ``"int4"``. ``base`` is the folder of the model that adapters belong to, and
    ``max_length`` the most tokens of a text to embed. Threads may share the model.

    Raises ``lessen.Error`` for a folder without a model, or with a damaged one.
    """
    step = -1 if checkpoint == "best" else checkpoint
    if step is not None and not isinstance(step, int):
        raise ArgumentError(f"checkpoint is {checkpoint!r}; give a number of steps, or 'best'")
    if precision is not None and not isinstance(precision, str):
        raise ArgumentError(f"precision is {precision!r}; give one of 'f32', 'bf16', 'int8' and 'int4'")
    if threads is not None and (not isinstance(threads, int) or threads < 1):
        raise ArgumentError(f"threads is {threads!r}; give a number from 1 on")
    inner = _lessen.Model(
        os.fspath(folder), step=step, precision=precision, threads=threads, base=base, max_length=max_length
    )
    return Model(os.fspath(folder), inner)


class Model:
    """A saved model; ``lessen.load`` opens one.

    Calls release the interpreter's lock while they compute. Answers do not depend on what is asked beside, nor on the
    number of threads.
    """

    def __init__(self, folder: str, inner: _lessen.Model) -> None:
        self.folder = folder
        self._inner = inner

    def __repr__(self) -> str:
        return f"lessen.load({self.folder!r})"

    @property
    def labels(self) -> list[str]:
        """The names of a classifier's classes, by their numbers."""
        return self._inner.labels()

    @property
    def reads(self) -> str:
        """What the model reads: ``texts``, ``pairs``, ``images``, ``rows``, or ``embedding`` for texts to embed."""
        return self._inner.reads()

    @property
    def task(self) -> str:
        """What the model does: ``prediction``, ``tagging``, ``answering``, ``generation`` or ``embedding``."""
        return self._inner.task()

    def predict(self, inputs: Any) -> Any:
        """Predicts labels (texts), sets of labels (lists), values (an array) or answers (texts): of one example alone,
        or of each of several.

        Texts, pairs of texts as tuples, files and images of Pillow, arrays of bytes ``[H, W]``, ``[H, W, C]``,
        ``[N, H, W]`` or ``[N, H, W, C]``, rows as frames, dictionaries or arrays ``[N, columns]``.
        """
        (kind, found, _), is_one = self._predicted(inputs)
        names = self.labels
        if kind == "class":
            answers: Any = [names[number] if names else number for number in found]
        elif kind == "labels":
            answers = [[names[number] if names else number for number in numbers] for numbers in found]
        else:
            answers = np.asarray(found, dtype=np.float64) if kind == "value" else found
        return answers[0] if is_one else answers

    def predict_proba(self, inputs: Any) -> NDArray[Any]:
        """The probabilities ``float64[N, classes]``, or ``[classes]`` of one example alone."""
        (kind, _, shares), is_one = self._predicted(inputs)
        if shares is None:
            if kind == "class":
                return np.zeros((0, len(self.labels)))
            raise Error("this model has no classes, so no probabilities; ask it with predict")
        found: NDArray[Any] = shares[0] if is_one else shares
        return found

    def logits(self, inputs: Any) -> NDArray[Any]:
        """The numbers before softmax or sigmoid, ``float32[N, classes]``, or ``[classes]`` of one example alone."""
        question, is_one = asked(self.reads, inputs)
        found = self._inner.logits(question)
        answer: NDArray[Any] = found[0] if is_one else found
        return answer

    def _predicted(self, inputs: Any) -> tuple[Any, bool]:
        question, is_one = asked(self.reads, inputs)
        return self._inner.predict(question), is_one

    def tag(self, sentences: Any) -> Any:
        """Tags words: of a sentence, which is a text or a list of words, or of each of a list of lists.

        A tagged sentence is a dictionary: ``words``, each with ``word``, ``label`` and ``probability`` (None for a word
        without a token), and ``entities`` with ``label``, ``text``, ``start``, ``end`` (words) and ``probability``.
        """
        all_words, is_one = sentences_of(sentences)
        found = self._inner.tag(all_words)
        names = self.labels
        tagged = [sentence(words, tags, names) for words, tags in zip(all_words, found)]
        return tagged[0] if is_one else tagged

    def answer(self, question: Any, context: Any = None) -> Any:
        """Answers a question about a context, or each of a list of such pairs.

        An answer is a dictionary: ``text`` (empty for no answer), ``start`` and ``end`` (characters of the context),
        ``probability``, and ``null_margin``, by how much no answer scores higher.
        """
        pairs, is_one = pairs_of(question, context)
        keys = ("text", "start", "end", "probability", "null_margin")
        found = [dict(zip(keys, answer)) for answer in self._inner.answer(pairs)]
        return found[0] if is_one else found

    def embed(
        self, texts: Any, *, prompt_name: str | None = None, prompt: str | None = None, normalize: bool | None = None
    ) -> NDArray[Any]:
        """The vectors of texts, ``float32[N, elements]``, or ``[elements]`` of one text alone."""
        asked, is_one = texts_of(texts)
        found = self._inner.embed(asked, prompt_name=prompt_name, prompt=prompt, normalize=normalize)
        answer: NDArray[Any] = found[0] if is_one else found
        return answer

    def generate(self, prompt: str | Sequence[str], *, stream: bool = False, **flags: Any) -> Any:
        """Continues a text, or each of several; with ``stream=True`` it gives the pieces of one text as they come.

        Keywords are the flags of ``lessen generate``: ``tokens``, ``temperature``, ``top_k``, ``top_p``, ``min_p``,
        ``repetition_penalty``, ``no_repeat_ngram``, ``min_tokens``, ``beams``, ``length_penalty``, ``stop``,
        ``samples`` and ``seed``. Without them the model's own ``generation_config.json`` decides.
        """
        return self._continued(prompt, False, stream, flags)

    def chat(
        self,
        messages: str | Sequence[Mapping[str, Any]],
        *,
        system: str | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        chat_template: str | None = None,
        chat_variables: Mapping[str, Any] | None = None,
        continue_final_message: bool = False,
        stream: bool = False,
        **flags: Any,
    ) -> Any:
        """Answers a chat, messages with ``role`` and ``content``, or what a user says, by the model's chat template.
        Keywords are those of ``generate``."""
        said: list[dict[str, Any]] = (
            [{"role": "user", "content": messages}] if is_text(messages) else messages_of(messages)
        )
        if system is not None:
            said = [{"role": "system", "content": system}, *said]
        options = {
            "tools": None if tools is None else list(tools),
            "template": chat_template,
            "variables": dict(chat_variables or {}),
            "continue_final_message": continue_final_message,
        }
        prompt = _lessen.chat_prompt(self._inner, json.dumps(said), json.dumps(options))
        return self._continued(prompt, True, stream, flags)

    def _continued(self, prompt: Any, whole: bool, stream: bool, flags: dict[str, Any]) -> Any:
        stops = flags.pop("stop", None)
        if stops is not None:
            # The command reads \n as a line end.
            flags["stop"] = [one.replace("\\", "\\\\") for one in ([stops] if is_text(stops) else stops)]
        given = flags_of(flags)
        if stream:
            if not is_text(prompt):
                raise ArgumentError("stream=True gives the pieces of one text; give one prompt")
            pieces: Iterator[str] = _lessen.stream(self._inner, one_text(prompt, "one prompt"), given, whole)
            return pieces
        prompts, is_one = texts_of(prompt)
        texts = _lessen.generate(self._inner, prompts, given, whole)
        return texts[0] if is_one and flags.get("samples", 1) == 1 else texts

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """The parameters by name, as its folder has them. Arrays are views of the file; ``bf16`` is widened."""
        return weights_of(self.folder)


def messages_of(messages: Any) -> list[dict[str, Any]]:
    """The messages of a chat."""
    wanted = "what a user says, or a list of dictionaries with role and content"
    found = items(messages, wanted)
    for one in found:
        if not isinstance(one, Mapping):
            raise ArgumentError(f"a message is a {type(one).__name__}; give {wanted}")
    return [dict(one) for one in found]


def sentence(words: list[str], tags: Any, names: list[str]) -> dict[str, Any]:
    """A tagged sentence."""
    found, entities = tags
    one = [
        {
            "word": word,
            "label": None if tag is None else names[tag[0]],
            "probability": None if tag is None else tag[1][tag[0]],
        }
        for word, tag in zip(words, found)
    ]
    spans = [
        {"label": label, "text": " ".join(words[start:end]), "start": start, "end": end, "probability": probability}
        for label, start, end, probability in entities
    ]
    return {"words": one, "entities": spans}
