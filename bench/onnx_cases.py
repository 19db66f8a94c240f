#!/usr/bin/env python3
"""The cases of ONNX's backend suite: where they are, and whether outputs are right.

The wheel `onnx` has them in `onnx/backend/test/data`; from 1.23 on it makes those of single operators in Python, which
are then written to a folder first. Used by bench/onnx_suite.py.
"""

import glob
import json
import os
import subprocess
import sys

import numpy
import onnx
from onnx import numpy_helper

DATA = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data")
KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")


class Case:
    """A model, its sets of inputs and outputs as files, and how near its outputs must be."""

    def __init__(self, name, kind, path, sets, rtol=1e-3, atol=1e-7):
        self.name, self.kind, self.path, self.sets, self.rtol, self.atol = name, kind, path, sets, rtol, atol
        self.model = onnx.load(path, load_external_data=False)

    def family(self):
        """The operator that the case is about; of models of several, the kind of the case."""
        nodes = self.model.graph.node
        own = [opset.domain for opset in self.model.opset_import if opset.domain not in ("", "ai.onnx")]
        if len(nodes) == 1:
            domain = nodes[0].domain
            return f"{domain}.{nodes[0].op_type}" if domain in own else nodes[0].op_type
        return "functions, written out" if self.name.endswith("_expanded") else f"models of `{self.kind}`"


def cases(work):
    """All cases; what has to be written first goes to the folder `work`."""
    found = []
    for kind in KINDS:
        folder = os.path.join(DATA, kind)
        if kind == "node" and not os.path.isdir(folder):
            folder = os.path.join(generated(work), kind)
        for path in sorted(glob.glob(os.path.join(folder, "*", "model.onnx"))):
            sets = sorted(glob.glob(os.path.join(os.path.dirname(path), "test_data_set_*")))
            name = os.path.basename(os.path.dirname(path))
            files = [(numbered(each, "input"), numbered(each, "output")) for each in sets]
            found.append(Case(name, kind, path, files))
    return found + light_cases(work)


def generated(work):
    """A folder with the cases that the wheel makes in Python."""
    command = [sys.executable, "-W", "ignore", "-m", "onnx.backend.test.cmd_tools", "generate-data", "-o", work]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return work


def numbered(folder, what):
    """The files of a set by number; a number that is left out has none."""
    found = {}
    for path in glob.glob(os.path.join(folder, f"{what}_*.pb")):
        found[int(path.rsplit("_", 1)[1].removesuffix(".pb"))] = path
    return found


def light_cases(work):
    """Known networks of images with made up weights; their inputs are ascending numbers below 1."""
    found = []
    for data in sorted(glob.glob(os.path.join(DATA, "real", "*", "data.json"))):
        with open(data, encoding="utf-8") as file:
            about = json.load(file)
        path = os.path.join(DATA, "light", os.path.basename(about["url"]))
        outputs = {0: path.removesuffix(".onnx") + "_output_0.pb"}
        if not os.path.isfile(path) or not os.path.isfile(outputs[0]):
            continue
        case = Case(f"light_{about['model_name']}", "light", path, [], about["rtol"], about["atol"])
        weights = {tensor.name for tensor in case.model.graph.initializer}
        inputs = {}
        for i, value in enumerate(case.model.graph.input):
            if value.name in weights:
                continue
            shape = [dim.dim_value or 1 for dim in value.type.tensor_type.shape.dim]
            count = int(numpy.prod(shape))
            array = (numpy.arange(count).reshape(shape) / count).astype(numpy.float32)
            inputs[i] = os.path.join(work, f"{case.name}_input_{i}.pb")
            with open(inputs[i], "wb") as file:
                file.write(numpy_helper.from_array(array, value.name).SerializeToString())
        case.sets = [(inputs, outputs)]
        found.append(case)
    return found


def read(path, ty):
    """The value in a file: an array, a list, or None for an optional value that is absent."""
    with open(path, "rb") as file:
        content = file.read()
    if ty.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(content))
    if ty.HasField("optional_type"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(content))
    return numpy_helper.to_array(onnx.TensorProto.FromString(content))


def difference(found, right, rtol, atol):
    """What is wrong with a value; None where nothing is."""
    if isinstance(right, (list, tuple)):
        if not isinstance(found, (list, tuple)) or len(found) != len(right):
            return f"it is not a list of {len(right)}"
        each = (difference(mine, theirs, rtol, atol) for mine, theirs in zip(found, right))
        return next((why for why in each if why), None)
    if right is None or found is None:
        return None if right is found else "one of both is absent"
    if not hasattr(found, "dtype"):
        return "it is no array"
    if found.shape != right.shape:
        return f"the shape {list(found.shape)}, right is {list(right.shape)}"
    if is_text(right) or is_text(found):
        same = is_text(right) and is_text(found) and (found.astype(str) == right.astype(str)).all()
        return None if same else "other texts"
    if found.dtype != right.dtype:
        return f"the dtype {found.dtype}, right is {right.dtype}"
    if right.dtype.kind in "biu":
        return None if (found == right).all() else difference_of_numbers(found, right)
    if right.dtype.name == "bfloat16":
        rtol, found, right = max(rtol, 2**-6), found.astype(numpy.float32), right.astype(numpy.float32)
    elif right.dtype.kind != "f":
        # Floats of 8 and 4 bits, integers of 4 and 2: exactly.
        rtol, atol, found, right = 0, 0, found.astype(numpy.float32), right.astype(numpy.float32)
    close = numpy.isclose(found, right, rtol, atol, equal_nan=True)
    return None if close.all() else difference_of_numbers(found, right)


def is_text(array):
    return array.dtype.kind in "OSU"


def difference_of_numbers(found, right):
    with numpy.errstate(all="ignore"):
        off = abs(found.astype(numpy.float64) - right.astype(numpy.float64))
    at = int(numpy.nanargmax(numpy.where(numpy.isfinite(off), off, 0)))
    return f"as far as {off.flat[at]:.3g} from {right.flat[at]} among {right.size} elements"
