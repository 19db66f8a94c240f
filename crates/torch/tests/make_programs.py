"""Writes tests/programs/: exported programs of small modules, with the losses and parameters of PyTorch.

    PYTHONPATH=crates/python/python python crates/torch/tests/make_programs.py

Needs torch and the package's library. Numbers are multiples of 1/64, so that files are short and exact.
"""

import json
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from lessen._export import Program, elements, graph_dtype
from lessen._torch import _Wrapped

STEPS, BATCH = 3, 4


class Images(nn.Module):
    """Convolutions, batch normalization, operators in place and pooling."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(inplace=True))
        self.deep = nn.Sequential(
            nn.MaxPool2d(2), nn.Conv2d(4, 8, 3, stride=2, padding=1, groups=2), nn.Hardswish(True)
        )
        self.head = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.flatten(functional.adaptive_avg_pool2d(self.deep(self.stem(x)), 1), 1))


class Attention(nn.Module):
    """Causal attention with padding, by a mask of conjunctions, and a table that is the head, too."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(12, 8, padding_idx=0)
        self.project = nn.Linear(8, 24)
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 12, bias=False)
        self.head.weight = self.words.weight

    def forward(self, ids: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        size, length = ids.shape
        x = self.words(ids)
        q, k, v = self.project(self.norm(x)).view(size, length, 3, 2, 4).permute(2, 0, 3, 1, 4)
        places = torch.arange(length)
        mask = (places[:, None] >= places)[None, None] & seen.bool()[:, None, None, :].expand(-1, 1, length, -1)
        y = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.head(x + y.transpose(1, 2).reshape(size, length, 8))


class Recurrent(nn.Module):
    """An LSTM of two directions and gated units."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(4, 4, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(8, 4)
        self.head = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.gru(self.lstm(x)[0].transpose(0, 1))[1][-1])


class Parts(nn.Module):
    """Parts that are changed in place, a sum by positions, an einsum, and a buffer that moves."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(4, 4))
        self.head = nn.Linear(4, 3)
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        y = torch.einsum("ni,oi->no", x, self.weight)
        z = torch.zeros_like(y)
        z[:, 1:] = y[:, :-1]
        z[:, 0] = 0.5
        if self.training:
            self.mean.mul_(0.75).add_(y.mean(0).detach(), alpha=0.25)
        return self.head(torch.zeros_like(z).index_add(0, places, z) + self.mean)


def grouped(rows: torch.Tensor, weight: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """The product of each row with the matrix of its group; in f64 group by group, since PyTorch has none there."""
    if rows.dtype != torch.float64:
        return functional.grouped_mm(rows, weight, offs=ends)
    parts = rows.tensor_split(ends[:-1].tolist())
    return torch.cat([part @ own for part, own in zip(parts, weight, strict=True)])


class Experts(nn.Module):
    """A mixture of experts: a choice by ``topk``, counts by ``histc``, grouped products, sums by ``index_put``."""

    def __init__(self) -> None:
        super().__init__()
        self.choose = nn.Linear(8, 3)
        self.weight = nn.Parameter(torch.zeros(3, 8, 8))
        self.head = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shares, experts = self.choose(x).softmax(-1).topk(2)
        order = experts.flatten().argsort()
        ends = torch.histc(experts.float(), bins=3, min=0, max=2).cumsum(0, dtype=torch.int32)
        rows = order // 2
        y = grouped(x[rows], self.weight, ends) * shares.flatten()[order, None]
        return self.head(torch.zeros_like(x).index_put((rows,), y, accumulate=True))


def cut(tensor: torch.Tensor) -> torch.Tensor:
    return torch.round(tensor * 64) / 64 if tensor.is_floating_point() else tensor


def numbers(tensor: torch.Tensor) -> list[float]:
    return [round(float(x), 8) for x in tensor.detach().double().reshape(-1)]


def write(name: str, module: nn.Module, inputs: tuple[torch.Tensor, ...], target: torch.Tensor, rule: str) -> None:
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(cut(parameter + 0.25 * torch.randn_like(parameter)))
    names: dict[int, str] = {}
    for own, tensor in (*module.named_parameters(remove_duplicate=False), *module.named_buffers()):
        names.setdefault(id(tensor), own)
    batch = (*inputs, target)
    program = Program(_Wrapped(module, "cross_entropy", len(inputs), asks=False), batch, names)
    begin = {own: [list(tensor.shape), numbers(tensor)] for own, tensor in module.named_parameters()}
    constants = {
        own: [list(tensor.shape), graph_dtype(tensor), numbers(tensor)] for own, tensor in program.constants.items()
    }
    module.double()
    adam = {"betas": (0.9, 0.999), "eps": 1e-8}
    keys: dict[str, Any] = {"sgd": {"momentum": 0.5, "nesterov": True}, "adamw": adam}[rule]
    optimizer = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}[rule](
        module.parameters(), lr=0.125, weight_decay=0.25, **keys
    )
    given = [part.double() if part.is_floating_point() else part for part in inputs]
    losses = []
    for _ in range(STEPS):
        output = module(*given)
        loss = functional.cross_entropy(output.flatten(0, -2), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    group = {"params": list(begin), "rule": rule, "lr": 0.125, "weight_decay": 0.25} | keys
    floats = [own for own, tensor in module.named_buffers() if tensor.is_floating_point()]
    content = {
        "program": json.loads(program.json),
        "settings": {"groups": [group]},
        "batch": [[graph_dtype(part), list(part.shape), elements(part, "x").tolist()] for part in batch],
        "parameters": begin,
        "constants": constants,
        "losses": losses,
        "ends": {own: numbers(module.state_dict()[own]) for own in [*begin, *floats]},
    }
    for node in content["program"]["nodes"]:
        node["line"] = node["line"].rpartition("/")[2]
    path = Path(__file__).parent / "programs" / f"{name}.json"
    path.write_text(json.dumps(content, separators=(",", ":")) + "\n")


def main() -> None:
    torch.manual_seed(0)
    images, ids = cut(torch.randn(BATCH, 3, 8, 8)), torch.randint(1, 12, (BATCH, 5))
    seen = torch.ones(BATCH, 5, dtype=torch.int64)
    ids[0, 3:], seen[0, 3:] = 0, 0
    write("images", Images(), (images,), torch.randint(0, 3, (BATCH,)), "sgd")
    write("attention", Attention(), (ids, seen), torch.randint(0, 12, (BATCH, 5)), "sgd")
    write("recurrent", Recurrent(), (cut(torch.randn(BATCH, 3, 4)),), torch.randint(0, 3, (BATCH,)), "adamw")
    places = torch.tensor([0, 2, 2, 1])
    write("parts", Parts(), (cut(torch.randn(BATCH, 4)), places), torch.randint(0, 3, (BATCH,)), "sgd")
    write("experts", Experts(), (cut(torch.randn(BATCH, 8)),), torch.randint(0, 3, (BATCH,)), "adamw")


if __name__ == "__main__":
    main()
