"""Trains 63 modules of PyTorch for five steps by ``lessen.compile``, beside eager PyTorch in f64 and f32.

    python bench/torch_modules.py [NAME ...] [--json FILE]

Needs torch, torchvision and transformers. Dropout is 0. A module passes where all losses are within 1e-5 of those of
f64, relative to them, and all parameters within 1e-4 of the greatest magnitude of their tensor, at least 0.01. Where a
number is within rounding of 0 before a ReLU, or two are alike in a window of max pooling, f32 may take the other side,
in eager PyTorch as here. So a module that does not pass is tried again with other numbers, twice; the table says with
which ones it passes. Deep untrained networks with batch normalization magnify rounding by 1e5 within a step: there
eager f32 itself is beyond the bounds, and Lessen's errors are compared with its, of which they may be four times.
"""

import argparse
import copy
import gc
import json
import math
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torchvision
import transformers

import lessen

STEPS, BATCH, LENGTH, PIXELS, CLASSES = 5, 4, 16, 64, 10
LOSS_BOUND, PARAMETER_BOUND = 1e-5, 1e-4
SEEDS = (1, 2, 3)

IMAGES = """alexnet densenet121 efficientnet_b0 googlenet mnasnet0_5 mobilenet_v2 mobilenet_v3_small regnet_x_400mf
regnet_y_400mf resnet18 resnet50 resnext50_32x4d shufflenet_v2_x0_5 squeezenet1_1 vgg11 vgg11_bn wide_resnet50_2
convnext_tiny inception_v3 swin_t swin_v2_t vit_b_16 maxvit_t""".split()

TEXTS = """BertForSequenceClassification RobertaForSequenceClassification ElectraForSequenceClassification
MPNetForSequenceClassification DebertaV2ForSequenceClassification ModernBertForSequenceClassification
AlbertForSequenceClassification BertForMaskedLM DistilBertForSequenceClassification LlamaForCausalLM MistralForCausalLM
Qwen2ForCausalLM Qwen3ForCausalLM Gemma2ForCausalLM PhiForCausalLM Phi3ForCausalLM Olmo2ForCausalLM GPTNeoXForCausalLM
StableLmForCausalLM CohereForCausalLM GraniteForCausalLM SmolLM3ForCausalLM GPT2LMHeadModel GPTJForCausalLM
OPTForCausalLM BloomForCausalLM MambaForCausalLM MixtralForCausalLM T5ForConditionalGeneration
BartForConditionalGeneration ViTForImageClassification DeiTForImageClassification BeitForImageClassification
Dinov2ForImageClassification ConvNextForImageClassification ResNetForImageClassification
SegformerForImageClassification CLIPModel WhisperForConditionalGeneration""".split()

SIZES: dict[str, Any] = dict(
    vocab_size=96,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    max_position_embeddings=64,
    pad_token_id=0,
    bos_token_id=1,
    eos_token_id=2,
    num_labels=2,
)
OWN: dict[str, dict[str, Any]] = {
    "Albert": dict(embedding_size=16),
    "Bart": dict(
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
    ),
    "Beit": dict(image_size=32, patch_size=8),
    "Bloom": dict(n_layer=2, n_head=2),
    "CLIP": dict(text_config=dict(SIZES), vision_config=dict(SIZES, image_size=32, patch_size=8), projection_dim=16),
    "ConvNext": dict(hidden_sizes=[8, 16], depths=[1, 1], num_stages=2, image_size=32),
    "DeiT": dict(image_size=32, patch_size=8),
    "Dinov2": dict(image_size=32, patch_size=8),
    "DistilBert": dict(dim=32, hidden_dim=64, n_layers=2, n_heads=2),
    "GPT2": dict(n_embd=32, n_layer=2, n_head=2, n_positions=64),
    "GPTJ": dict(n_embd=32, n_layer=2, n_head=2, n_positions=64, rotary_dim=8),
    "Gemma2": dict(num_key_value_heads=1, head_dim=16),
    "DebertaV2": dict(problem_type="single_label_classification"),
    "Mamba": dict(state_size=4, expand=2),
    "Mixtral": dict(num_key_value_heads=1, num_local_experts=4, experts_implementation="batched_mm"),
    "ModernBert": dict(cls_token_id=1, sep_token_id=2),
    "OPT": dict(ffn_dim=64, word_embed_proj_dim=32),
    "Qwen3": dict(head_dim=16),
    "ResNet": dict(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1]),
    "Segformer": dict(hidden_sizes=[8, 16, 16, 16], depths=[1] * 4, num_attention_heads=[1, 2, 2, 2]),
    "T5": dict(d_model=32, d_kv=16, d_ff=64, num_layers=2, num_heads=2, decoder_start_token_id=0),
    "ViT": dict(image_size=32, patch_size=8),
    "Whisper": dict(
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=64,
        decoder_ffn_dim=64,
        num_mel_bins=8,
        max_source_positions=16,
        max_target_positions=32,
        decoder_start_token_id=1,
    ),
}
for name in ("Llama", "Mistral", "Qwen2", "Phi", "Phi3", "Olmo2", "StableLm", "Cohere", "Granite", "SmolLM3", "Qwen3"):
    OWN[name] = {"num_key_value_heads": 1} | OWN.get(name, {})


class Tagger(torch.nn.Module):
    """An LSTM with a label for each word."""

    def __init__(self) -> None:
        super().__init__()
        self.words = torch.nn.Embedding(96, 16, padding_idx=0)
        self.lstm = torch.nn.LSTM(16, 16, batch_first=True, bidirectional=True)
        self.head = torch.nn.Linear(32, 5)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(self.words(words))[0]).flatten(0, 1)


def image_module(name: str) -> tuple[torch.nn.Module, Any, Any]:
    keys: dict[str, Any] = {"num_classes": CLASSES}
    pixels = {"inception_v3": 96, "maxvit_t": 224, "vit_b_16": 32}.get(name, PIXELS)
    if name in ("googlenet", "inception_v3"):
        keys |= {"aux_logits": False, "init_weights": False}
    if name == "vit_b_16":
        keys |= {"image_size": 32}
    module = getattr(torchvision.models, name)(**keys)
    size = 2 if name == "maxvit_t" else BATCH
    return module, (torch.randn(size, 3, pixels, pixels),), torch.randint(0, CLASSES, (size,))


def hub_module(name: str) -> tuple[torch.nn.Module, Any, Any]:
    base = name.split("For")[0].removesuffix("Model").removesuffix("LMHead")
    config = getattr(transformers, f"{base}Config")(**SIZES | OWN.get(base, {}))
    configs = [config, *(getattr(config, part) for part in ("text_config", "vision_config") if hasattr(config, part))]
    for own in configs:
        for key, value in list(vars(own).items()):
            if ("drop" in key or key.endswith("pdrop")) and isinstance(value, float):
                setattr(own, key, 0.0)
    module = getattr(transformers, name)(config)
    ids, mask = torch.randint(3, 96, (BATCH, LENGTH)), torch.ones(BATCH, LENGTH, dtype=torch.long)
    pixels = torch.randn(BATCH, 3, 32, 32)
    if name == "CLIPModel":
        ids[:, -1] = 95
        return module, dict(input_ids=ids, attention_mask=mask, pixel_values=pixels, return_loss=True), None
    if "Image" in name:
        return module, dict(pixel_values=pixels, labels=torch.randint(0, 2, (BATCH,))), None
    if base == "Whisper":
        return module, dict(input_features=torch.randn(BATCH, 8, 32), labels=ids[:, :8]), None
    if "Sequence" in name:
        ids[0, 12:], mask[0, 12:] = 0, 0
        return module, dict(input_ids=ids, attention_mask=mask, labels=torch.randint(0, 2, (BATCH,))), None
    return module, dict(input_ids=ids, labels=ids.clone()), None


def made(name: str, seed: int = 1) -> tuple[torch.nn.Module, Any, Any]:
    """A module without dropout, its inputs, and the target of a cross entropy unless it returns its loss."""
    torch.manual_seed(seed)
    kind, own = name.split(":")
    if kind == "own":
        return Tagger(), (torch.randint(1, 96, (BATCH, LENGTH)),), torch.randint(0, 5, (BATCH * LENGTH,))
    module, inputs, target = image_module(own) if kind == "tv" else hub_module(own)
    for part in module.modules():
        if isinstance(part, (torch.nn.Dropout, torchvision.ops.StochasticDepth)):
            part.p = 0.0
    return module, inputs, target


def converted(inputs: Any, dtype: torch.dtype) -> Any:
    def change(own: Any) -> Any:
        return own.to(dtype) if isinstance(own, torch.Tensor) and own.is_floating_point() else own

    if isinstance(inputs, dict):
        return {name: change(own) for name, own in inputs.items()}
    return tuple(change(own) for own in inputs)


def optimizer_of(module: torch.nn.Module) -> torch.optim.Optimizer:
    is_of_images = type(module).__module__.startswith("torchvision")
    return torch.optim.SGD(module.parameters(), lr=1e-4 if is_of_images else 0.01, momentum=0.9)


def eager(module: torch.nn.Module, inputs: Any, target: Any, dtype: torch.dtype) -> tuple[list[float], Any, float]:
    module = copy.deepcopy(module).to(dtype).train()
    optimizer, inputs, losses, begun = optimizer_of(module), converted(inputs, dtype), [], 0.0
    for step in range(STEPS):
        begun = time.perf_counter() if step == 1 else begun
        output = module(**inputs) if isinstance(inputs, dict) else module(*inputs)
        loss = output.loss if target is None else torch.nn.functional.cross_entropy(output, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    seconds = (time.perf_counter() - begun) / (STEPS - 1)
    return losses, module.state_dict(), seconds


def errors(losses: list[float], state: Any, wanted: list[float], known: Any) -> tuple[float, float]:
    """The greatest errors of losses and of parameters."""
    if not all(map(math.isfinite, losses)) or not all(own.isfinite().all() for own in state.values()):
        return math.inf, math.inf
    of_losses = max(abs(own - want) / max(abs(want), 1e-6) for own, want in zip(losses, wanted, strict=True))
    of_parameters = 0.0
    for name, want in known.items():
        if want.is_floating_point() and want.numel():
            difference = (state[name].double() - want.double()).abs().max().item()
            of_parameters = max(of_parameters, difference / max(want.abs().max().item(), 0.01))
    return of_losses, of_parameters


def run(name: str, seed: int) -> dict[str, Any]:
    module, inputs, target = made(name, seed)
    wanted, known, _ = eager(module, inputs, target, torch.float64)
    single, state, eager_s = eager(module, inputs, target, torch.float32)
    own = errors(single, state, wanted, known)
    row: dict[str, Any] = {
        "seed": seed,
        "eager_loss_error": own[0],
        "eager_parameter_error": own[1],
        "eager_ms": eager_s * 1e3,
    }
    del state
    module.train()
    loss: str | None = None if target is None else "cross_entropy"
    begun = time.perf_counter()
    compiled = lessen.compile(module, inputs, loss=loss, optimizer=optimizer_of(module))
    step: Callable[[], float] = lambda: compiled.step(inputs if target is None else (*inputs, target))  # noqa: E731
    row["notes"] = compiled.plan()["notes"]
    row["compile_s"] = time.perf_counter() - begun
    begun = time.perf_counter()
    losses = [step()]
    row["first_s"] = time.perf_counter() - begun
    begun = time.perf_counter()
    losses += [step() for _ in range(STEPS - 1)]
    row["step_ms"] = (time.perf_counter() - begun) / (STEPS - 1) * 1e3
    row["peak_bytes"] = compiled.plan()["peak_bytes"]
    compiled.sync()
    row["loss_error"], row["parameter_error"] = errors(losses, module.state_dict(), wanted, known)
    passes = row["loss_error"] <= LOSS_BOUND and row["parameter_error"] <= PARAMETER_BOUND
    is_as_eager = row["loss_error"] <= max(LOSS_BOUND, 4 * own[0]) and row["parameter_error"] <= max(
        PARAMETER_BOUND, 4 * own[1]
    )
    return row | {"result": "passes" if passes else "as eager f32" if is_as_eager else "differs"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    every = [*(f"tv:{name}" for name in IMAGES), *(f"hf:{name}" for name in TEXTS), "own:lstm_tagger"]
    chosen = [name for name in every if not arguments.names or any(part in name for part in arguments.names)]
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    rows: dict[str, dict[str, Any]] = {}
    print(
        "| module | result | seed | loss error | parameter error | eager f32: loss | parameter "
        "| compile s | step ms | eager ms |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name in chosen:
        try:
            for seed in SEEDS:
                row = rows[name] = run(name, seed)
                if row["result"] != "differs":
                    break
        except Exception as error:  # each module has its line
            rows[name] = {"result": f"{type(error).__name__}: {error}"}
            print(f"| {name} | {rows[name]['result'].splitlines()[0][:300]} |", flush=True)
            continue
        finally:
            gc.collect()
        print(
            f"| {name} | {row['result']} | {row['seed']} | {row['loss_error']:.1e} | {row['parameter_error']:.1e} "
            f"| {row['eager_loss_error']:.1e} | {row['eager_parameter_error']:.1e} | {row['compile_s']:.1f} "
            f"| {row['step_ms']:.1f} | {row['eager_ms']:.1f} |",
            flush=True,
        )
    passed = [sum(row["result"] == result for row in rows.values()) for result in ("passes", "as eager f32")]
    print(f"\n{passed[0]} of {len(rows)} modules pass, {passed[1]} are as eager f32.")
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
