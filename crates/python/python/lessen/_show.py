"""What is shown of jobs and their results: progress, tables in notebooks, warnings."""

from __future__ import annotations

import html
import json
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

#: The folder of the package.
HERE = os.path.dirname(os.path.abspath(__file__))


class Result(dict[str, Any]):
    """The answer of a command as a dictionary, with the text that the command prints. Notebooks show it as a table."""

    def __init__(self, values: Mapping[str, Any], text: str = "") -> None:
        super().__init__(values)
        #: What the command prints for people.
        self.text = text

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            known = ", ".join(self)
            raise AttributeError(f"there is no {name}; there are {known}") from None

    def __str__(self) -> str:
        return self.text or json.dumps(self, indent=2)

    def _repr_html_(self) -> str:
        return table_of(self)


#: The most rows of a table in a notebook.
MOST_ROWS = 60


def table_of(values: Mapping[str, Any]) -> str:
    """Tables of HTML: of the values that are no lists or dictionaries, and of each list of dictionaries."""
    plain = [(name, value) for name, value in values.items() if not isinstance(value, (list, dict))]
    tables = [[("th", name), ("td", value)] for name, value in plain]
    found = f"<table>{''.join(map(row_of, tables))}</table>"
    for name, value in values.items():
        if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
            head = row_of([("th", key) for key in value[0]])
            rows = [row_of([("td", one.get(key)) for key in value[0]]) for one in value[:MOST_ROWS]]
            found += f"<h4>{html.escape(name)}</h4><table>{head}{''.join(rows)}</table>"
    return found


def row_of(cells: list[tuple[str, Any]]) -> str:
    """A row of a table."""
    return "<tr>" + "".join(f"<{kind}>{html.escape(str(value))}</{kind}>" for kind, value in cells) + "</tr>"


def in_notebook() -> bool:
    """Whether this is a notebook; IPython is not imported for the question."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


def warn(line: str) -> None:
    """Warns of a remark of the command, at the line of the user's program."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and os.path.dirname(frame.f_code.co_filename) == HERE:
        level, frame = level + 1, frame.f_back
    warnings.warn(line.removeprefix("warning: ").removeprefix("note: "), stacklevel=level)


class Progress:
    """Progress on one line: on a terminal's stderr, or in a notebook's cell."""

    def __init__(self) -> None:
        self._counts: dict[int, list[Any]] = {}
        self._display: Any = None
        if in_notebook():
            self._display = sys.modules["IPython"].display.display("", display_id=True)

    def __call__(self, event: Mapping[str, Any]) -> None:
        kind = event["kind"]
        if kind == "begin":
            self._counts[event["count"]] = [event["unit"], event["total"]]
        elif kind == "expect" and event["count"] in self._counts:
            self._counts[event["count"]][1] = event["total"]
        elif kind == "step" and event["count"] in self._counts:
            unit, total = self._counts[event["count"]]
            self._line(f"{unit} {event['done']}{f'/{total}' if total else ''}  {event['message']}")
        elif kind == "end":
            self._counts.pop(event["count"], None)
            self._line("")

    def _line(self, line: str) -> None:
        if self._display is not None:
            self._display.update({"text/plain": line}, raw=True)
        else:
            sys.stderr.write(f"\r\x1b[K{line}")
            sys.stderr.flush()


def progress_of(progress: bool | None) -> Callable[[Mapping[str, Any]], None] | None:
    """The progress that is shown: by default on a terminal and in a notebook."""
    if progress is None:
        progress = in_notebook() or sys.stderr is not None and sys.stderr.isatty()
    return Progress() if progress else None


class Listener:
    """Hears the events of a job, shows them, and calls callbacks; true as its answer stops the job."""

    def __init__(
        self,
        progress: bool | None = None,
        callbacks: Any = (),
        folder: str | None = None,
        heard: tuple[str, ...] = ("note", "warning"),
    ) -> None:
        self._heard = heard
        self._progress = progress_of(progress)
        self._callbacks = [Callback(one, folder) for one in callbacks]

    def __call__(self, event: str) -> bool:
        found = json.loads(event)
        kind = found["kind"]
        if kind in self._heard:
            warn(found["line"])
        if self._progress is not None:
            self._progress(found)
        stops = [callback(found) for callback in self._callbacks]
        return any(stops)


class Callback:
    """A callback of a training: an object with some of ``on_step_end(step, numbers)``, ``on_evaluate(step, scores)``
    and ``on_save(step, folder)``, of which true as the answer stops the run, or a ``TrainerCallback`` of
    transformers."""

    def __init__(self, own: Any, folder: str | None) -> None:
        self._own = own
        self._is_foreign = any(base.__name__ == "TrainerCallback" for base in type(own).__mro__)
        self._foreign = Foreign(folder) if self._is_foreign else None

    def __call__(self, event: Mapping[str, Any]) -> bool:
        if event["kind"] == "numbers":
            scores = any(name.startswith("dev_") for name in event["numbers"])
            return self._call("on_evaluate" if scores else "on_step_end", event["step"], event["numbers"])
        if event["kind"] == "checkpoint":
            return self._call("on_save", event["step"], event["folder"])
        return False

    def _call(self, name: str, step: int, what: Any) -> bool:
        method = getattr(self._own, name, None)
        if method is None:
            return False
        if self._foreign is None:
            return bool(method(step, what))
        return self._foreign.call(self._own, name, step, what)


class Foreign:
    """What a ``TrainerCallback`` of transformers is called with: arguments, state and control."""

    def __init__(self, folder: str | None) -> None:
        from types import SimpleNamespace

        self.args = SimpleNamespace(output_dir=folder)
        self.state = SimpleNamespace(global_step=0, epoch=None, log_history=[], is_world_process_zero=True)
        self.control = SimpleNamespace(
            should_training_stop=False, should_save=False, should_evaluate=False, should_log=False
        )

    def call(self, own: Any, name: str, step: int, what: Any) -> bool:
        self.state.global_step = step
        more: dict[str, Any] = {}
        if name != "on_save":
            self.state.log_history.append({"step": step, **what})
            more = {"metrics" if name == "on_evaluate" else "logs": what}
            own.on_log(self.args, self.state, self.control, logs=what)
        getattr(own, name)(self.args, self.state, self.control, **more)
        return bool(self.control.should_training_stop)
