#!/usr/bin/env python3
"""Trains ResNet-20 on CIFAR-10's binary files with the settings of a recipe, in PyTorch: the other side of bench/images.py.

    python3 bench/torch_images_train.py DIR RECIPE.toml SEED [SETTING…]

Augmentation, schedule, weight decay of matrices alone and initial values are those of the recipe in Lessen. Prints one
JSON object: accuracy on the test file, ms per step, steps.
"""

import glob
import json
import math
import os
import statistics
import sys
import time
import tomllib

import numpy
import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv1, self.bn1 = convolution(inputs, width, stride), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = convolution(width, width, 1), nn.BatchNorm2d(width)
        self.stride, self.missing = stride, width - inputs

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        half = self.missing // 2
        skip = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, half, self.missing - half))
        return F.relu(y + skip)


class ResNet20(nn.Module):
    def __init__(self, classes):
        super().__init__()
        blocks, inputs = [convolution(3, 16, 1), nn.BatchNorm2d(16), nn.ReLU()], 16
        for stage, width in enumerate((16, 32, 64)):
            for number in range(3):
                blocks.append(Block(inputs, width, 2 if stage > 0 and number == 0 else 1))
                inputs = width
        self.body, self.fc = nn.Sequential(*blocks), nn.Linear(64, classes)

    def forward(self, x):
        return self.fc(self.body(x).mean((2, 3)))


def convolution(inputs, outputs, stride):
    made = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
    nn.init.kaiming_normal_(made.weight, mode="fan_out", nonlinearity="relu")
    return made


def read(pattern):
    records = [numpy.fromfile(file, numpy.uint8).reshape(-1, 3073) for file in sorted(glob.glob(pattern))]
    records = numpy.concatenate(records)
    return torch.from_numpy(records[:, 1:].reshape(-1, 3, 32, 32).copy()), torch.from_numpy(records[:, 0].astype(int))


def augmented(images, frame):
    """A random part of the image's size from the image with a black frame, and half of them mirrored."""
    padded = F.pad(images, (frame,) * 4)
    parts = []
    for image in padded:
        top, left = torch.randint(2 * frame + 1, (2,)).tolist()
        part = image[:, top : top + 32, left : left + 32]
        parts.append(part.flip(2) if torch.rand(()) < 0.5 else part)
    return torch.stack(parts)


def main():
    folder, recipe, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with open(recipe, "rb") as file:
        settings = tomllib.load(file)
    for setting in sys.argv[4:]:
        name, value = setting.split("=", 1)
        section, key = name.split(".")
        settings[section][key] = tomllib.loads(f"value = {value}")["value"]
    train, momentum = settings["train"], settings["optimizer"]["momentum"]
    torch.manual_seed(seed)
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    images, labels = read(os.path.join(folder, "train*.bin"))
    mean = images.float().div(255).mean((0, 2, 3)).view(1, 3, 1, 1)
    std = images.float().div(255).std((0, 2, 3), unbiased=False).view(1, 3, 1, 1)

    def seen(bytes_):
        return (bytes_.float().div(255) - mean) / std

    model = ResNet20(10)
    matrices = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    groups = [dict(params=matrices, weight_decay=train["weight_decay"]), dict(params=others, weight_decay=0.0)]
    optimizer = torch.optim.SGD(groups, lr=train["lr"], momentum=momentum)
    batch = train["batch"]
    per_epoch = len(images) // batch
    steps = train["epochs"] * per_epoch
    warmup = round(train["warmup"] * steps)

    def rate(step):
        if step < warmup:
            return (step + 1) / warmup
        return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    times = []
    for _ in range(train["epochs"]):
        order = torch.randperm(len(images))
        for number in range(per_epoch):
            chosen = order[number * batch : (number + 1) * batch]
            x = seen(augmented(images[chosen], 4))
            begin = time.perf_counter()
            optimizer.zero_grad()
            F.cross_entropy(model(x), labels[chosen]).backward()
            optimizer.step()
            schedule.step()
            times.append(1000 * (time.perf_counter() - begin))
    model.eval()
    images, labels = read(os.path.join(folder, "test*.bin"))
    with torch.no_grad():
        right = sum((model(seen(x)).argmax(1) == y).sum().item() for x, y in zip(images.split(500), labels.split(500)))
    print(json.dumps({"accuracy": right / len(images), "step_ms": statistics.median(times), "steps": steps}))


if __name__ == "__main__":
    main()
