"""Parameters of saved models as arrays of NumPy."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._errors import Error

#: The dtypes of safetensors that NumPy has.
DTYPES = {
    "BOOL": "|b1", "I8": "|i1", "U8": "|u1", "I16": "<i2", "U16": "<u2", "I32": "<i4", "U32": "<u4", "I64": "<i8",
    "U64": "<u8", "F16": "<f2", "F32": "<f4", "F64": "<f8",
}  # fmt: skip


def weights_of(folder: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """The parameters of a folder, of a run or of Hugging Face; arrays are views of the files. A run that has not ended
    has those of its newest checkpoint."""
    root = Path(folder)
    checkpoints = sorted(root.glob("checkpoints/step-*"), key=lambda one: int(one.name.removeprefix("step-")))
    for place in (root, root / "model", *reversed(checkpoints)):
        files = sorted(place.glob("model*.safetensors"))
        if files:
            return dict(one for file in files for one in arrays_of(file))
    raise Error(f"{root} has no model.safetensors; name the folder of a run that ended, or of a model")


def arrays_of(file: Path) -> Iterator[tuple[str, NDArray[Any]]]:
    """The arrays of a file of safetensors, by their names."""
    content = np.memmap(file, dtype=np.uint8, mode="r")
    start = 8 + int(content[:8].view("<u8")[0])
    for name, one in json.loads(content[8:start].tobytes()).items():
        if name == "__metadata__":
            continue
        begin, end = one["data_offsets"]
        flat = content[start + begin : start + end]
        if one["dtype"] == "BF16":
            values = (flat.view("<u2").astype(np.uint32) << 16).view(np.float32)
        elif one["dtype"] in DTYPES:
            values = flat.view(DTYPES[one["dtype"]])
        else:
            raise Error(f"{file} has {name} in {one['dtype']}, which NumPy does not have; read it with safetensors")
        yield name, values.reshape(one["shape"])
