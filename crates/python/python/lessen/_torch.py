"""``lessen.compile``: modules of PyTorch under Lessen's planner. PyTorch is imported here and by what this imports."""

import contextlib
import difflib
import inspect
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
import torch
from torch.utils import _pytree as pytree

from ._errors import Error
from ._export import Program, constant, elements, graph_dtype
from ._lessen import TorchTraining
from ._losses import LOSSES, Loss, logits_of, own_loss
from ._optimizers import groups_of, moment_names
from ._released import Released

_KEYS = ("threads", "seed", "clip_norm", "clip_value", "allowed_error", "lr", "release")


class _Wrapped(torch.nn.Module):
    """A module with its loss, as a function of a batch."""

    def __init__(self, module: torch.nn.Module, loss: Loss, inputs: int, *, asks: bool) -> None:
        super().__init__()
        self.module = module
        self.lessen_loss = loss
        self.inputs = inputs
        self.asks = asks

    def forward(self, batch: Any) -> Any:
        if isinstance(batch, dict):
            names = list(batch)
            given, targets = {name: batch[name] for name in names[: self.inputs]}, names[self.inputs :]
            output, left = self.module(**given), [batch[name] for name in targets]
        else:
            output, left = self.module(*batch[: self.inputs]), batch[self.inputs :]
        if self.asks:
            return output
        if self.lessen_loss is None:
            return own_loss(output)
        if isinstance(self.lessen_loss, str):
            return LOSSES[self.lessen_loss](logits_of(output), *left)
        return self.lessen_loss(output, *left)


def _bytes(budget: int | str | None) -> int | None:
    if budget is None or isinstance(budget, int):
        return budget
    units = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "KB": 10**3, "MB": 10**6, "GB": 10**9, "B": 1}
    for unit, factor in units.items():
        number = budget.removesuffix(unit)
        if number != budget:
            with contextlib.suppress(ValueError):
                return int(float(number) * factor)
    raise Error(f"'{budget}' is no size; write it like 2GiB or 500MB")


class CompiledModule:
    """A module whose training Lessen plans and runs. Its parameters are Lessen's; ``sync`` writes them back."""

    def __init__(
        self,
        module: torch.nn.Module,
        example_inputs: Any,
        loss: Loss,
        optimizer: Any,
        settings: dict[str, Any],
    ) -> None:
        self.module = module
        self._threads = settings.pop("threads", None)
        self._released = Released(module, self.sync) if settings.pop("release", False) else None
        self._loss = loss
        if isinstance(loss, str) and loss not in LOSSES:
            raise Error(f"there is no loss '{loss}'; choose one of {', '.join(LOSSES)}, or give a function")
        self.optimizer, groups = groups_of(optimizer, settings.pop("lr", None), module)
        example, targets = self._split(example_inputs)
        self._inputs = len(example)
        self._names = self._canonical()
        self._check_dtypes()
        self._settings = settings
        self._groups = groups
        self._structure = self._look()
        # Layers that are replaced stay alive, so that no other one has their number.
        self._layers = list(module.modules())
        self._training: TorchTraining | None = None
        self._programs: list[tuple[str, Program, int]] = []
        self._seen: dict[str, Any] = {}
        self._steps = 0
        self._counted = 0
        self._example = example
        if loss is None or targets:
            self._begin(example if loss is None else self._joined(example, targets))

    # Batches

    def _split(self, example: Any) -> tuple[Any, list[Any]]:
        """The module's inputs of an example, and the targets of the loss that follow them."""
        if isinstance(example, dict):
            return dict(example), []
        parts = tuple(example) if isinstance(example, (tuple, list)) else (example,)
        with contextlib.suppress(TypeError, ValueError):
            signature = inspect.signature(self.module.forward)
            for count in range(len(parts), 0, -1):
                try:
                    signature.bind(*parts[:count])
                except TypeError:
                    continue
                return parts[:count], list(parts[count:])
        return parts, []

    def _joined(self, inputs: Any, targets: list[Any]) -> Any:
        if isinstance(inputs, dict):
            return inputs | {f"target{number}": target for number, target in enumerate(targets)}
        return (*inputs, *targets)

    def _batch(self, parts: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """A batch as one structure of tensors."""
        if named:
            batch: Any = named
        elif len(parts) == 1 and hasattr(parts[0], "keys"):
            batch = {name: parts[0][name] for name in list(parts[0].keys())}
        elif len(parts) == 1 and isinstance(parts[0], (tuple, list)):
            batch = tuple(parts[0])
        else:
            batch = parts
        if isinstance(batch, dict):
            order = self._example if isinstance(self._example, dict) else batch
            first = [name for name in order if name in batch]
            batch = {name: batch[name] for name in [*first, *(name for name in batch if name not in first)]}
        as_tensor = lambda leaf: torch.from_numpy(leaf) if isinstance(leaf, np.ndarray) else leaf
        return pytree.tree_map(as_tensor, batch)

    # The module

    def _canonical(self) -> dict[int, str]:
        """One name for each parameter and buffer, by the object: tied ones have one."""
        names: dict[int, str] = {}
        whole = [("", self.module)]
        if isinstance(self._loss, torch.nn.Module):
            whole.append(("lessen_loss.", self._loss))
        for prefix, part in whole:
            for name, tensor in (
                *part.named_parameters(remove_duplicate=False),
                *part.named_buffers(remove_duplicate=False),
            ):
                names.setdefault(id(tensor), prefix + name)
        return names

    def _tensors(self) -> dict[str, torch.Tensor]:
        """Parameters and buffers by their one name."""
        parts = [self.module, *([self._loss] if isinstance(self._loss, torch.nn.Module) else [])]
        tensors = [tensor for part in parts for tensor in (*part.parameters(), *part.buffers())]
        return {self._names[id(tensor)]: tensor for tensor in tensors if id(tensor) in self._names}

    def _check_dtypes(self) -> None:
        for name, parameter in self.module.named_parameters():
            if parameter.dtype != torch.float32:
                raise Error(
                    f"the parameter `{name}` is {parameter.dtype}; call module.float(), and choose precision='bf16'"
                )

    def _look(self) -> list[tuple[Any, ...]]:
        """What of a module may not change while it is trained here: its layers with their settings, and its tensors."""
        parameters = self.module.named_parameters(remove_duplicate=False)
        looks: list[tuple[Any, ...]] = [
            (name, id(own), own.dtype, own.shape, own.requires_grad) for name, own in parameters
        ]
        looks += [(name, id(own)) for name, own in self.module.named_buffers(remove_duplicate=False)]
        return looks + [(name, id(part), part.extra_repr()) for name, part in self.module.named_modules()]

    def _check_module(self) -> None:
        """Refuses a module that has changed, and takes over values that were changed outside."""
        looks = self._look()
        if looks != self._structure:
            changed = [own[0] for own in looks if own not in self._structure]
            changed += [own[0] for own in self._structure if own not in looks]
            raise Error(f"the module has changed since it was compiled, at `{changed[0]}`; compile it again")
        assert self._training is not None
        for name, tensor in self._tensors().items():
            version = (tensor._version, tensor.data_ptr())
            if self._seen.get(name) == version or (self._released is not None and self._released.has(tensor)):
                continue
            if name in self._states:
                self._training.set_value(name, _floats(tensor))
            elif name in self._seen and name not in self._counters:
                raise Error(f"the buffer `{name}` has changed, which was constant when compiled; compile again")
            self._seen[name] = version
        self._release()

    def _release(self) -> None:
        """Lets the module's own copy of what Lessen trains go, where that is asked for."""
        if self._released is not None:
            self._released.let_go(tensor for name, tensor in self._tensors().items() if name in self._states)

    # Programs

    @contextlib.contextmanager
    def _mode(self, training: bool) -> Iterator[None]:
        """The module in training or evaluation; one that is in training keeps parts that are not."""
        kept = {part: part.training for part in self.module.modules()}
        if not training or not self.module.training:
            self.module.train(training)
        try:
            yield
        finally:
            for part, was in kept.items():
                part.training = was

    def _export(self, kind: str, batch: Any) -> Program:
        loss = self._loss
        wrapped = _Wrapped(self.module, loss, self._inputs, asks=kind == "predict")
        names = dict(self._names)
        as_exported = self._released.as_exported() if self._released is not None else contextlib.nullcontext()
        with as_exported, self._mode(kind == "step"):
            wrapped.training = kind == "step"
            return Program(wrapped, batch, names)

    def _begin(self, batch: Any) -> None:
        """Exports and plans the step."""
        program = self._export("step", batch)
        leaves = _leaves(batch)
        trained = {
            id(own): name
            for own, name in ((tensor, name) for name, tensor in self._tensors().items())
            if own.requires_grad
        }
        groups = [
            settings | {"params": [trained[id(own)] for own in group["params"] if id(own) in trained]}
            for settings, group in zip(self._groups, self.optimizer.param_groups, strict=True)
        ]
        constants = self._constants(program, ())
        types = [(graph_dtype(leaf), list(leaf.shape)) for leaf in leaves]
        settings = json.dumps(self._settings | {"groups": groups})
        training = TorchTraining(settings, program.json, types, constants, self._threads)
        self._states = set(training.states())
        self._counters = training.counters()
        self._training = training
        self._programs.append(("step", program, 0))
        for name, tensor in self._tensors().items():
            if name in self._states:
                training.set_value(name, _floats(tensor))
            self._seen[name] = (tensor._version, tensor.data_ptr())
        if self.optimizer.state:
            self._take_moments(training)

    def _take_moments(self, training: TorchTraining) -> None:
        """Continues with the moments of an optimizer that has made steps; the optimizer gives them up."""
        names, taken, counts = moment_names(self.optimizer), {}, set()
        for tensor, state in self.optimizer.state.items():
            name = self._names.get(id(tensor))
            if name is None or name not in self._states:
                continue
            counts.add(int(state.get("step", 0)))
            own = {f"optimizer.{here}.{name}": state[there] for here, there in names.items() if there in state}
            taken.update({key: _floats(value) for key, value in own.items() if value is not None})
        if len(counts) > 1:
            raise Error("the optimizer has made more steps for some parameters than for others; give a new one")
        self._steps = self._counted = max(counts, default=0)
        training.carry_on(self._steps, taken)
        self.optimizer.state.clear()

    def _constants(self, program: Program, states: Iterable[str]) -> list[tuple[Any, ...]]:
        """Values that a program reads and that are no states."""
        inputs = json.loads(program.json)["inputs"] if states else []
        tensors = self._tensors() if states else {}
        found = dict(program.constants)
        for own in inputs:
            if own["role"] == "parameter" and own["target"] not in states:
                found[own["target"]] = tensors[own["target"]]
        return [(name, *constant(value)) for name, value in found.items() if name not in states]

    def _program(self, kind: str, batch: Any) -> tuple[Program, int]:
        """The program of a kind that takes a batch, exported where there is none yet."""
        leaves = _leaves(batch)
        for own, program, number in self._programs:
            if own == kind and program.takes(leaves):
                return program, number
        assert self._training is not None
        program = self._export(kind, batch)
        number = self._training.add_program(program.json, self._constants(program, self._states))
        self._programs.append((kind, program, number))
        return program, number

    # Training

    def plan(self, *batch: Any, **named: Any) -> dict[str, Any]:
        """Memory and time of a step: planned bytes, the planner's seconds, and how masks are traced."""
        if self._training is None:
            given = self._batch(batch, named) if batch or named else self._joined(self._example, [self._target()])
            self._begin(given)
        assert self._training is not None
        return dict(json.loads(self._training.summary()))

    def _target(self) -> torch.Tensor:
        """A target of the type that a loss by a word takes."""
        if not isinstance(self._loss, str):
            raise Error("a plan needs a whole batch, with the targets of the loss; give it as plan(*batch)")
        given = self._example
        with self._mode(False), torch.no_grad():
            output = logits_of(self.module(**given) if isinstance(given, dict) else self.module(*given))
        if self._loss not in ("cross_entropy", "nll"):
            return torch.zeros_like(output)
        return torch.zeros(output.shape[:1] + output.shape[2:], dtype=torch.int64)

    def step(self, *batch: Any, **named: Any) -> float:
        """One step on a batch: the module's inputs, then the targets of the loss. The loss before the update."""
        given = self._batch(batch, named)
        if self._training is None:
            self._begin(given)
        self._check_module()
        assert self._training is not None
        _, number = self._program("step", given)
        rates = [float(group["lr"]) for group in self.optimizer.param_groups]
        loss, self._steps, self.gradient_norm, self.seconds = self._training.step(number, _parts(given), rates)
        # Schedulers of PyTorch warn unless the optimizer has made a step.
        self.optimizer._opt_called = True  # type: ignore[attr-defined]
        return float(loss)

    def fit(self, data: Iterable[Any], epochs: int = 1, scheduler: Any = None) -> list[float]:
        """Trains on batches, and writes the parameters back. The mean loss of each epoch.

        ``scheduler`` is one of ``torch.optim.lr_scheduler`` that counts steps.
        """
        losses = []
        for _ in range(epochs):
            own = []
            for batch in data:
                own.append(self.step(batch))
                if scheduler is not None:
                    scheduler.step()
            if not own:
                raise Error("the data has no batches")
            losses.append(sum(own) / len(own))
        self.sync()
        return losses

    def evaluate(self, data: Iterable[Any]) -> float:
        """The mean loss over batches, without dropout, each batch by its number of examples."""
        total, count = 0.0, 0
        for batch in data:
            given = self._batch((batch,), {})
            size = _leaves(given)[0].shape[0]
            total += size * float(self._ask("evaluate", given)[0])
            count += size
        if not count:
            raise Error("the data has no batches")
        return total / count

    def predict(self, *inputs: Any, **named: Any) -> Any:
        """What the module returns for these inputs in evaluation."""
        return self._ask("predict", self._batch(inputs, named))

    def _ask(self, kind: str, batch: Any) -> Any:
        if self._training is None:
            self.plan()
        self._check_module()
        assert self._training is not None
        kept, self._inputs = self._inputs, len(batch) if kind == "predict" else self._inputs
        try:
            program, number = self._program(kind, batch)
        finally:
            self._inputs = kept
        found = iter(self._training.ask(number, _parts(batch)))
        leaves = []
        for is_tensor, literal in zip(program.is_tensor, program.literals, strict=True):
            if is_tensor:
                shape, array = next(found)
                tensor = torch.from_numpy(np.asarray(array)).reshape(shape)
                leaves.append(tensor.long() if tensor.dtype == torch.int32 else tensor)
            else:
                leaves.append(literal)
        return leaves if kind == "evaluate" else pytree.tree_unflatten(leaves, program.out_spec)

    def sync(self, *, optimizer: bool = False) -> None:
        """Writes parameters and buffers back into the module, and moments into the optimizer's state if asked.

        Values that were loaded into the module since the last step are taken over.
        """
        if self._training is None:
            return
        steps = self._steps - self._counted
        empty = {id(tensor) for tensor in self._released.take_back()} if self._released is not None else set()
        with torch.no_grad():
            for name, tensor in self._tensors().items():
                is_empty = id(tensor) in empty
                is_loaded = not is_empty and self._seen.get(name) != (tensor._version, tensor.data_ptr())
                if name in self._states and is_loaded:
                    self._training.set_value(name, _floats(tensor))
                elif name in self._states and (steps or is_empty):
                    values = torch.from_numpy(self._training.value(name))
                    tensor.copy_(values.reshape(tensor.shape))
                elif name in self._counters:
                    tensor += int(self._counters[name]) * steps
                self._seen[name] = (tensor._version, tensor.data_ptr())
        self._counted = self._steps
        if optimizer:
            self._give_moments(self._training)

    def _give_moments(self, training: TorchTraining) -> None:
        """Writes the moments into the optimizer's state, as if it had made the steps."""
        names, moments = moment_names(self.optimizer), training.moments()
        for group in self.optimizer.param_groups:
            for tensor in group["params"]:
                name = self._names.get(id(tensor), "")
                keys = {there: f"optimizer.{here}.{name}" for here, there in names.items()}
                own = {there: moments[key] for there, key in keys.items() if key in moments}
                state = {there: torch.from_numpy(value).reshape(tensor.shape) for there, value in own.items()}
                if "exp_avg" in state:
                    state["step"] = torch.tensor(float(self._steps))
                if state:
                    self.optimizer.state[tensor] = state

    def save(self, path: str | Path) -> None:
        """Writes the module's state as ``torch.save`` does, or a folder as ``save_pretrained`` does where it has it."""
        self.sync()
        if hasattr(self.module, "save_pretrained") and not Path(path).suffix:
            self.module.save_pretrained(path)
        else:
            torch.save(self.module.state_dict(), path)


def _leaves(batch: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(batch) if isinstance(leaf, torch.Tensor)]


def _parts(batch: Any) -> list[tuple[list[int], Any]]:
    """Shapes and elements of the tensors of a batch."""
    return [(list(leaf.shape), elements(leaf, f"part {at} of the batch")) for at, leaf in enumerate(_leaves(batch))]


def _floats(tensor: torch.Tensor) -> NDArray[Any]:
    return np.ascontiguousarray(tensor.detach().float().reshape(-1).numpy(force=True))


def compile(
    module: torch.nn.Module,
    example_inputs: Any,
    *,
    loss: Loss = None,
    optimizer: Any = None,
    budget: int | str | None = None,
    precision: str | None = None,
    **keys: Any,
) -> CompiledModule:
    """Compiles the training of a module.

    ``example_inputs`` are the module's, as a tuple or a dictionary of keywords; targets of the loss may follow them.
    ``loss`` is a word such as ``cross_entropy``, or a function of the module's result and the targets; without it the
    module returns its loss. ``optimizer`` is SGD, Adam or AdamW of ``torch.optim``, or the word of one with ``lr=``.
    ``release=True`` lets the memory of the module's own parameters go until ``sync``, which a call of the module asks
    for by itself. Other keys: ``threads``, ``seed``, ``clip_norm``, ``clip_value``, ``allowed_error``.
    """
    for key in keys:
        if key not in _KEYS:
            near = difflib.get_close_matches(key, _KEYS, 1)
            raise Error(f"there is no key {key}{f'; {near[0]} is' if near else f', but {chr(44).join(_KEYS)}'}")
    settings = {name: value for name, value in keys.items() if value is not None}
    if budget is not None:
        settings["budget"] = _bytes(budget)
    if precision is not None:
        settings["precision"] = precision
    return CompiledModule(module, example_inputs, loss, optimizer, settings)
