"""Sessions of ONNX files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _lessen
from ._data import flat
from ._errors import ArgumentError, Error


class OnnxSession:
    """An ONNX file that is ready to run, like a session of ONNX Runtime. Threads may share it."""

    def __init__(self, file: str | os.PathLike[str], *, threads: int | None = None) -> None:
        self._inner = _lessen.OnnxSession(os.fspath(file), threads)
        self.file = os.fspath(file)
        self._process = os.getpid()

    def __repr__(self) -> str:
        return f"lessen.onnx({self.file!r})"

    @property
    def inputs(self) -> dict[str, tuple[str, list[Any] | None]]:
        """The inputs by name: dtype, and extents, a number or the name of an open one."""
        found = {}
        for name, dtype, extents in self._inner.inputs():
            sizes = None if extents is None else [int(one) if one.isdigit() else one for one in extents]
            found[name] = (dtype, sizes)
        return found

    @property
    def outputs(self) -> list[str]:
        """The names of the outputs."""
        return self._inner.outputs()

    def run(self, inputs: Mapping[str, Any], outputs: Sequence[str] | None = None) -> dict[str, NDArray[Any]]:
        """The outputs by name for arrays by the names of the inputs. Numbers are never rounded: an array of another
        dtype than the input's is refused, unless it is widened or its integers fit.

        Raises ``lessen.Error`` for arrays that the file does not take, and in a child made by ``fork``, which has none of
        the session's threads."""
        if self._process != os.getpid():
            raise Error(
                f"{self.file} was opened before this process was forked, and its threads are not in the child; open it "
                "again here, or start processes with spawn"
            )
        dtypes = self.inputs
        given = []
        for name, value in inputs.items():
            array = np.asarray(value)
            if not isinstance(value, np.ndarray) and name in dtypes and not hasattr(value, "dtype"):
                # Numbers of Python have no dtype of their own.
                array = np.asarray(value, dtype=dtypes[name][0])
            if array.dtype.kind not in "biuf":
                raise ArgumentError(f"the array for the input {name} is {array.dtype}; give numbers")
            little = array.dtype.newbyteorder("<")
            given.append((name, (little.str, list(array.shape), flat(array))))
        found = {name: values.view(dtype).reshape(shape) for name, (dtype, shape, values) in self._inner.run(given)}
        if outputs is None:
            return found
        missing = [name for name in outputs if name not in found]
        if missing:
            raise Error(f"there is no output {missing[0]}; the model has {', '.join(found)}")
        return {name: found[name] for name in outputs}


def onnx(file: str | os.PathLike[str], *, threads: int | None = None) -> OnnxSession:
    """Opens an ONNX file to run it."""
    return OnnxSession(file, threads=threads)
