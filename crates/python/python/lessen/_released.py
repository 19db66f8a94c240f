"""Parameters whose values a module gives up while Lessen trains them."""

import contextlib
import ctypes
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch


class Released:
    """Lets the memory of a module's parameters go.

    Until their values are back, such parameters have their shape and are NaN. A call of the module or of one of its
    layers, and reading or loading its state, asks for the values first.
    """

    def __init__(self, module: torch.nn.Module, ask: Callable[[], None]) -> None:
        self._module = module
        self._ask = ask
        self._tensors: list[torch.Tensor] = []
        self._hooks: list[Any] = []
        self._value = torch.full((), torch.nan)

    def let_go(self, tensors: Iterable[torch.Tensor]) -> None:
        """Lets the memory of these tensors go, but for those that share it with others."""
        for tensor in tensors:
            if tensor.untyped_storage().nbytes() == tensor.nbytes and not self.has(tensor):
                tensor.data = self._value.expand(tensor.shape)
                self._tensors.append(tensor)
        if self._tensors and not self._hooks:
            self._watch()
            _trim()

    def take_back(self) -> list[torch.Tensor]:
        """Gives the tensors memory again, whose values the caller writes."""
        taken = [tensor for tensor in self._tensors if self.has(tensor)]
        for tensor in taken:
            tensor.data = torch.empty(tensor.shape)
        self._tensors.clear()
        self._leave()
        return taken

    @contextlib.contextmanager
    def as_exported(self) -> Iterator[None]:
        """The tensors with strides as ever, and memory that an export does not touch."""
        taken = self.take_back()
        try:
            yield
        finally:
            self.let_go(taken)

    def has(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor is one whose memory went."""
        return bool(tensor.untyped_storage().data_ptr() == self._value.untyped_storage().data_ptr())

    def _watch(self) -> None:
        hook = lambda *_: self._ask()
        self._hooks = [part.register_forward_pre_hook(hook) for part in self._module.modules()]
        self._hooks.append(self._module.register_state_dict_pre_hook(hook))
        self._hooks.append(self._module.register_load_state_dict_pre_hook(hook))

    def _leave(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()


def _trim() -> None:
    """Returns what the allocator keeps of freed memory, where it is glibc's."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
