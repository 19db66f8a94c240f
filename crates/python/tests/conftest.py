"""What the tests share: small data, small runs, and the command."""

import subprocess
import sys
from pathlib import Path

import lessen
import numpy as np
import pytest

#: Keys of a model that trains in a moment.
TINY = {"model_layers": 1, "model_width": 16, "model_heads": 2, "model_ffn": 32}


@pytest.fixture(autouse=True)
def one_thread(monkeypatch, tmp_path):
    monkeypatch.setenv("LESSEN_THREADS", "1")
    monkeypatch.chdir(tmp_path)


def command(*args, cwd="."):
    """Runs ``python -m lessen``; what it printed."""
    run = [sys.executable, "-m", "lessen", *map(str, args)]
    done = subprocess.run(run, cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def mails(count=40):
    """Texts and their labels."""
    words = ["cheap offer now", "see you at lunch"]
    return [f"{words[i % 2]} {i % 7}" for i in range(count)], [["spam", "ham"][i % 2] for i in range(count)]


LINEAR = {
    "model.kind": "linear",
    "data.format": "labelled",
    "train.batch": 4,
    "train.epochs": 4,
    "train.lr": 0.1,
}


@pytest.fixture(scope="session")
def classifier(tmp_path_factory):
    """The run of a linear classifier of texts in memory."""
    out = tmp_path_factory.mktemp("runs") / "mails"
    return lessen.train(LINEAR, mails(), out=out, threads=1)


@pytest.fixture(scope="session")
def adder(tmp_path_factory):
    """The run of a small language model."""
    out = tmp_path_factory.mktemp("runs") / "adder"
    return lessen.train("adder", out=out, steps=3, train_batch=8, threads=1, **TINY)


def squares(count=32, size=8):
    """Images of two classes: bright above, and bright below."""
    images = np.zeros((count, size, size), dtype=np.uint8)
    images[0::2, : size // 2] = 200
    images[1::2, size // 2 :] = 200
    return images, np.arange(count) % 2


def folder_bytes(folder):
    """The files of a run that do not tell times, with their bytes."""
    timed = ("report", "metrics", "events", "session", "memory")
    files = [path for path in sorted(Path(folder).rglob("*")) if path.is_file()]
    kept = [path for path in files if not any(word in path.name for word in timed)]
    return {str(path.relative_to(folder)): path.read_bytes() for path in kept}
