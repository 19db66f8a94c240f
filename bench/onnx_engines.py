#!/usr/bin/env python3
"""The time of an ONNX file in another engine: onnx_engines.py {openvino,tract} FILE.onnx INPUTS.npz RUNS.

Prints the median of RUNS runs in milliseconds, after as many that are not timed. All engines compute in f32 on all
cores, and know the extents of the inputs before the first run.
"""

import os
import statistics
import sys
import tempfile
import time

import numpy as np


def openvino(path, inputs):
    import openvino

    core = openvino.Core()
    model = core.read_model(path)
    model.reshape({name: list(array.shape) for name, array in inputs.items()})
    options = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    request = core.compile_model(model, "CPU", options).create_infer_request()
    return lambda: request.infer(inputs)


def fixed(path, inputs, folder):
    """The file with these extents of the inputs and without any others, which tract holds against its own."""
    import onnx

    model = onnx.load(path)
    del model.graph.value_info[:]
    for value in model.graph.input:
        if value.name in inputs:
            del value.type.tensor_type.shape.dim[:]
            for extent in inputs[value.name].shape:
                value.type.tensor_type.shape.dim.add().dim_value = extent
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    to = os.path.join(folder, "fixed.onnx")
    onnx.save(model, to)
    return to


def tract(path, inputs):
    import tract

    letters = {"f": "f", "i": "i", "u": "u", "b": "bool"}
    with tempfile.TemporaryDirectory() as folder:
        model = tract.onnx().load(fixed(path, inputs, folder))
    names = [model.input_name(i) for i in range(model.input_count())]
    for i, name in enumerate(names):
        array = inputs[name]
        bits = "" if array.dtype == np.bool_ else str(8 * array.dtype.itemsize)
        dtype = letters[array.dtype.kind] + bits
        model.set_input_fact(i, ",".join([str(extent) for extent in array.shape] + [dtype]))
    runnable = model.into_model().into_runnable()
    given = [inputs[name] for name in names]
    return lambda: runnable.run(given)


def main():
    engine, path, inputs, runs = sys.argv[1], sys.argv[2], dict(np.load(sys.argv[3])), int(sys.argv[4])
    run = {"openvino": openvino, "tract": tract}[engine](path, inputs)
    times = []
    for _ in range(2 * runs):
        start = time.perf_counter()
        run()
        times.append(1e3 * (time.perf_counter() - start))
    print(statistics.median(times[runs:]))


if __name__ == "__main__":
    main()
