"""The types of the package and of the guide's programs, where mypy is installed."""

import subprocess
import sys
from pathlib import Path

import lessen
import pytest
from test_guide import PROGRAMS

ROOT = Path(__file__).parents[1]


def checked(*args):
    """Checks strictly; what mypy found."""
    pytest.importorskip("mypy")
    run = [sys.executable, "-m", "mypy", f"--config-file={ROOT / 'pyproject.toml'}", "--strict"]
    return subprocess.run([*run, *args], cwd=ROOT, capture_output=True, text=True, timeout=300)


def test_the_package_is_typed(tmp_path):
    done = checked(f"--cache-dir={tmp_path}")
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_programs_of_the_guide_are_typed(tmp_path):
    for number, (_, program) in enumerate(PROGRAMS):
        (tmp_path / f"program_{number}.py").write_text(program)
    done = checked(f"--cache-dir={tmp_path / 'cache'}", *map(str, sorted(tmp_path.glob("*.py"))))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_stub_names_what_the_extension_has():
    own = lessen._lessen
    stub = (Path(lessen.__file__).parent / "_lessen.pyi").read_text(encoding="utf-8")
    missing = [
        name for name in dir(own) if not name.startswith("_") and f" {name}(" not in stub and f" {name}:" not in stub
    ]
    assert missing == []
