"""A child made by ``fork`` while threads of Lessen wait in its parent: a sentence or an answer, and no hang."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

#: Makes threads, forks, and prints what the child says; ``QUESTION`` is what the child does.
PROGRAM = """
import os, sys
import numpy as np
sys.path.insert(0, {tests!r})
import lessen
from conftest import LINEAR, mails
from test_tools import onnx_file

x = np.ones((2, 3), np.float32)
session = lessen.onnx(onnx_file("add.onnx"), threads=2)
session.run({{"x": x}})
lessen.train(LINEAR, mails(), out="run", threads=2)
model = lessen.load("run", threads=2)
model.predict(mails()[0])
child = os.fork()
if child == 0:
    try:
        print("answer:", {question})
    except lessen.Error as error:
        print("error:", error)
    sys.stdout.flush()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
# The parent goes on.
session.run({{"x": x}}), model.predict("see you")
"""

AGAIN = "was opened before this process was forked"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize(
    ("question", "said"),
    [
        ('session.run({"x": x})', AGAIN),
        ('model.predict("see you")', AGAIN),
        ('model.logits("see you")', AGAIN),
        ('model.embed("see you")', AGAIN),
        ("len(model.state_dict()) > 0", "answer: True"),
        (
            'lessen.onnx("add.onnx", threads=2).run({"x": x})["y"].tolist()',
            "answer: [[2.0, 2.0, 2.0], [2.0, 2.0, 2.0]]",
        ),
        ('lessen.load("run", threads=2).predict("see you at lunch 1")', "answer: ham"),
        ('lessen.train(LINEAR, mails(), out="again", threads=2).steps', "answer: 36"),
    ],
)
def test_a_forked_child_says_so_or_answers(question, said, tmp_path):
    program = PROGRAM.format(tests=str(Path(__file__).parent), question=question)
    run = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
