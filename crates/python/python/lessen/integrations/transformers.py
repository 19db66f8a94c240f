"""``Trainer`` of Hugging Face's transformers, whose steps Lessen plans and runs."""

import copy
import logging
from collections.abc import Callable
from typing import Any

import torch
import transformers

from .. import Error
from .._torch import CompiledModule, compile

_log = logging.getLogger("lessen")

# Layouts of batches from which on padding to fixed lengths is advised.
_MANY_LAYOUTS = 8

_REFUSED = {
    "fp16": "choose bf16=True or leave it out",
    "fsdp": "Lessen trains in one process",
    "deepspeed": "Lessen trains in one process",
    "torch_compile": "Lessen compiles the step itself",
    "neftune_noise_alpha": "add the noise in the model's forward",
}


class _WithLoss(torch.nn.Module):
    """A model with the trainer's loss, as a function of a batch's columns."""

    def __init__(self, model: torch.nn.Module, loss: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.model = model
        self.loss = loss

    def forward(self, **inputs: Any) -> torch.Tensor:
        return self.loss(self.model, inputs)


class Trainer(transformers.Trainer):
    """``transformers.Trainer`` with steps of Lessen; ``budget``, ``threads``, ``allowed_error`` and ``release``
    are those of ``lessen.compile``.

    Arguments, callbacks, schedules, logs, evaluations and checkpoints are those of transformers. ``bf16=True`` rounds
    the factors of products. Batches that ``gradient_accumulation_steps`` adds up are one batch of their examples, and
    gradient checkpointing is left to the planner. Evaluation runs in PyTorch.

    Raises ``lessen.Error`` for arguments that Lessen does not follow: ``fp16``, several processes, devices other than
    the CPU, optimizers other than SGD, Adam and AdamW of ``torch.optim``.
    """

    def __init__(
        self,
        model: Any = None,
        args: Any = None,
        *more: Any,
        budget: int | str | None = None,
        threads: int | None = None,
        allowed_error: float | None = None,
        release: bool = False,
        **named: Any,
    ) -> None:
        args = transformers.TrainingArguments(output_dir="tmp_trainer") if args is None else copy.copy(args)
        precision = "bf16" if args.bf16 else None
        _follow(args)
        self._compiled: CompiledModule | None = None
        self._compiled_of: tuple[Any, Any] = (None, None)
        self._layouts: set[tuple[Any, ...]] = set()
        self._settings: dict[str, Any] = {
            "budget": budget,
            "precision": precision,
            "threads": threads,
            "allowed_error": allowed_error,
            "release": release,
            "seed": args.seed,
            "clip_norm": args.max_grad_norm or None,
        }
        super().__init__(model, args, *more, **named)

    def _steps(self, inputs: dict[str, Any]) -> CompiledModule:
        """The compiled step of the model under the optimizer that the trainer has."""
        model: Any = self.model
        optimizer: Any = getattr(self.optimizer, "optimizer", self.optimizer)
        # A checkpoint has given the optimizer a state.
        is_resumed = bool(optimizer.state)
        if self._compiled is None or is_resumed or self._compiled_of != (model, optimizer):
            loss: Any = lambda model, inputs: self.compute_loss(model, dict(inputs))
            module = _WithLoss(model, loss)
            model.train()
            self._compiled = compile(module, inputs, optimizer=optimizer, **self._settings)
            self._compiled_of = (model, optimizer)
            self._layouts.clear()
            _log.info("a step takes %d bytes", self._compiled.plan()["peak_bytes"])
        return self._compiled

    def training_step(self, model: Any, inputs: dict[str, Any], num_items_in_batch: Any = None) -> torch.Tensor:
        """One step, the update included; the loss before it."""
        inputs = {name: part for name, part in self._prepare_inputs(inputs).items() if part is not None}
        compiled = self._steps(inputs)
        compiled.module.train()
        loss = compiled.step(inputs)
        layout = tuple(tuple(part.shape) for part in inputs.values() if isinstance(part, torch.Tensor))
        self._layouts.add(layout)
        if len(self._layouts) == _MANY_LAYOUTS:
            _log.warning(
                "batches have had %d shapes, for each of which a step is compiled; pad to a fixed length, or give the "
                "collator pad_to_multiple_of",
                _MANY_LAYOUTS,
            )
        return torch.tensor(loss)

    def _clip_grad_norm(self, model: Any) -> float | None:
        return None if self._compiled is None else self._compiled.gradient_norm

    def _get_grad_norm(self, model: Any, grad_norm: float | None = None) -> float | None:
        return grad_norm

    def sync(self) -> None:
        """Writes parameters and buffers back into the model."""
        if self._compiled is not None:
            self._compiled.sync()

    def train(self, *arguments: Any, **named: Any) -> Any:
        """Trains as ``transformers.Trainer`` does; the model has the parameters afterwards."""
        output = super().train(*arguments, **named)
        self.sync()
        return output

    def evaluation_loop(self, *arguments: Any, **named: Any) -> Any:
        """Evaluates in PyTorch, with the parameters of the last step."""
        self.sync()
        return super().evaluation_loop(*arguments, **named)

    def save_model(self, *arguments: Any, **named: Any) -> None:
        """Saves the model with the parameters of the last step."""
        self.sync()
        super().save_model(*arguments, **named)

    def _save_optimizer_and_scheduler(self, output_dir: str) -> None:
        if self._compiled is not None:
            self._compiled.sync(optimizer=True)
        super()._save_optimizer_and_scheduler(output_dir)
        if self._compiled is not None:
            self._compiled.optimizer.state.clear()

    def _load_best_model(self) -> None:
        self.sync()
        super()._load_best_model()


def _follow(args: Any) -> None:
    """Refuses arguments that Lessen does not follow, and sets those whose part Lessen takes."""
    for name, remedy in _REFUSED.items():
        if getattr(args, name, None):
            raise Error(f"TrainingArguments({name}={getattr(args, name)!r}) is not followed; {remedy}")
    if args.device.type != "cpu" or args.world_size > 1:
        raise Error(
            f"Lessen trains on the CPU in one process, not on {args.device}; give TrainingArguments(use_cpu=True)"
        )
    if args.gradient_checkpointing:
        _log.warning("gradient_checkpointing is left to the planner; give the trainer a budget, such as budget='2GiB'")
        args.gradient_checkpointing = False
    if args.gradient_accumulation_steps > 1:
        size = args.per_device_train_batch_size * args.gradient_accumulation_steps
        _log.warning("%d accumulated batches are one of %d examples", args.gradient_accumulation_steps, size)
        args.per_device_train_batch_size, args.gradient_accumulation_steps = size, 1
    if args.bf16:
        # Lessen rounds the factors of products; regions of autocast would round other values as well.
        args.bf16, args.mixed_precision = False, "no"
