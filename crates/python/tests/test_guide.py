"""The programs of docs/python.md, in their order in one folder."""

import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[3] / "docs" / "python.md"
PROGRAMS = re.findall(r"^```python *(\w*)\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_the_programs_of_the_guide_run(capfd, monkeypatch):
    assert len(PROGRAMS) >= 5
    # One process of torchrun.
    for name, value in {"RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "localhost", "MASTER_PORT": 0}.items():
        monkeypatch.setenv(name, str(value))
    for needs, program in PROGRAMS:
        if needs:
            pytest.importorskip(needs)
        exec(compile(program, str(GUIDE), "exec"), {"__name__": "guide"})
