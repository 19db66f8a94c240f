"""Losses of a module's results, by words and by the module itself."""

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from ._errors import Error

Loss = str | Callable[..., torch.Tensor] | None

LOSSES: dict[str, Callable[..., torch.Tensor]] = {
    "cross_entropy": lambda output, target: _cross_entropy(output, target),
    "nll": functional.nll_loss,
    "mse": functional.mse_loss,
    "l1": functional.l1_loss,
    "smooth_l1": functional.smooth_l1_loss,
    "huber": functional.huber_loss,
    "bce": functional.binary_cross_entropy,
    "bce_with_logits": functional.binary_cross_entropy_with_logits,
}


def _cross_entropy(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Cross entropy with the classes along the axis 1, or along the last one as language models have them."""
    is_last = output.dim() > 2 and output.shape[:-1] == target.shape and output.shape[2:] != target.shape[1:]
    if is_last:
        return functional.cross_entropy(output.flatten(0, -2), target.flatten())
    return functional.cross_entropy(output, target)


def logits_of(output: Any) -> Any:
    """The tensor that a loss by a word reads of a module's results."""
    for name in ("logits", "last_hidden_state"):
        found = output.get(name) if isinstance(output, dict) else getattr(output, name, None)
        if isinstance(found, torch.Tensor):
            return found
    return output[0] if isinstance(output, (tuple, list)) else output


def own_loss(output: Any) -> torch.Tensor:
    """The scalar of a module's results that is its loss."""
    named = output.get("loss") if isinstance(output, dict) else getattr(output, "loss", None)
    first = output[0] if isinstance(output, (tuple, list)) and output else output
    for found in (named, first):
        if isinstance(found, torch.Tensor) and found.numel() == 1:
            return found
    raise Error("the module gives no scalar loss; return one, or give loss= to lessen.compile, such as 'cross_entropy'")
