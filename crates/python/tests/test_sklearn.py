"""Estimators of scikit-learn."""

import pickle
import subprocess
import sys

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


def test_estimators_learn_in_parts_and_go_on_after_a_pickle():
    X, y = rows(80)
    classifier = MLPClassifier(learning_rate=0.01, threads=1)
    for start in range(0, 80, 20):
        classifier.partial_fit(X[start : start + 20], y[start : start + 20], classes=["up", "down"])
    assert classifier.n_iter_ == 8 and list(classifier.classes_) == ["down", "up"]
    copy = pickle.loads(pickle.dumps(classifier))
    np.testing.assert_array_equal(copy.predict_proba(X), classifier.predict_proba(X))
    for one in (copy, classifier):
        one.partial_fit(X[:20], y[:20])
    np.testing.assert_array_equal(copy.predict_proba(X), classifier.predict_proba(X))
    with pytest.raises(ValueError, match="is none of the classes"):
        classifier.partial_fit(X[:1], ["sideways"])
    regressor = MLPRegressor(learning_rate=0.01, threads=1)
    for _ in range(6):
        regressor.partial_fit(X, 5 + X[:, 0])
    assert regressor.score(X, 5 + X[:, 0]) > 0.7
    texts, labels = mails()
    for one, inputs, outputs in (
        (TextClassifier(threads=1), texts, labels),
        (ImageClassifier(batch_size=8, threads=1), *squares()),
    ):
        for _ in range(4):
            one.partial_fit(inputs, outputs)
        assert one.score(inputs, outputs) > 0.9


def test_weights_of_samples_count_as_those_of_their_classes():
    X, y = rows()
    weights = np.where(y == "up", 4.0, 0.25)
    of_samples = MLPClassifier(**QUICK).fit(X, y, sample_weight=weights)
    of_classes = MLPClassifier(class_weight={"up": 4.0, "down": 0.25}, **QUICK).fit(X, y)
    np.testing.assert_array_equal(of_samples.predict_proba(X), of_classes.predict_proba(X))
    MLPRegressor(**QUICK).fit(X, X[:, 0], sample_weight=weights)
    images, numbers = squares()
    ImageClassifier(batch_size=8, **QUICK).fit(images, numbers, sample_weight=np.ones(len(numbers)))


#: A weighted sample is not a repeated one where steps are on batches of a fixed number of samples, and some are held out.
NOT_REPEATED = {"check_sample_weight_equivalence_on_dense_data": "batches have a fixed number of samples"}


@pytest.mark.parametrize("estimator", [MLPClassifier, MLPRegressor])
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_checks_the_estimators(estimator):
    from sklearn.utils.estimator_checks import check_estimator

    own = estimator(max_epochs=40, learning_rate=0.01, threads=1)
    found = check_estimator(own, expected_failed_checks=NOT_REPEATED)
    assert {one["status"] for one in found} <= {"passed", "skipped", "xfail"}


def test_pickles_answer_in_another_process(tmp_path):
    (X, y), (texts, labels), (images, numbers) = rows(), mails(), squares()
    fitted = [
        (MLPClassifier(**QUICK).fit(X, y), X),
        (MLPRegressor(**QUICK).fit(X, X[:, 0]), X),
        (TextClassifier(**QUICK).fit(texts, labels), texts),
        (ImageClassifier(batch_size=8, **QUICK).fit(images, numbers), images),
    ]
    (tmp_path / "fitted.pickle").write_bytes(pickle.dumps([(one, inputs, one.predict(inputs)) for one, inputs in fitted]))
    program = (
        "import pickle, numpy as np\n"
        "for one, inputs, answers in pickle.load(open('fitted.pickle', 'rb')):\n"
        "    np.testing.assert_array_equal(one.predict(inputs), answers)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
