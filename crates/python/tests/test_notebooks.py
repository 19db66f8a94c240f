"""The notebooks of docs/notebooks: their cells run one after another, and nothing of a run is stored in them."""

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[3] / "docs" / "notebooks").glob("*.ipynb"))


def cells_of(notebook):
    """The cells of code."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_a_notebook_runs(notebook, tmp_path):
    program = "\n\n".join("".join(cell["source"]) for cell in cells_of(notebook))
    missing = [name for name in re.findall(r"^(?:import|from) (\w+)", program, re.MULTILINE) if find_spec(name) is None]
    if "lessen.sklearn" in program and find_spec("sklearn") is None:
        missing.append("sklearn")
    if missing:
        pytest.skip(f"{missing[0]} is not installed")
    # Threads as a reader has them.
    own = {name: value for name, value in os.environ.items() if name != "LESSEN_THREADS"}
    run = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(run, cwd=tmp_path, env=own, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr


def test_no_outputs_are_stored():
    assert len(NOTEBOOKS) == 3
    for notebook in NOTEBOOKS:
        assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells_of(notebook)), notebook
