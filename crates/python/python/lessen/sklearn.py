"""Estimators for scikit-learn: they fit by recipes, predict, score, are cloned, searched over and pickled.

Each keeps the folder of its run in a temporary folder, and a pickle has the folder's files in it. ``recipe`` is a
dictionary of further keys of recipes, such as ``{"train.weight_decay": 0.1}``.
"""

from __future__ import annotations

import io
import os
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from ._data import strings
from ._errors import Error
from ._model import Model, load
from ._train import Trainer


class _Fitted(BaseEstimator):
    """What all estimators share: a run in a temporary folder, and its model."""

    def _trained(self, recipe: Mapping[str, Any], data: Any, **keys: Any) -> None:
        self._place = tempfile.TemporaryDirectory(prefix="lessen-")
        folder = os.path.join(self._place.name, "run")
        own = {**recipe, **(self.recipe or {})}
        run = Trainer(own, data, out=folder, progress=False, threads=self.threads, **keys).fit()
        self.report_ = dict(run)
        self.n_iter_ = int(run["steps"])
        self._model: Model | None = load(folder, threads=self.threads)

    def _asked(self) -> Model:
        check_is_fitted(self, "report_")
        if self._model is None:
            self._model = load(os.path.join(self._place.name, "run"), threads=self.threads)
        return self._model

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        place = state.pop("_place", None)
        state.pop("_model", None)
        if place is not None:
            packed = io.BytesIO()
            with tarfile.open(fileobj=packed, mode="w") as archive:
                archive.add(os.path.join(place.name, "run"), "run", filter=_without_checkpoints)
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
            self._model = None


def _without_checkpoints(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if "/checkpoints" in entry.name else entry


class _Classifier(ClassifierMixin, _Fitted):
    """Classes as numbers of their order, which the runs learn as texts."""

    def _encoded(self, labels: Any) -> list[str]:
        check_classification_targets(labels)
        self.classes_, numbers = np.unique(column_or_1d(labels, warn=True), return_inverse=True)
        if len(self.classes_) < 2:
            raise Error("the labels have one class alone; a classifier needs samples of at least two classes")
        return [f"class{number:06d}" for number in numbers]

    def _class_keys(self) -> dict[str, Any]:
        weight = self.class_weight
        if weight is None:
            return {}
        if weight == "balanced":
            return {"train.class_weights": "balanced"}
        listed = [float(weight.get(name, 1.0)) for name in self.classes_.tolist()]
        return {"train.class_weights": ",".join(map(str, listed))}

    def _shares(self, found: np.ndarray) -> np.ndarray:
        order = np.argsort(self._asked().labels)
        shares: np.ndarray = found[:, order]
        return shares

    def predict(self, X: Any) -> np.ndarray:
        """The most likely class of each sample."""
        places = np.argmax(self.predict_proba(X), axis=1)
        classes: np.ndarray = self.classes_[places]
        return classes


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

    def _fit_rows(self, X: np.ndarray, label: Any, keys: Mapping[str, Any]) -> None:
        recipe = {
            "model.kind": "wide-mlp",
            "data.format": "table",
            "data.label": "label",
            "data.held_out": self.validation_fraction,
            "train.batch": max(1, min(self.batch_size, len(X) // 2)),
            "train.epochs": self.max_epochs,
            "train.lr": self.learning_rate,
            "train.weight_decay": self.weight_decay,
            "train.schedule": "linear",
            "train.warmup": 0.05,
            "train.patience": self.patience,
            "train.checkpoint_every": 0,
            "train.seed": seed_of(self.random_state),
            **keys,
        }
        columns = {f"x{number}": X[:, number] for number in range(X.shape[1])}
        self._trained(recipe, {**columns, "label": label})

    def _rows(self, X: Any) -> Any:
        check_is_fitted(self, "report_")
        return validate_data(self, X, reset=False, dtype=np.float64)


def seed_of(random_state: Any) -> int:
    """The seed of a run: a number itself, or one that a generator draws."""
    if random_state is None:
        return 1
    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    return int(random_state.randint(1 << 31))


class MLPClassifier(_Classifier, _Rows):
    """A multilayer perceptron that tells classes of rows of numbers apart."""

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

    def fit(self, X: Any, y: Any) -> MLPClassifier:
        """Trains on rows ``[N, columns]`` and a class for each."""
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        labels = self._encoded(y)
        self._fit_rows(X, labels, {"train.best": "accuracy", **self._class_keys()})
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probabilities ``float64[N, classes]``, in the order of ``classes_``."""
        return self._shares(self._asked().predict_proba(self._rows(X)))


class MLPRegressor(RegressorMixin, _Rows):
    """A multilayer perceptron that predicts a number for each row of numbers."""

    def fit(self, X: Any, y: Any) -> MLPRegressor:
        """Trains on rows ``[N, columns]`` and a number for each."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
        values = column_or_1d(y, warn=True).astype(np.float64)
        self._mean, self._scale = float(values.mean()), float(values.std()) or 1.0
        scaled = (values - self._mean) / self._scale
        self._fit_rows(X, scaled, {"data.problem": "regression", "train.best": "mse"})
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The number of each row, ``float64[N]``."""
        values: np.ndarray = self._asked().predict(self._rows(X)) * self._scale + self._mean
        return values


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

    def fit(self, X: Sequence[str], y: Any) -> TextClassifier:
        """Trains on texts and a class for each."""
        texts = strings(X)
        labels = self._encoded(y)
        plain = {
            "model.kind": "linear",
            "data.tokenizer": "wordpiece",
            "data.vocab": 8000,
            "train.epochs": 20,
            "train.lr": 0.02,
        }
        recipe = {
            **(
                {"model.kind": "bert", "model.expects_init": True, "train.epochs": 3, "train.lr": 3e-5}
                if self.init
                else plain
            ),
            "data.format": "labelled",
            "data.max_length": self.max_length,
            "data.held_out": self.validation_fraction,
            "train.batch": max(1, min(self.batch_size, len(texts) // 2)),
            "train.schedule": "linear",
            "train.warmup": 0.05,
            "train.patience": self.patience,
            "train.best": "accuracy",
            "train.checkpoint_every": 0,
            "train.seed": seed_of(self.random_state),
            **self._class_keys(),
        }
        for key, value in (("train.epochs", self.max_epochs), ("train.lr", self.learning_rate)):
            if value is not None:
                recipe[key] = value
        self._trained(recipe, (texts, labels), init=self.init)
        return self

    def predict_proba(self, X: Sequence[str]) -> np.ndarray:
        """The probabilities ``float64[N, classes]``, in the order of ``classes_``."""
        return self._shares(self._asked().predict_proba(strings(X)))


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

    def fit(self, X: Any, y: Any) -> ImageClassifier:
        """Trains on images and a class for each."""
        labels = self._encoded(y)
        recipe = {
            "model.kind": self.network,
            "data.format": "images",
            "data.held_out": self.validation_fraction,
            "train.batch": max(1, min(self.batch_size, len(labels) // 2)),
            "train.epochs": self.max_epochs,
            "train.lr": self.learning_rate,
            "train.schedule": "one-cycle",
            "train.warmup": 0.2,
            "train.patience": self.patience,
            "train.best": "accuracy",
            "train.checkpoint_every": 0,
            "train.seed": seed_of(self.random_state),
            "optimizer.kind": "sgd",
            "optimizer.momentum": 0.9,
            **self._class_keys(),
        }
        self._trained(recipe, (X, labels), init=self.init)
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probabilities ``float64[N, classes]``, in the order of ``classes_``."""
        return self._shares(self._asked().predict_proba(X))


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

    def transform(self, X: Sequence[str]) -> np.ndarray:
        """The vectors ``float32[N, elements]`` of texts."""
        check_is_fitted(self, "n_elements_")
        if self._model is None:
            self._model = load(self.folder, precision=self.precision, threads=self.threads)
        return self._model.embed(strings(X), prompt=self.prompt, normalize=self.normalize)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), **({"_model": None} if hasattr(self, "_model") else {})}
