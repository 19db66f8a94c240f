"""The programs of docs/python.md, in their order in one folder."""

import re
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[3] / "docs" / "python.md"
PROGRAMS = re.findall(r"^```python *(\w*)\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_the_programs_of_the_guide_run(capfd):
    assert len(PROGRAMS) >= 5
    for needs, program in PROGRAMS:
        if needs:
            pytest.importorskip(needs)
        exec(compile(program, str(GUIDE), "exec"), {"__name__": "guide"})
