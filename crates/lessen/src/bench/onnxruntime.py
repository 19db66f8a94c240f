# Runs an ONNX model in ONNX Runtime, once for each line on stdin, and prints the milliseconds of each run.
# Arguments: the model, an .npz file of its inputs, the number of threads.
import sys
import time

try:
    import numpy
    import onnxruntime
except ImportError as error:
    print("missing", error)
    sys.exit(0)
path, inputs, threads = sys.argv[1], numpy.load(sys.argv[2]), int(sys.argv[3])
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = threads
options.log_severity_level = 4
TYPES = {"float": "float32", "double": "float64"}
try:
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    words = {given.name: given.type[len("tensor(") : -1] for given in session.get_inputs()}
    given = {name: inputs[name].astype(TYPES.get(word, word)) for name, word in words.items()}
    session.run(None, given)
except Exception as error:
    print("refused", " ".join(str(error).split())[:300])
    sys.exit(0)
print("ready", onnxruntime.__version__, flush=True)
for _ in sys.stdin:
    begun = time.perf_counter()
    session.run(None, given)
    print(1e3 * (time.perf_counter() - begun), flush=True)
