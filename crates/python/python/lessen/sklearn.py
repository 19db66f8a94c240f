"""Estimators for scikit-learn: they fit by recipes, predict, score, are cloned, searched over and pickled.

Each keeps the folder of its run in a temporary folder, and a pickle has the folder's files in it. ``recipe`` is a
dictionary of further keys of recipes, such as ``{"train.weight_decay": 0.1}``. ``fit`` takes ``sample_weight``, the weight
of each example in the loss. ``partial_fit`` trains once over what it is given, in batches of ``batch_size``, at a constant
learning rate; its first call decides vocabulary and scales and, without ``classes``, the classes. ``predict`` ends a run
of ``partial_fit`` with a checkpoint, from which the next call goes on.
"""

from __future__ import annotations

import io
import os
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from ._data import strings, weights
from ._errors import Error
from ._model import Model, load
from ._train import Trainer

#: The most steps of ``partial_fit``.
MOST_STEPS = 1_000_000_000


class _Fitted(BaseEstimator):
    """What all estimators share: a run in a temporary folder, and its model."""

    def _recipe(self, examples: int) -> dict[str, Any]:
        """The recipe for so many examples."""
        raise NotImplementedError

    def _begin(self, recipe: Mapping[str, Any], data: Any, **keys: Any) -> Trainer:
        """A trainer in a new temporary folder."""
        self._place = tempfile.TemporaryDirectory(prefix="lessen-")
        self._model: Model | None = None
        return self._trainer_in_place({**recipe, **(self.recipe or {})}, data, **keys)

    def _trainer_in_place(self, recipe: Mapping[str, Any], data: Any, **keys: Any) -> Trainer:
        init = {"init": self.init} if getattr(self, "init", None) else {}
        trainer = Trainer(recipe, data, out=self._folder, progress=False, threads=self.threads, **init, **keys)
        trainer._notes = False
        return trainer

    @property
    def _folder(self) -> str:
        return os.path.join(self._place.name, "run")

    def _fit(self, recipe: Mapping[str, Any], data: tuple[Any, Any], sample_weight: Any) -> None:
        self._trainer: Trainer | None = None
        self._first: Any = None
        run = self._begin(recipe, data, sample_weight=sample_weight).fit()
        self.report_ = dict(run)
        self.n_iter_ = int(run["steps"])
        self._model = load(self._folder, threads=self.threads)

    def _partial_fit(
        self, recipe: Mapping[str, Any], data: tuple[Any, Any], sample_weight: Any, classes: Sequence[str] | None
    ) -> None:
        """Trains once over the data in batches."""
        given = weights(sample_weight)
        if getattr(self, "_first", None) is None:
            endless = {
                **{key: value for key, value in recipe.items() if key not in ("train.epochs", "train.best")},
                "train.steps": MOST_STEPS,
                "train.schedule": "constant",
                "train.warmup": 0,
                "train.patience": 0,
                "train.eval_every": 0,
            }
            self._first = (data, given, classes)
            self._trainer = self._begin(endless, data, dev=data, sample_weight=given, classes=classes)
        elif self._trainer is None:
            first, weight, classes = self._first
            self._trainer = self._trainer_in_place({}, first, dev=first, sample_weight=weight, classes=classes)
        if given is None and self._first[1] is not None:
            given = np.ones(len(data[1]))
        size = max(1, min(self.batch_size, len(data[1])))
        for start in range(0, len(data[1]), size):
            part = slice(start, start + size)
            batch = (part_of(data[0], part), data[1][part])
            self.report_ = self._trainer.step(batch, sample_weight=None if given is None else given[part])
        self.n_iter_ = int(self.report_["step"])
        self._model = None

    def _asked(self) -> Model:
        check_is_fitted(self, "report_")
        if self._model is None:
            self._pause()
            self._model = load(self._folder, threads=self.threads)
        return self._model

    def _asked_about(self, X: Any) -> Any:
        """Inputs to predict, checked."""
        return X

    def _pause(self) -> None:
        trainer: Trainer | None = getattr(self, "_trainer", None)
        if trainer is not None:
            trainer.pause()

    def __getstate__(self) -> dict[str, Any]:
        self._pause()
        state = dict(super().__getstate__())
        place = state.pop("_place", None)
        for name in ("_model", "_trainer"):
            state.pop(name, None)
        if place is not None:
            kept = _without_checkpoints if self._first is None else None
            packed = io.BytesIO()
            with tarfile.open(fileobj=packed, mode="w") as archive:
                archive.add(self._folder, "run", filter=kept)
            state["_packed"] = packed.getvalue()
        return state

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        own = dict(state)
        packed = own.pop("_packed", None)
        super().__setstate__(own)
        if packed is not None:
            self._place = tempfile.TemporaryDirectory(prefix="lessen-")
            with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
                archive.extractall(self._place.name, filter="data")
            self._model = self._trainer = None


def part_of(inputs: Any, part: slice) -> Any:
    """Some of the inputs: of arrays and lists, or of each of the columns."""
    return {name: values[part] for name, values in inputs.items()} if isinstance(inputs, dict) else inputs[part]


def _without_checkpoints(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if "/checkpoints" in entry.name else entry


class _Classifier(ClassifierMixin, _Fitted):
    """Classes as numbers of their order, which the runs learn as texts."""

    def _inputs(self, X: Any, y: Any, reset: bool) -> tuple[Any, Any]:
        """Inputs and labels, checked; ``reset`` where they are the first ones."""
        return X, y

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Trains on inputs and a class for each; ``sample_weight`` is the weight of each in the loss."""
        X, y = self._inputs(X, y, True)
        labels = self._encoded(y, None)
        recipe = {**self._recipe(len(labels)), "train.best": "accuracy", **self._class_keys()}
        self._fit(recipe, (X, labels), sample_weight)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Any:
        """Trains once over inputs and a class for each. The first call has all ``classes``, or those of ``y`` are all."""
        is_first = getattr(self, "_first", None) is None
        X, y = self._inputs(X, y, is_first)
        labels = self._encoded(y, classes if is_first else self.classes_)
        recipe = {**self._recipe(len(labels)), **self._class_keys()}
        names = [name_of(number) for number in range(len(self.classes_))]
        self._partial_fit(recipe, (X, labels), sample_weight, names)
        return self

    def _encoded(self, labels: Any, classes: Any) -> list[str]:
        check_classification_targets(labels)
        labels = column_or_1d(labels, warn=True)
        self.classes_ = np.unique(labels if classes is None else classes)
        if len(self.classes_) < 2:
            raise Error("the labels have one class alone; a classifier needs samples of at least two classes")
        numbers = np.searchsorted(self.classes_, labels)
        found = self.classes_[np.minimum(numbers, len(self.classes_) - 1)]
        if not np.array_equal(found, labels):
            other = np.asarray(labels)[found != labels][0]
            raise Error(f"the label {other!r} is none of the classes; name all classes at the first partial_fit")
        return [name_of(number) for number in numbers]

    def _class_keys(self) -> dict[str, Any]:
        weight = self.class_weight
        if weight is None:
            return {}
        if weight == "balanced":
            return {"train.class_weights": "balanced"}
        listed = [float(weight.get(name, 1.0)) for name in self.classes_.tolist()]
        return {"train.class_weights": ",".join(map(str, listed))}

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """The probabilities ``float64[N, classes]``, in the order of ``classes_``."""
        found = self._asked().predict_proba(self._asked_about(X))
        shares: NDArray[Any] = found[:, np.argsort(self._asked().labels)]
        return shares

    def predict(self, X: Any) -> NDArray[Any]:
        """The most likely class of each sample."""
        places = np.argmax(self.predict_proba(X), axis=1)
        classes: NDArray[Any] = self.classes_[places]
        return classes


def name_of(number: int) -> str:
    """The name of a class, so that names are sorted as numbers are."""
    return f"class{number:06d}"


def seed_of(random_state: Any) -> int:
    """The seed of a run: a number itself, or one that a generator draws."""
    if random_state is None:
        return 1
    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    return int(random_state.randint(1 << 31))


class _Rows(_Fitted):
    """Estimators of rows of numbers."""

    def __init__(
        self,
        *,
        max_epochs: int = 200,
        batch_size: int = 16,
        learning_rate: float = 1e-3,
        weight_decay: float = 0.1,
        patience: int = 25,
        validation_fraction: float = 0.1,
        random_state: int | None = None,
        recipe: Mapping[str, Any] | None = None,
        threads: int | None = None,
    ) -> None:
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.recipe = recipe
        self.threads = threads

    def _recipe(self, examples: int) -> dict[str, Any]:
        return {
            "model.kind": "wide-mlp",
            "data.format": "table",
            "data.label": "label",
            "data.held_out": self.validation_fraction,
            "train.batch": max(1, min(self.batch_size, examples // 2)),
            "train.epochs": self.max_epochs,
            "train.lr": self.learning_rate,
            "train.weight_decay": self.weight_decay,
            "train.schedule": "linear",
            "train.warmup": 0.05,
            "train.patience": self.patience,
            "train.checkpoint_every": 0,
            "train.seed": seed_of(self.random_state),
        }

    def _asked_about(self, X: Any) -> Any:
        check_is_fitted(self, "report_")
        return validate_data(self, X, reset=False, dtype=np.float64)


class MLPClassifier(_Classifier, _Rows):
    """A multilayer perceptron that tells classes of rows of numbers, ``[N, columns]``, apart."""

    def __init__(
        self,
        *,
        max_epochs: int = 200,
        batch_size: int = 16,
        learning_rate: float = 1e-3,
        weight_decay: float = 0.1,
        patience: int = 25,
        validation_fraction: float = 0.1,
        class_weight: Mapping[Any, float] | str | None = None,
        random_state: int | None = None,
        recipe: Mapping[str, Any] | None = None,
        threads: int | None = None,
    ) -> None:
        super().__init__(
            max_epochs=max_epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            patience=patience,
            validation_fraction=validation_fraction,
            random_state=random_state,
            recipe=recipe,
            threads=threads,
        )
        self.class_weight = class_weight

    def _inputs(self, X: Any, y: Any, reset: bool) -> tuple[Any, Any]:
        fewest = 2 if reset else 1
        X, y = validate_data(self, X, y, reset=reset, dtype=np.float64, ensure_min_samples=fewest)
        return X, y


class MLPRegressor(RegressorMixin, _Rows):
    """A multilayer perceptron that predicts a number for each row of numbers, ``[N, columns]``."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MLPRegressor:
        """Trains on rows and a number for each; ``sample_weight`` is the weight of each in the loss."""
        X, values = self._inputs(X, y, True)
        self._fit({**self._recipe(len(values)), **PROBLEM, "train.best": "mse"}, (X, values), sample_weight)
        return self

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> MLPRegressor:
        """Trains once over rows and a number for each."""
        X, values = self._inputs(X, y, getattr(self, "_first", None) is None)
        self._partial_fit({**self._recipe(len(values)), **PROBLEM}, (X, values), sample_weight, None)
        return self

    def _inputs(self, X: Any, y: Any, reset: bool) -> tuple[Any, NDArray[Any]]:
        """Rows, and their numbers with the mean 0 and the deviation 1 of the first ones."""
        fewest = 2 if reset else 1
        X, y = validate_data(self, X, y, reset=reset, dtype=np.float64, y_numeric=True, ensure_min_samples=fewest)
        values = column_or_1d(y, warn=True).astype(np.float64)
        if reset:
            self._mean, self._scale = float(values.mean()), float(values.std()) or 1.0
        return X, (values - self._mean) / self._scale

    def predict(self, X: Any) -> NDArray[Any]:
        """The number of each row, ``float64[N]``."""
        values: NDArray[Any] = self._asked().predict(self._asked_about(X)) * self._scale + self._mean
        return values


#: The keys of a regression.
PROBLEM = {"data.problem": "regression"}


class TextClassifier(_Classifier):
    """A classifier of texts: a linear model of words, or with ``init`` a model of a Hugging Face folder."""

    def __init__(
        self,
        *,
        init: str | os.PathLike[str] | None = None,
        max_epochs: int | None = None,
        batch_size: int = 16,
        learning_rate: float | None = None,
        max_length: int = 128,
        patience: int = 0,
        validation_fraction: float = 0.1,
        class_weight: Mapping[Any, float] | str | None = None,
        random_state: int | None = None,
        recipe: Mapping[str, Any] | None = None,
        threads: int | None = None,
    ) -> None:
        self.init = init
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.max_length = max_length
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.class_weight = class_weight
        self.random_state = random_state
        self.recipe = recipe
        self.threads = threads

    def _recipe(self, examples: int) -> dict[str, Any]:
        plain = {"model.kind": "linear", "data.tokenizer": "wordpiece", "data.vocab": 8000}
        tuned = {"model.kind": "bert", "model.expects_init": True}
        own, epochs, rate = (tuned, 3, 3e-5) if self.init else (plain, 20, 0.02)
        return {
            **own,
            "data.format": "labelled",
            "data.max_length": self.max_length,
            "data.held_out": self.validation_fraction,
            "train.batch": max(1, min(self.batch_size, examples // 2)),
            "train.epochs": epochs if self.max_epochs is None else self.max_epochs,
            "train.lr": rate if self.learning_rate is None else self.learning_rate,
            "train.schedule": "linear",
            "train.warmup": 0.05,
            "train.patience": self.patience,
            "train.checkpoint_every": 0,
            "train.seed": seed_of(self.random_state),
        }

    def _inputs(self, X: Any, y: Any, reset: bool) -> tuple[Any, Any]:
        return strings(X), y

    def _asked_about(self, X: Any) -> Any:
        return strings(X)


class ImageClassifier(_Classifier):
    """A classifier of images, bytes ``[N, H, W]`` or ``[N, H, W, C]`` or images of Pillow; ``network`` is a
    ``model.kind``, and ``init`` a Hugging Face folder of a ViT or a ResNet."""

    def __init__(
        self,
        *,
        network: str = "convnet-3",
        init: str | os.PathLike[str] | None = None,
        max_epochs: int = 10,
        batch_size: int = 64,
        learning_rate: float = 0.05,
        patience: int = 0,
        validation_fraction: float = 0.1,
        class_weight: Mapping[Any, float] | str | None = None,
        random_state: int | None = None,
        recipe: Mapping[str, Any] | None = None,
        threads: int | None = None,
    ) -> None:
        self.network = network
        self.init = init
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.class_weight = class_weight
        self.random_state = random_state
        self.recipe = recipe
        self.threads = threads

    def _recipe(self, examples: int) -> dict[str, Any]:
        return {
            "model.kind": self.network,
            "data.format": "images",
            "data.held_out": self.validation_fraction,
            "train.batch": max(1, min(self.batch_size, examples // 2)),
            "train.epochs": self.max_epochs,
            "train.lr": self.learning_rate,
            "train.schedule": "one-cycle",
            "train.warmup": 0.2,
            "train.patience": self.patience,
            "train.checkpoint_every": 0,
            "train.seed": seed_of(self.random_state),
            "optimizer.kind": "sgd",
            "optimizer.momentum": 0.9,
        }


class TextEmbedder(TransformerMixin, BaseEstimator):
    """A transformer of texts to vectors, by a model of a run, of Hugging Face or of sentence-transformers."""

    def __init__(
        self,
        folder: str | os.PathLike[str] = "",
        *,
        prompt: str | None = None,
        normalize: bool | None = None,
        precision: str | None = None,
        threads: int | None = None,
    ) -> None:
        self.folder = folder
        self.prompt = prompt
        self.normalize = normalize
        self.precision = precision
        self.threads = threads

    def fit(self, X: Any, y: Any = None) -> TextEmbedder:
        """Opens the model; it learns nothing of the texts."""
        self._model = load(self.folder, precision=self.precision, threads=self.threads)
        self.n_elements_ = int(self._model.embed("a text").shape[0])
        return self

    def transform(self, X: Sequence[str]) -> NDArray[Any]:
        """The vectors ``float32[N, elements]`` of texts."""
        check_is_fitted(self, "n_elements_")
        if self._model is None:
            self._model = load(self.folder, precision=self.precision, threads=self.threads)
        return self._model.embed(strings(X), prompt=self.prompt, normalize=self.normalize)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), **({"_model": None} if hasattr(self, "_model") else {})}
