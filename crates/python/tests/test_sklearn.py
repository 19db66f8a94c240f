"""Estimators of scikit-learn."""

import pickle

import numpy as np
import pytest
from conftest import mails, squares

pytest.importorskip("sklearn")

from lessen.sklearn import ImageClassifier, MLPClassifier, MLPRegressor, TextClassifier
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

QUICK = {"max_epochs": 5, "threads": 1, "random_state": 1}


def rows(count=60):
    numbers = np.random.default_rng(1).normal(size=(count, 3))
    return numbers, np.where(numbers[:, 0] > 0, "up", "down")


def test_a_classifier_of_rows_is_searched_over_and_pickled():
    X, y = rows()
    classifier = MLPClassifier(learning_rate=0.01, **QUICK)
    with pytest.raises(NotFittedError):
        classifier.predict(X)
    search = GridSearchCV(classifier, {"learning_rate": [0.01, 1e-5]}, cv=2).fit(X, y)
    assert search.best_params_ == {"learning_rate": 0.01} and search.best_score_ > 0.7
    model = make_pipeline(StandardScaler(), clone(classifier)).fit(X, y)
    shares = model.predict_proba(X)
    assert shares.shape == (60, 2) and list(model.classes_) == ["down", "up"] and model.score(X, y) > 0.8
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), shares)


def test_a_regressor_predicts_numbers():
    X, _ = rows(80)
    y = 100 + 10 * X[:, 0]
    regressor = MLPRegressor(learning_rate=0.01, **{**QUICK, "max_epochs": 30}).fit(X, y)
    assert regressor.predict(X).shape == (80,) and regressor.score(X, y) > 0.7


def test_classifiers_of_texts_and_images_fit():
    texts, labels = mails()
    classifier = TextClassifier(class_weight="balanced", **QUICK).fit(texts, labels)
    assert classifier.score(texts, labels) > 0.9
    copy = pickle.loads(pickle.dumps(classifier))
    np.testing.assert_array_equal(copy.predict_proba(texts), classifier.predict_proba(texts))
    images, numbers = squares()
    seer = ImageClassifier(batch_size=8, **QUICK).fit(images, numbers)
    assert seer.predict(images).dtype == numbers.dtype and seer.score(images, numbers) > 0.9
