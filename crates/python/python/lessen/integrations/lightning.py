"""``Strategy`` of Lightning, whose training steps Lessen plans and runs."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import lightning
import torch
from lightning.pytorch.strategies import SingleDeviceStrategy

from .. import Error
from .._torch import CompiledModule, compile

_logger = logging.getLogger("lessen")

_PRECISIONS = {"32-true": None, "bf16-mixed": "bf16"}


Logged = list[tuple[str, Any, dict[str, Any]]]


class _Step(torch.nn.Module):
    """The ``training_step`` of a module as a function of a batch; ``keep`` gets its loss and what it logs."""

    def __init__(
        self,
        module: lightning.LightningModule,
        more: tuple[Any, ...],
        keep: Callable[[torch.Tensor, Logged], None],
        *,
        is_single: bool,
    ) -> None:
        super().__init__()
        self.module = module
        self.more = more
        self.keep = keep
        self.is_single = is_single

    def forward(self, *parts: Any, **named: Any) -> torch.Tensor:
        batch = named or (parts[0] if self.is_single else parts)
        with _logs(self.module) as logged:
            output = self.module.training_step(batch, *self.more)
        loss: torch.Tensor = output["loss"] if isinstance(output, dict) else output
        self.keep(loss, logged)
        return loss


@contextmanager
def _logs(module: lightning.LightningModule) -> Iterator[Logged]:
    """Collects what a module logs, in place of Lightning."""
    logged: Logged = []

    def log(name: str, value: Any, **more: Any) -> None:
        logged.append((name, value, more))

    def log_dict(values: dict[str, Any], **more: Any) -> None:
        logged.extend((name, value, more) for name, value in values.items())

    module.log, module.log_dict = log, log_dict
    try:
        yield logged
    finally:
        del module.log, module.log_dict


class Strategy(SingleDeviceStrategy):
    """Training steps of Lessen for a ``lightning.Trainer``; ``budget``, ``threads``, ``allowed_error`` and
    ``release`` are those of ``lessen.compile``.

    ``training_step`` is traced; of what it logs its loss and plain numbers are kept. Schedulers, clipping, callbacks
    and checkpoints are Lightning's, validation and tests run in PyTorch.

    Raises ``lessen.Error`` for several optimizers, manual optimization, ``accumulate_grad_batches`` and other
    precisions than ``32-true`` and ``bf16-mixed``.
    """

    def __init__(
        self,
        *,
        budget: int | str | None = None,
        threads: int | None = None,
        allowed_error: float | None = None,
        release: bool = False,
    ) -> None:
        super().__init__(device="cpu")
        self._settings: dict[str, Any] = {
            "budget": budget,
            "threads": threads,
            "allowed_error": allowed_error,
            "release": release,
        }
        self._compiled: CompiledModule | None = None
        self._logged: Logged = []

    def _begun(self, batch: Any, more: tuple[Any, ...]) -> CompiledModule:
        """The compiled step, made anew where a checkpoint has given the optimizer a state."""
        module = self.lightning_module
        trainer = module.trainer
        if not module.automatic_optimization or len(self.optimizers) != 1:
            raise Error("Lessen takes modules with one optimizer and automatic_optimization; write others as a loop")
        if trainer.accumulate_grad_batches != 1:
            raise Error("accumulate_grad_batches is not followed; give larger batches, whose memory Lessen plans")
        if self.precision_plugin.precision not in _PRECISIONS:
            raise Error(f"precision='{self.precision_plugin.precision}' is not followed; choose 32-true or bf16-mixed")
        optimizer = self.optimizers[0]
        if self._compiled is None or optimizer.state or self._compiled.optimizer is not optimizer:
            step = _Step(module, more, self._keep, is_single=isinstance(batch, torch.Tensor))
            clip = "clip_value" if trainer.gradient_clip_algorithm == "value" else "clip_norm"
            keys: dict[str, Any] = {
                clip: trainer.gradient_clip_val or None,
                "precision": _PRECISIONS[self.precision_plugin.precision],
            }
            self._compiled = compile(step, batch, optimizer=optimizer, **self._settings, **keys)
        return self._compiled

    def _keep(self, loss: torch.Tensor, logged: Logged) -> None:
        """Keeps the names under which the loss is logged, as None, and plain numbers."""
        is_kept = [value is loss or isinstance(value, (int, float)) for _, value, _ in logged]
        left = [name for (name, _, _), kept in zip(logged, is_kept, strict=True) if not kept]
        if left and not self._logged:
            _logger.warning("training_step logs %s, which is not its loss and is left out", ", ".join(left))
        self._logged = [
            (name, None if value is loss else value, keys)
            for (name, value, keys), kept in zip(logged, is_kept, strict=True)
            if kept
        ]

    def training_step(self, *arguments: Any, **named: Any) -> Any:
        """One step, the update included; the loss before it."""
        batch, *more = (*arguments, *named.values())
        loss = torch.tensor(self._begun(batch, tuple(more)).step(batch))
        for name, value, keys in self._logged:
            self.lightning_module.log(name, loss if value is None else value, **keys)
        return loss

    def backward(self, closure_loss: torch.Tensor, *arguments: Any, **named: Any) -> torch.Tensor:
        """Nothing, since the step has made the update."""
        return closure_loss

    def optimizer_step(self, optimizer: Any, closure: Callable[[], Any], model: Any = None, **named: Any) -> Any:
        """The step, which ``closure`` asks for."""
        return closure()

    def sync(self) -> None:
        """Writes parameters and buffers back into the module."""
        if self._compiled is not None:
            self._compiled.sync()

    def validation_step(self, *arguments: Any, **named: Any) -> Any:
        """Lightning's, with the parameters of the last step."""
        self.sync()
        return super().validation_step(*arguments, **named)

    def lightning_module_state_dict(self) -> dict[str, Any]:
        """The module's state, with the parameters of the last step."""
        self.sync()
        return super().lightning_module_state_dict()

    def optimizer_state(self, optimizer: Any) -> dict[str, Any]:
        """The optimizer's state, with the moments of the last step."""
        if self._compiled is None:
            return super().optimizer_state(optimizer)
        self._compiled.sync(optimizer=True)
        state = super().optimizer_state(optimizer)
        self._compiled.optimizer.state.clear()
        return state

    def on_train_end(self) -> None:
        """Leaves the parameters of the last step in the module."""
        self.sync()
        super().on_train_end()
