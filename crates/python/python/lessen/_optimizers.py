"""Optimizers of PyTorch as the settings of groups that Lessen trains by."""

from typing import Any

import torch

from ._errors import Error


def groups_of(optimizer: Any, lr: float | None, module: torch.nn.Module) -> tuple[Any, list[dict[str, Any]]]:
    """The optimizer's object, if there is one, and the settings of its groups; a word means PyTorch's defaults."""
    classes = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    if optimizer is None or isinstance(optimizer, str):
        made = classes.get(str(optimizer or "adamw").lower())
        if made is None:
            raise Error(f"there is no optimizer '{optimizer}'; choose sgd, adam or adamw, or give one of torch.optim")
        trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
        optimizer = made(trained, lr=1e-3 if lr is None else lr)
    elif lr is not None:
        raise Error("lr= is for optimizers that are given as a word; the optimizer's groups have their own")
    if type(optimizer) not in classes.values():
        raise Error(f"the optimizer {type(optimizer).__name__} is not traced; use SGD, Adam or AdamW of torch.optim")
    return optimizer, [_settings(optimizer, group) for group in optimizer.param_groups]


def _settings(optimizer: torch.optim.Optimizer, group: dict[str, Any]) -> dict[str, Any]:
    for name in ("amsgrad", "maximize", "differentiable", "dampening"):
        if group.get(name):
            raise Error(f"the optimizer's setting {name}={group[name]} is not traced; leave it out")
    settings = {"lr": float(group["lr"]), "weight_decay": float(group["weight_decay"])}
    if isinstance(optimizer, torch.optim.SGD):
        momentum, nesterov = float(group["momentum"]), bool(group["nesterov"])
        return settings | {"rule": "sgd", "momentum": momentum, "nesterov": nesterov}
    is_decoupled = group.get("decoupled_weight_decay", isinstance(optimizer, torch.optim.AdamW))
    betas = [float(beta) for beta in group["betas"]]
    return settings | {"rule": "adamw" if is_decoupled else "adam", "betas": betas, "eps": float(group["eps"])}


def moment_names(optimizer: torch.optim.Optimizer) -> dict[str, str]:
    """The names of an optimizer's states here, with those of PyTorch."""
    if isinstance(optimizer, torch.optim.SGD):
        return {"momentum": "momentum_buffer"}
    return {"m": "exp_avg", "v": "exp_avg_sq"}
