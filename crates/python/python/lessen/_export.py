"""Programs that ``torch.export`` makes of modules, as the JSON that Lessen traces."""

import contextlib
import gc
import json
import linecache
import math
import operator
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
import torch
from torch.utils import _pytree as pytree

from ._errors import Error

_DTYPES = {
    torch.float32: "f32",
    torch.float64: "f64",
    torch.bfloat16: "bf16",
    torch.float16: "f16",
    torch.bool: "bool",
    **{dtype: "i32" for dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)},
}

_PYTHON = {
    "sym_max": "max",
    "sym_min": "min",
    "sym_sum": "sum",
    "sym_not": "not",
    "sym_float": "float",
    "sym_int": "int",
    "trunc": "int",
    "_sym_sqrt": "sqrt",
    "and_": "and",
    "or_": "or",
    "not_": "not",
}

# Functions whose backward is the derivative of their forward, which is traced in their place.
_DERIVED = {"transformers.models.bloom.modeling_bloom.GeLUFunction"}

_TORCH = str(Path(torch.__file__).parent)
_HERE = str(Path(__file__).parent)


@contextlib.contextmanager
def _own_functions_refused() -> Iterator[None]:
    """Refuses functions with a backward of their own, which a program would not have."""
    kept = torch.autograd.Function.__dict__.get("apply")

    def refused(cls: Any, *args: Any, **keys: Any) -> Any:
        import traceback

        if f"{cls.__module__}.{cls.__qualname__}" in _DERIVED:
            return cls.forward(torch.autograd.function.FunctionCtx(), *args, **keys)
        if cls.__name__.startswith("GeneratedBackwardFor_") and kept is not None:
            # An operator of torch.library, which is a node of the program.
            return kept.__get__(None, cls)(*args, **keys)
        frames = [frame for frame in traceback.extract_stack() if not frame.filename.startswith((_TORCH, _HERE))]
        place = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
        raise Error(
            f"`{cls.__name__}`{place} is a torch.autograd.Function, whose own backward is not exported; write it with "
            "operators of PyTorch"
        )

    torch.autograd.Function.apply = classmethod(refused)  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        if kept is None:
            del torch.autograd.Function.apply
        else:
            torch.autograd.Function.apply = kept  # type: ignore[assignment, method-assign]


@contextlib.contextmanager
def _caches_left_as_they_were() -> Iterator[None]:
    """Frees what PyTorch keeps of an export: 0.2 MB of symbolic extents, and the source of each graph.

    An environment of symbolic extents is in a circle with tensors that Python's collector does not see.
    """
    from torch.fx import graph_module
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    made: list[Any] = []
    begin = ShapeEnv.__init__

    def recorded(self: Any, *args: Any, **keys: Any) -> None:
        made.append(self)
        begin(self, *args, **keys)

    sources = set(linecache.cache)
    gc.collect(0)
    collects = gc.isenabled()
    gc.disable()
    ShapeEnv.__init__ = recorded  # type: ignore[method-assign]
    try:
        yield
    finally:
        ShapeEnv.__init__ = begin  # type: ignore[method-assign]
        while made:
            made[-1].tracked_fakes = None
            made.pop().fake_tensor_cache.clear()
        for method in vars(ShapeEnv).values():
            if hasattr(method, "cache_clear"):
                method.cache_clear()
        loader = getattr(graph_module, "_loader", None)
        for name in set(linecache.cache) - sources:
            if name.startswith("<eval_with_key>"):
                del linecache.cache[name]
                getattr(loader, "eval_cache", {}).pop(name, None)
        gc.collect(0)
        if collects:
            gc.enable()


class Program:
    """A program with the values that it reads beside parameters, and the shapes of batches that it takes."""

    def __init__(self, wrapped: torch.nn.Module, batch: Any, names: dict[int, str]) -> None:
        with _caches_left_as_they_were():
            self._read(wrapped, batch, names)

    def _read(self, wrapped: torch.nn.Module, batch: Any, names: dict[int, str]) -> None:
        exported = _exported(wrapped, batch)
        self._names = names
        self._literals: dict[str, Any] = {}
        self._inputs: list[dict[str, Any]] = []
        self._nodes: list[dict[str, Any]] = []
        self._views: set[torch.fx.Node] = set()
        self.constants: dict[str, torch.Tensor] = {}
        self.shapes: list[tuple[str, list[Any]]] = []
        self._place_inputs(wrapped, exported)
        outputs = self._emit(exported.graph_module, {})
        self.out_spec = exported.call_spec.out_spec
        self.is_tensor = [isinstance(output, dict) and "node" in output for output in outputs]
        self.literals = [None if found else output for found, output in zip(self.is_tensor, outputs, strict=True)]
        tensors = [output for found, output in zip(self.is_tensor, outputs, strict=True) if found]
        self.json = json.dumps({"inputs": self._inputs, "nodes": self._nodes, "outputs": tensors})
        # Nodes of the program keep all of it alive.
        del self._inputs, self._nodes, self._views, self._literals, self._names

    def takes(self, leaves: list[torch.Tensor]) -> bool:
        """Whether a batch has the shapes of the one that was exported, or others along its free axes."""
        if len(leaves) != len(self.shapes):
            return False
        free: dict[str, int] = {}
        for leaf, (dtype, shape) in zip(leaves, self.shapes, strict=True):
            if _DTYPES.get(leaf.dtype) != dtype or len(shape) != leaf.dim():
                return False
            for own, extent in zip(leaf.shape, shape, strict=True):
                if isinstance(extent, int):
                    if own != extent:
                        return False
                elif own < 2 or free.setdefault(extent, own) != own:
                    return False
        return True

    def _place_inputs(self, wrapped: torch.nn.Module, exported: Any) -> None:
        from torch.export.graph_signature import InputKind

        parameters = dict(wrapped.named_parameters(remove_duplicate=False))
        buffers = dict(wrapped.named_buffers(remove_duplicate=False))
        placed = {node.name: node for node in exported.graph.nodes if node.op == "placeholder"}
        for spec in exported.graph_signature.input_specs:
            name, target = spec.arg.name, spec.target
            value = placed[name].meta.get("val")
            if not isinstance(value, torch.Tensor):
                self._literals[name] = value
                continue
            shape = [extent if isinstance(extent, int) else str(extent) for extent in value.shape]
            if spec.kind == InputKind.USER_INPUT:
                role, key = "data", name
                self.shapes.append((_dtype(value), shape))
            elif spec.kind == InputKind.PARAMETER:
                role, key = "parameter", self._names[id(parameters[target])]
            elif spec.kind == InputKind.BUFFER:
                found = buffers.get(target)
                role, key = "buffer", self._names.get(id(found), target)
                self.constants[key] = found if found is not None else exported.constants[target]
            else:
                role, key = "constant", f"constant.{target}"
                self.constants[key] = exported.constants[target]
            self._inputs.append(
                {
                    "name": name,
                    "role": role,
                    "target": key,
                    "shape": [extent if isinstance(extent, int) else 0 for extent in shape],
                    "dtype": "f32" if role == "data" and _dtype(value) in ("f64", "bf16", "f16") else _dtype(value),
                }
            )

    def _emit(self, module: Any, bound: dict[str, Any]) -> list[Any]:
        """Appends the nodes of a graph, whose inputs are ``bound``, and gives its outputs."""
        prefix = f"{len(self._nodes)}." if bound else ""

        def argument(value: Any) -> Any:
            if isinstance(value, torch.fx.Node):
                if value.name in bound:
                    return bound[value.name]
                if value.name in self._literals and not prefix:
                    return self._literals[value.name]
                return {"node": prefix + value.name}
            if isinstance(value, (list, tuple)):
                return [argument(part) for part in value]
            if isinstance(value, torch.dtype):
                return {"dtype": _DTYPES.get(value, str(value).removeprefix("torch."))}
            if isinstance(value, float) and not math.isfinite(value):
                return {"float": str(value)}
            if value is None or isinstance(value, (bool, int, float, str)):
                return min(value, 2**62) if type(value) is int else value
            return None

        placeholders = iter(bound.pop("", []))
        for node in module.graph.nodes:
            if node.op == "output":
                flat, _ = pytree.tree_flatten(node.args[0])
                return [argument(part) for part in flat]
            if node.op == "placeholder" and prefix:
                bound[node.name] = next(placeholders)
            elif node.op == "get_attr":
                self._constant(module, node, prefix)
            elif node.op == "call_function":
                self._call(module, node, prefix, bound, argument)
        return []

    def _constant(self, module: Any, node: torch.fx.Node, prefix: str) -> None:
        value = operator.attrgetter(str(node.target))(module)
        if isinstance(value, torch.Tensor):
            key = f"constant.{prefix}{node.target}"
            self.constants[key] = value
            self._inputs.append(
                {
                    "name": prefix + node.name,
                    "role": "constant",
                    "target": key,
                    "shape": list(value.shape),
                    "dtype": _dtype(value),
                }
            )

    def _call(self, module: Any, node: torch.fx.Node, prefix: str, bound: dict[str, Any], argument: Any) -> None:
        target: Any = node.target
        name = getattr(target, "__name__", str(target))
        if isinstance(target, torch._ops.HigherOrderOperator):
            self._inline(module, node, prefix, bound, argument)
            return
        entry: dict[str, Any] = {"name": prefix + node.name, "line": _line(node)}
        if isinstance(target, torch._ops.OpOverload):
            schema = target._schema
            given = dict(zip((part.name for part in schema.arguments), node.args, strict=False)) | node.kwargs
            entry["operator"] = str(target)
            entry["arguments"] = [
                (part.name, argument(given.get(part.name, part.default_value))) for part in schema.arguments
            ]
            written = [part.name for part in schema.arguments if part.alias_info and part.alias_info.is_write]
            entry["writes"] = written[0] if written else None
            may_share = any(part.alias_info for part in schema.returns)
            entry["is_view"] = may_share or schema.name in ("aten::reshape", "aten::contiguous", "aten::flatten")
        else:
            entry["operator"] = f"python.{_PYTHON.get(name, name)}"
            entry["arguments"] = list(zip("abcdef", (argument(part) for part in node.args), strict=False))
            # A part of several results is a view where these are views.
            entry["is_view"] = name == "getitem" and node.args[0] in self._views
        if entry["is_view"]:
            self._views.add(node)
        self._nodes.append(entry)

    def _inline(self, module: Any, node: torch.fx.Node, prefix: str, bound: dict[str, Any], argument: Any) -> None:
        """Appends the nodes of a region without gradients or with other settings, and lists its results."""
        name = getattr(node.target, "__name__", str(node.target))
        parts = [part for part in node.args if isinstance(part, torch.fx.Node) and part.op == "get_attr"]
        inner = [operator.attrgetter(str(part.target))(module) for part in parts]
        graphs = [(part, graph) for part, graph in zip(parts, inner, strict=True) if hasattr(graph, "graph")]
        if name not in ("wrap_with_set_grad_enabled", "wrap_with_autocast") or len(graphs) != 1:
            raise Error(f"`{name}` at {_line(node)} is not traced; write the module without it")
        part, graph = graphs[0]
        place = node.args.index(part)
        outputs = self._emit(graph, {"": [argument(value) for value in node.args[place + 1 :]]})
        if name == "wrap_with_set_grad_enabled" and node.args[0] is False:
            for index, output in enumerate(outputs):
                entry = {
                    "name": f"{prefix}{node.name}.{index}",
                    "operator": "aten.detach.default",
                    "arguments": [("self", output)],
                    "line": _line(node),
                }
                self._nodes.append(entry)
                outputs[index] = {"node": entry["name"]}
        bound[node.name] = outputs
        for user in node.users:
            if user.target is operator.getitem:
                bound[user.name] = outputs[user.args[1]]


def _exported(wrapped: torch.nn.Module, batch: Any) -> Any:
    """The program of a module for a batch, whose first axis is free where the module allows it."""
    free = torch.export.Dim.AUTO

    def dims(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return {0: free} if leaf.dim() and leaf.shape[0] > 1 else {}
        return None

    with _own_functions_refused(), warnings.catch_warnings():
        # Modules of PyTorch assign attributes of their own while they are exported.
        warnings.filterwarnings("ignore", message="The tensor attribute")
        try:
            shapes = pytree.tree_map(dims, (batch,))
            return torch.export.export(wrapped, (batch,), dynamic_shapes=shapes, strict=False)
        except Error:
            raise
        except Exception:
            try:
                return torch.export.export(wrapped, (batch,), strict=False)
            except Error:
                raise
            except Exception as error:
                sentence = " ".join(str(error).partition("\n\n")[0].split())
                raise Error(f"torch.export does not take the module: {sentence}") from error


def _dtype(tensor: torch.Tensor) -> str:
    return _DTYPES.get(tensor.dtype, str(tensor.dtype))


def _line(node: torch.fx.Node) -> str:
    """The innermost line of the user's code that called an operator."""
    trace = node.meta.get("stack_trace") or ""
    found = ""
    for line in trace.splitlines():
        line = line.strip()
        if line.startswith('File "'):
            file, _, rest = line[6:].partition('", line ')
            if not file.startswith((_TORCH, _HERE)):
                found = f"{file}:{rest.partition(',')[0]}"
    return found


def elements(tensor: torch.Tensor, name: str) -> NDArray[Any]:
    """The elements of a part of a batch: ``float32``, ``int32`` or ``bool``."""
    tensor = tensor.detach()
    if tensor.dtype == torch.bool:
        return tensor.reshape(-1).numpy(force=True)
    if tensor.is_floating_point():
        return tensor.float().reshape(-1).numpy(force=True)
    if tensor.is_complex():
        raise Error(f"`{name}` is complex; give its real and imaginary parts as two tensors")
    if tensor.numel() and (int(tensor.max()) > 2**31 - 1 or int(tensor.min()) < -(2**31)):
        raise Error(f"`{name}` has whole numbers beyond 32 bits; give smaller ones")
    return tensor.to(torch.int32).reshape(-1).numpy(force=True)


def graph_dtype(tensor: torch.Tensor) -> str:
    """The dtype in the graph of a part of a batch."""
    if tensor.is_floating_point():
        return "f32"
    return "bool" if tensor.dtype == torch.bool else "i32"


def constant(tensor: torch.Tensor) -> tuple[str, list[int], NDArray[Any]]:
    """Dtype, shape and elements of a constant."""
    numbers = tensor.detach().to(torch.float64).reshape(-1).numpy(force=True)
    return _dtype(tensor), list(tensor.shape), np.ascontiguousarray(numbers)
