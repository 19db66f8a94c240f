#!/usr/bin/env python3
"""Writes ONNX files of Transformers with random weights, as PyTorch's exporters write them.

    python3 bench/onnx_models.py FOLDER [--models gpt2,vit,bert,deit,clip,neox,encoder] [--exporters script,dynamo]
                                 [--opsets 12,17,18,23] [--size test|tiny|small] [--batch 2] [--external]

Weights are random, and shifted so that the means that LayerNorm subtracts are far from zero. A file is called
MODEL-EXPORTER-OPSET.onnx; one that the exporter does not write for an opset is left out, with a line that says why. `test`
is what the tests read; `small` is of usual widths. Needs torch, transformers, onnx and onnxscript.
"""

import argparse
import os
import sys
import warnings

warnings.filterwarnings("ignore")

# Layers, width, heads; the feed-forward layers are four times as wide.
SIZES = {"test": (2, 8, 2), "tiny": (2, 16, 2), "small": (4, 192, 3)}
IMAGE, PATCH, WORDS, LENGTH = 16, 8, 40, 12


def gpt2(layers, width, heads):
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        n_layer=layers, n_embd=width, n_head=heads, vocab_size=WORDS, n_positions=4 * LENGTH, use_cache=False
    )
    return GPT2LMHeadModel(config), "ids"


def vit(layers, width, heads):
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        image_size=IMAGE,
        patch_size=PATCH,
        num_labels=5,
    )
    return ViTForImageClassification(config), "image"


def deit(layers, width, heads):
    from transformers import DeiTConfig, DeiTForImageClassificationWithTeacher

    config = DeiTConfig(
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        image_size=IMAGE,
        patch_size=PATCH,
        num_labels=5,
    )
    return DeiTForImageClassificationWithTeacher(config), "image"


def clip(layers, width, heads):
    from transformers import CLIPVisionConfig, CLIPVisionModelWithProjection

    config = CLIPVisionConfig(
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        image_size=IMAGE,
        patch_size=PATCH,
    )
    return CLIPVisionModelWithProjection(config), "image"


def bert(layers, width, heads):
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        vocab_size=WORDS,
        max_position_embeddings=4 * LENGTH,
    )
    return BertForMaskedLM(config), "ids"


def neox(layers, width, heads):
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

    config = GPTNeoXConfig(
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        vocab_size=WORDS,
        max_position_embeddings=4 * LENGTH,
        use_cache=False,
    )
    return GPTNeoXForCausalLM(config), "ids"


def encoder(layers, width, heads):
    import torch

    layer = torch.nn.TransformerEncoderLayer(width, heads, 4 * width, batch_first=True, norm_first=True, dropout=0.0)
    norm = torch.nn.LayerNorm(width)
    return torch.nn.TransformerEncoder(layer, layers, norm=norm, enable_nested_tensor=False), width


MODELS = {"gpt2": gpt2, "vit": vit, "bert": bert, "deit": deit, "clip": clip, "neox": neox, "encoder": encoder}


def randomized(model, seed):
    """Weights of usual deviations, but whose means are not zero."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        with torch.no_grad():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.dim() < 2:
                is_scale = name.endswith("weight") and parameter.dim() == 1
                parameter.copy_((1.0 if is_scale else 0.3) + 0.2 * noise)
            else:
                parameter.copy_(noise * 0.5 / parameter.shape[-1] ** 0.5 + 0.05)
    return model.eval()


class First:
    """A model whose result is the first tensor of what it returns."""

    @staticmethod
    def of(model, takes):
        import torch

        class Plain(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.model, self.is_masked = model, False

            def forward(self, x):
                if takes == "ids":
                    mask = torch.ones_like(x) if self.is_masked else None
                    got = self.model(input_ids=x, attention_mask=mask)
                elif takes == "image":
                    got = self.model(pixel_values=x)
                else:
                    return self.model(x)
                return got[0]

        return Plain().eval()


def inputs(takes, batch):
    import torch

    generator = torch.Generator().manual_seed(5)
    if takes == "ids":
        return torch.randint(0, WORDS, (batch, LENGTH), generator=generator), {0: "batch", 1: "length"}
    if takes == "image":
        return torch.randn((batch, 3, IMAGE, IMAGE), generator=generator), {0: "batch"}
    return torch.randn((batch, LENGTH, takes), generator=generator), {0: "batch", 1: "length"}


def simpler(model):
    """Lets attention be products and a softmax, and gives decoders a mask: what every exporter and opset can write."""
    import transformers

    for part in model.modules():
        if isinstance(part, transformers.PreTrainedModel):
            part.set_attn_implementation("eager")
    model.is_masked = True


def export(model, x, dynamic, exporter, opset, path, external):
    import torch

    common = {"input_names": ["x"], "output_names": ["y"], "opset_version": opset}
    if exporter == "script":
        torch.onnx.export(model, (x,), path, dynamo=False, dynamic_axes={"x": dynamic, "y": {0: "batch"}}, **common)
    else:
        shapes = {axis: torch.export.Dim(name, min=1, max=64) for axis, name in dynamic.items()}
        torch.onnx.export(
            model, (x,), path, dynamo=True, dynamic_shapes=(shapes,), external_data=external, verbose=False, **common
        )


def stripped(path):
    """Leaves out what tells where a model came from: texts, stack traces, types of values that follow from others."""
    import onnx

    model = onnx.load(path)
    parts = [model, model.graph, *model.graph.node, *model.graph.input, *model.graph.output, *model.graph.initializer]
    for part in parts:
        for field in ("doc_string", "metadata_props"):
            if field in part.DESCRIPTOR.fields_by_name:
                part.ClearField(field)
    model.graph.ClearField("value_info")
    onnx.save(model, path)


def check(path):
    """Whether a file is what its version allows; exporters write some that are not."""
    import onnx

    onnx.checker.check_model(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--exporters", default="script,dynamo")
    parser.add_argument("--opsets", default="12,17,18,23")
    parser.add_argument("--size", default="tiny", choices=SIZES)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--external", action="store_true")
    args = parser.parse_args()
    os.makedirs(args.folder, exist_ok=True)
    for name in args.models.split(","):
        model, takes = MODELS[name](*SIZES[args.size])
        model = First.of(randomized(model, 3), takes)
        x, dynamic = inputs(takes, args.batch)
        for exporter in args.exporters.split(","):
            for opset in map(int, args.opsets.split(",")):
                path = os.path.join(args.folder, f"{name}-{exporter}-{opset}.onnx")
                for is_last in (False, True):
                    try:
                        export(model, x, dynamic, exporter, opset, path, args.external)
                        if args.size == "test":
                            stripped(path)
                        check(path)
                        print(f"{path}: {os.path.getsize(path):,} bytes")
                        break
                    except Exception as error:  # An exporter fails in ways of its own.
                        if is_last:
                            print(f"{path}: not written: {str(error).splitlines()[0][:150]}", file=sys.stderr)
                        else:
                            model = First.of(randomized(MODELS[name](*SIZES[args.size])[0], 3), takes)
                            simpler(model)
                        if os.path.exists(path):
                            os.remove(path)
            model = First.of(randomized(MODELS[name](*SIZES[args.size])[0], 3), takes)


if __name__ == "__main__":
    main()
