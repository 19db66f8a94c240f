"""Trainings, forecasts, and the other jobs of Lessen."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _lessen
from ._data import is_path, memory
from ._errors import ArgumentError, Error
from ._flags import flags_of, job_flags, text_of
from ._model import Model, load
from ._processes import ALONE, DEADLINE, checked_group, processes_of
from ._show import Listener, Result
from ._weights import weights_of

Recipe = str | os.PathLike[str] | Mapping[str, Any]


class Run(Result):
    """The report of a run, as its ``report.json`` has it; ``run.out`` is its folder."""

    @property
    def folder(self) -> str:
        """The folder of the run."""
        return str(self["out"])

    def model(self, **options: Any) -> Model:
        """The model that the run results in, as ``lessen.load`` opens it."""
        return load(self.folder, **options)


class Plan(Result):
    """Memory and time of a training that is not begun: a page in notebooks, else a text."""

    def __init__(self, values: Mapping[str, Any], text: str, page: str, shortfall: str | None) -> None:
        account = values.get("account_bytes")
        own = None if account is None else sum(size for part, size in account.items() if part != "code")
        if own is not None:
            mib = f"{own / (1 << 20):.1f} MiB"
            line = f"of it Lessen's  {mib}; code is the whole process's, whose other memory is not counted"
            text = f"{text.rstrip()}\n{line}\n"
        super().__init__(values, text)
        #: Bytes that Lessen allocates, or None for a budget that does not suffice. The peak has the code of the whole
        #: process beside, with that of Python and other libraries.
        self.own_bytes = own
        #: The page of the plan, HTML that needs nothing else.
        self.page = page
        #: Why the budget does not suffice; None where it does.
        self.shortfall = shortfall

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        from html import escape

        return f'<iframe srcdoc="{escape(self.page)}" style="width: 100%; height: 40em; border: 0"></iframe>'


@contextmanager
def named(recipe: Recipe) -> Iterator[str]:
    """The name of a recipe or of its file; keys and values are written into one."""
    if not isinstance(recipe, Mapping):
        yield os.fspath(recipe)
        return
    with tempfile.TemporaryDirectory(prefix="lessen-") as folder:
        path = os.path.join(folder, "own.toml")
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{key} = {toml(value, key)}\n" for key, value in recipe.items())
        yield path


def toml(value: Any, key: str) -> str:
    """A value of a recipe."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else text_of(value, key)


class Trainer:
    """A training that can be planned, done, resumed and asked.

    ``recipe`` is the name of a built-in recipe, a TOML file, or a dictionary of keys and values. ``data`` is a path, or
    data in memory: a pair of inputs and labels, texts, frames, datasets, dictionaries of columns or of splits. ``dev``
    and ``test`` are splits beside it, ``classes`` the names of classes in their order, and ``sample_weight`` the weight
    of each training example of texts, rows or images with labels in the loss. Keywords are flags of
    ``lessen train`` (``init``, ``out``, ``steps``, ``budget``, ``seed``, ``threads``) and keys of recipes, of which
    ``train_lr`` means ``train.lr``. ``callbacks`` are objects with some of ``on_step_end(step, numbers)``,
    ``on_evaluate(step, scores)`` and ``on_save(step, folder)``; true as an answer ends the run after its step.

    ``group`` is a group of ``torch.distributed``, such as ``dist.group.WORLD``, whose processes share the training: all
    make the same trainer and call the same methods. The first one has the folder, shows progress and warns. A process
    that does not answer for ``deadline`` seconds (120) is an error on the others.
    """

    def __init__(
        self,
        recipe: Recipe,
        data: Any = None,
        *,
        dev: Any = None,
        test: Any = None,
        classes: Sequence[str] | None = None,
        sample_weight: Any = None,
        callbacks: Sequence[Any] = (),
        progress: bool | None = None,
        group: Any = ALONE,
        deadline: float | None = None,
        **keys: Any,
    ) -> None:
        self.recipe = recipe
        group = checked_group(group)
        if group is None and deadline is not None:
            raise ArgumentError("deadline is for processes that share a training; give their group, or leave it out")
        self._group = group
        self._deadline = DEADLINE if deadline is None else deadline
        self._is_first = group is None or processes_of(group).rank == 0
        self._path = os.fspath(data) if data is not None and is_path(data) else None
        in_memory = data is not None and self._path is None
        if not in_memory and any(one is not None for one in (dev, test, classes, sample_weight)):
            raise ArgumentError(
                "dev, test, classes and sample_weight go with data in memory; name files by data_dev and data_test"
            )
        self._memory = memory(data, dev, test, classes, sample_weight) if in_memory else None
        self._stepped: _lessen.SteppedRun | None = None
        self._notes = True
        self._callbacks = callbacks
        self._progress = progress
        self._keys = dict(keys)
        out = self._keys.pop("out", None)
        #: The folder of the run; None before one has begun without a name.
        self.folder: str | None = None if out is None else os.fspath(out)

    def _args(self, recipe: str, keys: Mapping[str, Any], *more: str) -> list[str]:
        data = [] if self._path is None else [f"--data={self._path}"]
        out = [] if self.folder is None else [f"--out={self.folder}"]
        return [recipe, *data, *out, *more, *job_flags(keys)]

    def plan(self, *, sweep: bool = False, batches: Sequence[int] = ()) -> Plan:
        """Plans without running: bytes, seconds, choices, the smallest budget. ``sweep`` adds times under budgets from
        the smallest to none, ``batches`` those of other batch sizes."""
        with named(self.recipe) as recipe:
            found, text, page, shortfall = _lessen.plan(
                self._args(recipe, self._keys), self._memory, sweep, list(batches)
            )
        return Plan(json.loads(found), text, page, shortfall)

    def fit(self) -> Run:
        """Trains to the end, after steps of ``step`` from there on. Ctrl-C ends the run after its step with a checkpoint
        and is raised; ``resume`` goes on."""
        if self._stepped is not None:
            return self.resume()
        with named(self.recipe) as recipe:
            return self._train(self._args(recipe, self._keys))

    def resume(self, **keys: Any) -> Run:
        """Goes on with the run in the folder from its newest checkpoint; keywords change its settings, such as
        ``steps``."""
        self.pause()
        if self.folder is None and self._is_first:
            raise Error("no run has begun, so none can be resumed; name its folder with out=, or call fit")
        return self._train(self._resumed(keys))

    def _resumed(self, keys: Mapping[str, Any]) -> list[str]:
        threads: dict[str, Any] = {name: self._keys[name] for name in ("threads", "device") if name in self._keys}
        return self._args("", {**threads, **keys}, "--resume")[1:]

    def _listener(self, progress: bool | None, *more: Any) -> Listener:
        if not self._is_first:
            return Listener(False, [*self._callbacks, *more], self.folder, ())
        heard = ("note", "warning") if self._notes else ("warning",)
        return Listener(progress, [*self._callbacks, Begun(self), *more], self.folder, heard)

    def _joining(self) -> tuple[Any, float] | None:
        return None if self._group is None else (processes_of(self._group), self._deadline)

    def _train(self, args: list[str]) -> Run:
        listener = self._listener(self._progress)
        return self._reported(_lessen.train(args, self._memory, listener, self._joining()))

    def _reported(self, report: tuple[str, str, bool]) -> Run:
        run = Run(json.loads(report[0]), report[1])
        self.folder = run.folder
        return run

    def step(self, batch: Any, *, sample_weight: Any = None) -> dict[str, float]:
        """Trains one step on a batch of your own, data in memory of the kind that the trainer was made with: a pair of
        inputs and labels, a frame, texts. The trainer's data still says vocabulary, classes and scales, and is evaluated
        on. The first step begins the run, or goes on with that in the folder; evaluations and checkpoints come as the
        recipe says, and after its last step the run ends as with ``fit``.

        Returns ``step``, ``loss``, ``lr`` and, where the recipe clips, ``gradient_norm``. Raises ``lessen.Error`` for a
        batch that does not fit, which changes nothing.
        """
        given = memory(batch, sample_weight=sample_weight)
        newest = Newest()
        listener = self._listener(False, newest)
        if self._stepped is None:
            self._stepped = self._begun_stepping()
        if self._stepped.step(given, listener):
            run = self.pause()
            if run is not None and not newest.numbers:
                done = f"the run {run.folder} has done its {run['steps']} steps"
                raise Error(f"{done}; resume it with more, or start another")
        return newest.numbers

    def _begun_stepping(self) -> _lessen.SteppedRun:
        has_begun = self.folder is not None and os.path.isdir(self.folder)
        with named(self.recipe) as recipe:
            args = [self._args(recipe, self._keys), self._resumed({})]
            return _lessen.SteppedRun(args, has_begun, self._memory, self._listener(False), self._joining())

    def pause(self) -> Run | None:
        """Ends the run that ``step`` has begun, with a checkpoint from which ``step``, ``fit`` and ``resume`` go on; its
        report, or None where none was under way. What asks for the model does so by itself."""
        if self._stepped is None:
            return None
        stepped, self._stepped = self._stepped, None
        return self._reported(stepped.end(self._listener(False)))

    def _ended(self) -> str:
        self.pause()
        if self.folder is None or not os.path.isdir(self.folder):
            raise Error("nothing is trained yet; call fit first")
        return self.folder

    def evaluate(self, data: Any = None, split: str | None = None) -> Result:
        """The scores of the model on a split of the data that was trained on, or on a file or folder. Of data in memory
        they are those of its split for evaluations, of a run of ``step`` those of its present parameters."""
        if data is None and split is None and self._stepped is not None:
            return Result(dict(self._stepped.evaluate(self._listener(False))))
        folder = self._ended()
        if data is None and self._memory is not None:
            path = os.path.join(folder, "report.json")
            if not os.path.exists(path):
                raise Error(
                    f"the run {folder} has not ended; call resume first, or name a file or folder to score it on"
                )
            with open(path, encoding="utf-8") as file:
                report = json.load(file)
            return Result({name: value for name, value in report.items() if name.startswith("dev_")})
        return evaluate(folder, data, split=split)

    def save(self, out: str | os.PathLike[str], **flags: Any) -> str:
        """Writes the model as a Hugging Face folder of its own; keywords are flags of ``lessen export``."""
        said(["export", *flags_of(flags), "--", self._ended(), os.fspath(out)])
        return os.fspath(out)

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """The parameters by name; arrays are views of the folder's file."""
        return weights_of(self._ended())

    def model(self, **options: Any) -> Model:
        """The trained model, as ``lessen.load`` opens it."""
        return load(self._ended(), **options)


class Newest:
    """Keeps the numbers of the newest step."""

    def __init__(self) -> None:
        self.numbers: dict[str, float] = {}

    def on_step_end(self, step: int, numbers: Mapping[str, float]) -> None:
        kept = ("loss", "lr", "gradient_norm")
        self.numbers = {"step": step, **{name: numbers[name] for name in kept if name in numbers}}


class Begun:
    """Notes the folder of a run from its first checkpoint, so that an interrupted one can be resumed."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer

    def on_save(self, step: int, folder: str) -> None:
        if self._trainer.folder is None or not os.path.isdir(self._trainer.folder):
            self._trainer.folder = os.path.dirname(os.path.dirname(folder))


def train(
    recipe: Recipe | None = None,
    data: Any = None,
    *,
    minutes: float | None = None,
    resume: bool = False,
    progress: bool | None = None,
    **keys: Any,
) -> Run:
    """Trains by a recipe, as ``lessen train`` does, and writes the same folder. Arguments are those of ``Trainer``.

    Without a recipe, a file or folder ``data`` is looked at, and everything is chosen within ``minutes``.

    Raises ``lessen.Error`` for a mistake in data, settings or folder; ``KeyboardInterrupt`` after Ctrl-C, when the
    checkpoint is written.
    """
    if recipe is not None:
        if minutes is not None:
            raise Error("minutes are for data without a recipe; leave them out, or give steps")
        trainer = Trainer(recipe, data, progress=progress, **keys)
        return trainer.resume() if resume else trainer.fit()
    if checked_group(keys.get("group", ALONE)) is not None:
        raise Error("several processes share a training with a recipe; name one, or train in one process without group")
    if data is None or not is_path(data):
        raise Error("there is no recipe; name one, such as 'bert-classifier', or give the path of a file to look at")
    args = ["train", f"--data={os.fspath(data)}", *flags_of({"minutes": minutes, "resume": resume}), *job_flags(keys)]
    return Run(said(args, progress))


def plan(recipe: Recipe, data: Any = None, *, sweep: bool = False, batches: Sequence[int] = (), **keys: Any) -> Plan:
    """Plans a training without running it; arguments are those of ``Trainer`` and of its ``plan``."""
    return Trainer(recipe, data, **keys).plan(sweep=sweep, batches=batches)


def said(args: list[str], progress: bool | None = None) -> dict[str, Any]:
    """What a command answers to these arguments as JSON."""
    text, _ = _lessen.answer([*args, "--json"] if args[0] != "export" else args, Listener(progress))
    found: dict[str, Any] = json.loads(text) if text.lstrip().startswith("{") else {"text": text}
    return found


def evaluate(folder: str | os.PathLike[str], data: Any = None, *, split: str | None = None, **keys: Any) -> Result:
    """The scores of a saved model on a split of its data, or on a file or folder; as ``lessen eval``."""
    return Result(said(["eval", os.fspath(folder), *flags_of({"data": data, "split": split}), *job_flags(keys)]))


def quantize(folder: str | os.PathLike[str], out: str | os.PathLike[str], **flags: Any) -> Result:
    """Writes a model, or an ONNX file, with integers in place of weights; keywords are flags of ``lessen quantize``:
    ``weights="int4"``, ``group``, ``calibrate``, ``method``, ``data``."""
    return Result(said(["quantize", os.fspath(folder), f"--out={os.fspath(out)}", *flags_of(flags)]))


def convert(source: str | os.PathLike[str], out: str | os.PathLike[str] | None = None, **flags: Any) -> Result:
    """Turns LayerNorms into RMSNorm or CRMSNorm where the results stay the same; keywords are flags of ``lessen
    convert``: ``norm``, ``target``, ``as_``, ``dry_run``."""
    return Result(said(["convert", os.fspath(source), *flags_of({"output": out, **flags})]))


class Condensed(Result):
    """Condensed images; ``condensed.folder`` is their folder."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays of the folder: ``images``, ``float32[N, H, W, C]`` as networks read them, their ``labels``
        ``int32[N]``, and ``mean`` and ``std`` of the channels."""
        with np.load(os.path.join(self["folder"], "condensed.npz")) as found:
            return {name: found[name] for name in found.files}


def condense(
    recipe: str | os.PathLike[str], data: Any = None, *, progress: bool | None = None, **keys: Any
) -> Condensed:
    """Condenses the images of a recipe into a few that teach nearly as much; keywords are flags of ``lessen condense``
    and keys of recipes."""
    return Condensed(said(["condense", os.fspath(recipe), *flags_of({"data": data}), *job_flags(keys)], progress))


def search(recipe: str | os.PathLike[str], data: Any = None, *, progress: bool | None = None, **keys: Any) -> Result:
    """Searches for architecture and bits of a network; keywords are flags of ``lessen search`` and keys of recipes."""
    return Result(said(["search", os.fspath(recipe), *flags_of({"data": data}), *job_flags(keys)], progress))


def energy(model: str | os.PathLike[str], **flags: Any) -> Result:
    """Models cycles, energy and time of a model on an accelerator, layer by layer; keywords are flags of ``lessen
    energy``."""
    return Result(said(["energy", os.fspath(model), *flags_of(flags)]))
