"""The networks of `lessen bench step`, as good plain PyTorch; those on images are in torch_images.py.

a  GPT: 6 layers x 384 wide, 6 heads, 256 tokens, batch 16, vocabulary 512; pre-LN, tanh GELU, learned
   positions, tied head, biases as GPT-2 has them, no dropout; cross entropy over all positions.
b  BERT-base for sequence classification: sequence 32, batch 32, vocabulary 21,128, 10 classes, dropout 0.1.
   transformers' own BertForSequenceClassification where it can be imported, else the same network from here.
c  the `thucnews` recipe: a pre-LN encoder, 2 layers x 128 wide, 4 heads, feed-forward 512, erf GELU, learned
   positions, mean pooling over real tokens, 10 classes, dropout 0.2, batch 128 of 32 characters, vocabulary
   4,800.

j  BERT-base for sequence classification: sequence 128, batch 16, vocabulary 30,522, 2 classes, dropout 0.1.
k  a reversible encoder by plain autograd: 12 layers x 256, 4 heads, feed-forward 1024, 256 tokens, batch 16, vocabulary
   8,000, dropout 0.1.

`build(case)` returns the module, its inputs as a dictionary and the name of the implementation; the module
returns the loss. Inputs are made from a fixed seed.
"""

import functools

import torch
import torch.nn as nn
import torch.nn.functional as F

import torch_images

SEED = 1


class Attention(nn.Module):
    """Multi-head self-attention with one fused projection for queries, keys and values."""

    def __init__(self, width, heads, dropout, causal):
        super().__init__()
        self.heads, self.dropout, self.causal = heads, dropout, causal
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, mask=None):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, dropout_p=self.dropout if self.training else 0.0, is_causal=self.causal
        )
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class FeedForward(nn.Module):
    def __init__(self, width, inner, approximate):
        super().__init__()
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.approximate = approximate

    def forward(self, x):
        return self.down(F.gelu(self.up(x), approximate=self.approximate))


class Block(nn.Module):
    """x + attention(norm(x)), then x + feed_forward(norm(x)); with `post`, the norm comes after each sum."""

    def __init__(
        self, width, heads, inner, dropout=0.0, causal=False, approximate="none", eps=1e-5, post=False
    ):
        super().__init__()
        self.attention = Attention(width, heads, dropout, causal)
        self.feed_forward = FeedForward(width, inner, approximate)
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=eps), nn.LayerNorm(width, eps=eps)
        # A dropout of nothing still costs eager PyTorch a call, so a network without dropout has none.
        self.drop = nn.Dropout(dropout) if dropout > 0 else nn.Identity()
        self.post = post

    def forward(self, x, mask=None):
        if self.post:
            x = self.norm1(x + self.drop(self.attention(x, mask)))
            return self.norm2(x + self.drop(self.feed_forward(x)))
        x = x + self.drop(self.attention(self.norm1(x), mask))
        return x + self.drop(self.feed_forward(self.norm2(x)))


class Gpt(nn.Module):
    def __init__(self, vocabulary=512, length=256, width=384, layers=6, heads=6):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(
            Block(width, heads, 4 * width, causal=True, approximate="tanh") for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens, labels):
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), labels.view(-1))


class Encoder(nn.Module):
    def __init__(
        self, vocabulary=4800, length=32, width=128, layers=2, heads=4, inner=512, classes=10, dropout=0.2
    ):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(width, heads, inner, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, tokens, mask, labels):
        x = self.drop(self.tokens(tokens) + self.positions.weight[: tokens.shape[1]])
        attend = mask[:, None, None, :]
        for block in self.blocks:
            x = block(x, attend)
        real = mask.unsqueeze(-1).to(x.dtype)
        pooled = (self.norm(x) * real).sum(1) / real.sum(1)
        return F.cross_entropy(self.head(self.drop(pooled)), labels)


class PlainBert(nn.Module):
    """BERT-base with a classification head, for machines without transformers."""

    def __init__(self, vocabulary=21128, classes=10, width=768, layers=12, heads=12, dropout=0.1):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(512, width)
        self.types = nn.Embedding(2, width)
        self.norm, self.drop = nn.LayerNorm(width, eps=1e-12), nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            Block(width, heads, 4 * width, dropout, eps=1e-12, post=True) for _ in range(layers)
        )
        self.pooler, self.head = nn.Linear(width, width), nn.Linear(width, classes)

    def forward(self, tokens, labels):
        x = self.tokens(tokens) + self.types.weight[0] + self.positions.weight[: tokens.shape[1]]
        x = self.drop(self.norm(x))
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.drop(torch.tanh(self.pooler(x[:, 0])))), labels)


class Half(nn.Module):
    """A branch of a reversible layer: norm, then attention or feed-forward, then dropout."""

    def __init__(self, width, branch, dropout):
        super().__init__()
        self.norm, self.branch, self.drop = nn.LayerNorm(width), branch, nn.Dropout(dropout)

    def forward(self, x):
        return self.drop(self.branch(self.norm(x)))


class Reversible(nn.Module):
    """`y1 = x1 + f(x2)`, `y2 = x2 + g(y1)`."""

    def __init__(self, width, heads, inner, dropout):
        super().__init__()
        self.f = Half(width, Attention(width, heads, dropout, causal=False), dropout)
        self.g = Half(width, FeedForward(width, inner, "none"), dropout)

    def forward(self, x1, x2):
        y1 = x1 + self.f(x2)
        return y1, x2 + self.g(y1)


class ReversibleEncoder(nn.Module):
    def __init__(self, vocabulary=8000, length=256, width=256, layers=12, heads=4, inner=1024, classes=2, dropout=0.1):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Reversible(width, heads, inner, dropout) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, tokens, labels):
        x = self.drop(self.tokens(tokens) + self.positions.weight[: tokens.shape[1]])
        x1 = x2 = x
        for block in self.blocks:
            x1, x2 = block(x1, x2)
        return F.cross_entropy(self.head(self.drop(self.norm((x1 + x2) / 2).mean(1))), labels)


class TransformersBert(nn.Module):
    """transformers' BertForSequenceClassification, returning its loss alone."""

    def __init__(self, vocabulary=21128, classes=10):
        super().__init__()
        from transformers import BertConfig, BertForSequenceClassification

        self.bert = BertForSequenceClassification(BertConfig(vocab_size=vocabulary, num_labels=classes))

    def forward(self, tokens, labels):
        # Without a mask, attention takes PyTorch's path for unpadded sequences.
        return self.bert(input_ids=tokens, labels=labels).loss


def has_transformers():
    try:
        import transformers  # noqa: F401

        # The classes are imported lazily; this brings in the code itself.
        from transformers import BertForSequenceClassification  # noqa: F401
    except ImportError:
        return False
    return True


def checkpoint_blocks(model):
    """Puts torch.utils.checkpoint around each block."""
    from torch.utils.checkpoint import checkpoint

    if isinstance(model, TransformersBert):
        model.bert.gradient_checkpointing_enable({"use_reentrant": False})
        return
    for module in model.modules():
        if isinstance(module, (Block, Reversible, torch_images.Unit)):
            module.forward = functools.partial(checkpoint, module.forward, use_reentrant=False)


def start_small(model):
    """GPT-2's starting values: normal(0, 0.02) for matrices, zero for biases."""
    for module in model.modules():
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)
    return model


def build(case):
    """The module of a case in training mode, its inputs, and what it is called in the report."""
    torch.manual_seed(SEED)
    if case == "a":
        tokens = torch.randint(512, (16, 257))
        model, inputs = (
            start_small(Gpt()),
            dict(tokens=tokens[:, :-1].contiguous(), labels=tokens[:, 1:].contiguous()),
        )
        name = "plain nn.Module"
    elif case == "b":
        model = TransformersBert() if has_transformers() else start_small(PlainBert())
        inputs = dict(tokens=torch.randint(21128, (32, 32)), labels=torch.randint(10, (32,)))
        name = "transformers" if has_transformers() else "plain nn.Module"
    elif case == "j":
        is_there = has_transformers()
        model = TransformersBert(30522, 2) if is_there else start_small(PlainBert(30522, 2))
        inputs = dict(tokens=torch.randint(30522, (16, 128)), labels=torch.randint(2, (16,)))
        name = "transformers" if is_there else "plain nn.Module"
    elif case == "k":
        model = start_small(ReversibleEncoder())
        inputs = dict(tokens=torch.randint(8000, (16, 256)), labels=torch.randint(2, (16,)))
        name = "plain nn.Module"
    elif case == "c":
        lengths = torch.randint(14, 27, (128, 1))
        mask = torch.arange(32)[None, :] < lengths
        tokens = torch.randint(1, 4800, (128, 32)) * mask
        model, inputs = (
            start_small(Encoder()),
            dict(tokens=tokens, mask=mask, labels=torch.randint(10, (128,))),
        )
        name = "plain nn.Module"
    else:
        model, inputs, name = torch_images.build(case)
    return model.train(), inputs, name


LEARNING_RATE = {"a": 3e-4, "b": 2e-5, "c": 5e-4, "j": 2e-5, "k": 5e-4, **torch_images.LEARNING_RATE}
CASES = tuple(LEARNING_RATE)
