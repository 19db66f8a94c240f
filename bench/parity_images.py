#!/usr/bin/env python3
"""Checks that `lessen train` does what PyTorch does with networks on images, from the same weights and batches.

    python3 bench/parity_images.py --lessen PATH [--only resnet18,mobilenet-v2,revnet-38,vit,convnet-3] [--write FILE]

For torchvision's ResNet-18 and MobileNetV2, a plain RevNet-38 and transformers' ViT-Tiny with random weights (seed 1) it
runs 5 steps of batches of random images on both sides, in training mode, so that batch normalization has the statistics
of the batch and moves its running ones; dropout is 0. The RevNet is trained by SGD with momentum, the others by AdamW.
Batch normalization of deep networks with random weights multiplies rounding from step to step: at usual rates five steps
of PyTorch in float32 and in float64 differ by more than the bounds, so the rates of ResNet-18 and MobileNetV2 are small,
1e-5 and 1e-6. It then asks for

    every loss                                within 1e-5 of PyTorch's, relative
    every parameter and running statistic     within 1e-4 of PyTorch's, absolute

and, of the gradient of a distance of gradients of ConvNet-3 (the example gradient_matching), for

    every number                              within 1e-4 of the largest of PyTorch's

and prints, to judge them by, PyTorch's own difference between float32 and float64. Exit code 1 where something is not
met. Needs torch, torchvision, transformers and safetensors.
"""

import argparse
import copy
import json
import os
import subprocess
import sys
import tempfile

import numpy
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

import parity
import torch_images
from step import machine, versions, write_aside

STEPS, CLASSES, SEED = 5, 10, 1
# Learning rate, weight decay and momentum; none is AdamW.
SGD, ADAMW = (1e-2, 5e-4, 0.9), (1e-4, 0.01, None)
SLOW_ADAMW, SLOWEST_ADAMW = (1e-5, 0.01, None), (1e-6, 0.01, None)
SETTINGS = [
    "data.shuffle=false",
    "data.held_out=0",
    "model.dropout=0",
    "image.augment=",
    "image.mean=0.5,0.5,0.5",
    "image.std=0.25,0.25,0.25",
    "image.mixup=0",
    "image.cutmix=0",
    "train.warmup=0",
    "train.schedule=constant",
    "train.clip_norm=0",
    "train.label_smoothing=0",
    "train.checkpoint_every=0",
]


def settings(batch, optimizer):
    """What `--set` is given."""
    rate, decay, momentum = optimizer
    kind = ["optimizer.kind=adamw"] if momentum is None else ["optimizer.kind=sgd", f"optimizer.momentum={momentum}"]
    return [*SETTINGS, f"train.batch={batch}", f"train.lr={rate}", f"train.weight_decay={decay}", *kind]


def torchvision_model(name):
    import torchvision.models

    model = getattr(torchvision.models, name)(num_classes=CLASSES)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return model


def tiny_vit():
    from transformers import ViTConfig, ViTForImageClassification

    sizes = {"hidden_size": 192, "num_hidden_layers": 12, "num_attention_heads": 3, "intermediate_size": 768}
    return ViTForImageClassification(ViTConfig(num_labels=CLASSES, image_size=64, **sizes))


def revnet_name(name):
    """The name in Lessen of a parameter of the plain RevNet-38."""
    name = name.replace("stem.0.", "conv1.").replace("stem.1.", "bn1.").replace("bn1.0.", "bn1.")
    if name.startswith("units."):
        _, number, rest = name.split(".", 2)
        name = f"layer{int(number) // 3 + 1}.{int(number) % 3}.{rest}"
    return name


# How the model is made, the side of images and their number in a batch, the recipe, the optimizer, and names in Lessen.
MODELS = {
    "resnet18": (lambda: torchvision_model("resnet18"), 64, 8, "image-folder", SLOW_ADAMW, str),
    "mobilenet-v2": (lambda: torchvision_model("mobilenet_v2"), 96, 16, "image-folder", SLOWEST_ADAMW, str),
    "revnet-38": (torch_images.RevNet38, 32, 8, "image-folder", SGD, revnet_name),
    "vit": (tiny_vit, 64, 8, "vit", ADAMW, str),
}

# The network whose gradient of gradients is compared.
SECOND = "convnet-3"


def tensors(model, rename):
    """Parameters and running statistics by their names in Lessen."""
    skipped = "num_batches_tracked"
    return {rename(name): t.detach() for name, t in model.state_dict().items() if not name.endswith(skipped)}


def write_init(name, model, folder, side, rename):
    if name == "vit":
        model.save_pretrained(folder)
        return
    os.makedirs(folder)
    config = {"architectures": ["LessenImageClassifier"], "model_type": "lessen-image-classifier", "network": name}
    config.update(image_size=side, num_channels=3, id2label={str(i): str(i) for i in range(CLASSES)})
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
    weights = {key: value.clone().contiguous() for key, value in tensors(model, rename).items()}
    save_file(weights, os.path.join(folder, "model.safetensors"))


def train_in_torch(model, batches, optimizer):
    """The same steps in PyTorch, in the model's own precision: the losses and the trained model."""
    model.train()
    rate, decay, momentum = optimizer
    groups = [
        dict(params=[p for p in model.parameters() if p.dim() >= 2], weight_decay=decay),
        dict(params=[p for p in model.parameters() if p.dim() < 2], weight_decay=0.0),
    ]
    if momentum is None:
        optimizer = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.999), eps=1e-8)
    else:
        optimizer = torch.optim.SGD(groups, lr=rate, momentum=momentum)
    losses, dtype = [], next(model.parameters()).dtype
    for images, labels in batches:
        optimizer.zero_grad()
        logits = model(((images.to(dtype) / 255) - 0.5) / 0.25)
        loss = F.cross_entropy(getattr(logits, "logits", logits), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, model


def train_in_lessen(lessen, name, folder, data):
    """The same steps in Lessen: the losses and the trained tensors."""
    _, _, batch, recipe, optimizer, _ = MODELS[name]
    out = os.path.join(folder, "run")
    command = [lessen, "train", recipe, "--init", os.path.join(folder, "init"), "--data", data, "--out", out]
    command += ["--steps", str(STEPS), "--json"] + [word for setting in settings(batch, optimizer) for word in ("--set", setting)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"parity: lessen train {recipe} ended with exit code {done.returncode}; its message stands above")
    losses, saved = json.loads(done.stdout)["loss_history"], os.path.join(out, "model")
    if name != "vit":
        return losses, load_file(os.path.join(saved, "model.safetensors"))
    from transformers import ViTForImageClassification

    # In memory, the names of transformers are others than in files.
    return losses, tensors(ViTForImageClassification.from_pretrained(saved), str)


def compare(name, lessen, folder):
    """One network on both sides; true where everything is met."""
    make, side, batch, _, optimizer, rename = MODELS[name]
    os.makedirs(folder)
    torch.manual_seed(SEED)
    model = make()
    write_init(name, model, os.path.join(folder, "init"), side, rename)
    images = torch.randint(256, (STEPS * batch, 3, side, side), dtype=torch.uint8)
    labels = torch.arange(STEPS * batch) * 7 % CLASSES
    data = os.path.join(folder, "data.npz")
    pixels = images.permute(0, 2, 3, 1).contiguous().numpy()
    split = {"x_train": pixels, "y_train": labels.numpy()}
    numpy.savez(data, x_test=pixels[:CLASSES], y_test=labels.numpy()[:CLASSES], **split)
    batches = list(zip(images.split(batch), labels.split(batch)))

    exact_losses, exact = train_in_torch(copy.deepcopy(model).double(), batches, optimizer)
    start = {key: value.clone() for key, value in tensors(model, rename).items()}
    losses, model = train_in_torch(model, batches, optimizer)
    theirs = tensors(model, rename)
    ours_losses, ours = train_in_lessen(lessen, name, folder, data)
    count = sum(p.numel() for p in model.parameters())
    parity.say(f"{name}: {count:,} parameters, {STEPS} steps of {batch} images of {side} x {side}")
    parity.say("  losses, Lessen:  " + "  ".join(f"{loss:.7f}" for loss in ours_losses))
    parity.say("  losses, PyTorch: " + "  ".join(f"{loss:.7f}" for loss in losses))
    noise, where = parity.worst_parameter(theirs, tensors(exact, rename))
    loss_noise = parity.worst_loss(losses, exact_losses)
    moved, _ = parity.worst_parameter(theirs, start)
    parity.say(f"  PyTorch's float32 against its float64: losses {loss_noise:.2e}, parameters {noise:.2e} in {where}")
    parity.say(f"  the steps moved parameters by up to {moved:.2e}")
    met = parity.check("losses, relative", parity.worst_loss(ours_losses, losses), parity.LOSS_TOLERANCE)
    difference, where = parity.worst_parameter(ours, theirs)
    met &= parity.check("parameters, absolute", difference, parity.PARAMETER_TOLERANCE, f"in {where}")
    more = sorted(set(ours) - set(theirs))
    parity.say(f"  {'FAIL' if more else 'ok  '} names that PyTorch lacks: {', '.join(more) or 'none'}")
    return met and not more


class PlainConvNet3(torch_images.ConvNet3):
    """With 4 groups of channels, and images as they lie in Lessen."""

    def __init__(self):
        super().__init__()
        for number, layer in enumerate(self.features):
            if isinstance(layer, torch.nn.GroupNorm):
                self.features[number] = torch.nn.GroupNorm(4, layer.num_channels)

    def gradients(self, images):
        loss = F.cross_entropy(self(images.permute(0, 3, 1, 2)), torch.zeros(len(images), dtype=torch.long))
        return torch.autograd.grad(loss, list(self.parameters()), create_graph=True)


def matched_in_torch(model, images):
    """The squared distance of the gradients of real and learned images, and its gradient."""
    real, learned = (images[name].to(next(model.parameters()).dtype) for name in ("real", "learned"))
    learned = learned.requires_grad_()
    pairs = zip(model.gradients(real), model.gradients(learned))
    distance = sum(((a - b) ** 2).sum() for a, b in pairs)
    return distance.item(), torch.autograd.grad(distance, learned)[0]


def compare_second(example, folder):
    """A gradient of gradients on both sides; true where it is met."""
    os.makedirs(folder)
    torch.manual_seed(SEED)
    model = PlainConvNet3()
    images = {"real": torch.randn(64, 32, 32, 3), "learned": torch.randn(10, 32, 32, 3)}
    save_file({**model.state_dict(), **images}, os.path.join(folder, "model.safetensors"))
    done = subprocess.run([example, folder], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"parity: {example} ended with exit code {done.returncode}; its message stands above")
    ours = torch.from_numpy(numpy.fromfile(os.path.join(folder, "gradient.f32"), dtype="<f4")).double()
    distance, theirs = matched_in_torch(model, images)
    exact_distance, exact = matched_in_torch(copy.deepcopy(model).double(), images)
    scale = theirs.abs().max().item()
    difference = (ours - theirs.flatten().double()).abs().max().item() / scale
    noise = (theirs.double() - exact).abs().max().item() / scale
    parity.say("convnet-3, gradient of a distance of gradients: 64 real images and 10 that are learned, 32 x 32")
    parity.say(f"  distance, Lessen: {done.stdout.split()[1]}  PyTorch: {distance:.9f}")
    parity.say(f"  PyTorch's float32 against its float64: distance {abs(distance / exact_distance - 1):.2e}, gradient {noise:.2e}")
    met = parity.check("distance, relative", abs(float(done.stdout.split()[1]) / distance - 1), 1e-4)
    return parity.check("gradient, relative to its largest", difference, 1e-4) and met


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lessen", required=True, metavar="PATH", help="the built command")
    parser.add_argument("--only", default=",".join([*MODELS, SECOND]))
    parser.add_argument("--example", metavar="PATH", help="the built example gradient_matching (default: that beside lessen)")
    parser.add_argument("--write", metavar="FILE", help="also write the results as Markdown")
    args = parser.parse_args()
    met = True
    with tempfile.TemporaryDirectory() as temporary:
        for name in args.only.split(","):
            folder = os.path.join(temporary, name)
            if name == SECOND:
                beside = os.path.join(os.path.dirname(args.lessen), "examples", "gradient_matching")
                met &= compare_second(os.path.abspath(args.example or beside), folder)
            elif name in MODELS:
                met &= compare(name, os.path.abspath(args.lessen), folder)
            else:
                parser.error(f"there is no network {name!r} here; take from {', '.join([*MODELS, SECOND])}")
    parity.say("parity: met" if met else "parity: NOT met")
    if args.write:
        text = ["# Parity of networks on images", "", "Written by `bench/parity_images.py`, which anyone can run again:"]
        text += ["", "```", "cargo build --release -p lessen --examples"]
        text += ["python3 bench/parity_images.py --lessen target/release/lessen", "```", ""]
        text += [f"- Machine: {machine()}", f"- Versions: {versions(sys.executable)}", "", "```text", *parity.said]
        write_aside(args.write, "\n".join(text) + "\n```\n")
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
