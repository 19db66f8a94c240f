"""The networks on images of `lessen bench step`, in PyTorch.

d  ResNet-18 with CIFAR's stem (3 x 3, no pooling), batch 128 of 32 x 32, 10 classes
e  torchvision's ResNet-50, batch 8 of 224 x 224
f  torchvision's MobileNetV2, batch 16 of 224 x 224
g  RevNet-38, batch 128 of 32 x 32, 10 classes: two halves of the channels, plain autograd
h  transformers' ViT-S/16, batch 8 of 224 x 224
i  gradient matching of one class with ConvNet-3: 256 real images, 10 that are learned, of 32 x 32
"""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Classifier(nn.Module):
    """A network that returns its loss."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, images, labels):
        logits = self.network(images)
        return F.cross_entropy(getattr(logits, "logits", logits), labels)


def resnet18_cifar():
    from torchvision.models import resnet18

    model = resnet18(num_classes=10)
    model.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
    model.maxpool = nn.Identity()
    return model


def small_vit():
    from transformers import ViTConfig, ViTForImageClassification

    sizes = {"hidden_size": 384, "num_hidden_layers": 12, "num_attention_heads": 6, "intermediate_size": 1536}
    return ViTForImageClassification(ViTConfig(num_labels=1000, **sizes))


class Branch(nn.Module):
    """Norm, ReLU and a 3 x 3 convolution, twice; the first unit of all has an activated input."""

    def __init__(self, inputs, width, stride, first):
        super().__init__()
        self.bn1 = nn.Identity() if first else nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU())
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)

    def forward(self, x):
        return self.conv2(F.relu(self.bn2(self.conv1(self.bn1(x)))))


class Unit(nn.Module):
    def __init__(self, inputs, width, stride, first):
        super().__init__()
        self.f = Branch(inputs, width, stride, first)
        self.g = Branch(width, width, 1, False)
        self.width, self.stride = width, stride

    def skip(self, x):
        if self.stride > 1:
            x = F.avg_pool2d(x, self.stride)
        missing = self.width - x.shape[1]
        return F.pad(x, (0, 0, 0, 0, missing // 2, missing - missing // 2)) if missing else x

    def forward(self, x1, x2):
        y1 = self.skip(x1) + self.f(x2)
        return y1, self.skip(x2) + self.g(y1)


class RevNet38(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 32, 3, 1, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU())
        units, inputs = [], 16
        for stage, width in enumerate((16, 32, 56)):
            for number in range(3):
                stride = 2 if stage > 0 and number == 0 else 1
                units.append(Unit(inputs, width, stride, stage == 0 and number == 0))
                inputs = width
        self.units = nn.ModuleList(units)
        self.bn, self.fc = nn.BatchNorm2d(112), nn.Linear(112, classes)

    def forward(self, x):
        x1, x2 = self.stem(x).chunk(2, 1)
        for unit in self.units:
            x1, x2 = unit(x1, x2)
        return self.fc(F.relu(self.bn(torch.cat((x1, x2), 1))).mean((2, 3)))


class ConvNet3(nn.Module):
    def __init__(self, width=128, classes=10, side=32):
        super().__init__()
        layers, inputs = [], 3
        for _ in range(3):
            layers += [nn.Conv2d(inputs, width, 3, padding=1), nn.GroupNorm(width, width), nn.ReLU(), nn.AvgPool2d(2)]
            inputs = width
        self.features, self.classifier = nn.Sequential(*layers), nn.Linear((side // 8) ** 2 * width, classes)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


class Matching(nn.Module):
    """The distance of the gradients that real and learned images give a network; the images alone are learned."""

    def __init__(self):
        super().__init__()
        self.network = [ConvNet3()]
        self.weights = [p for p in self.network[0].parameters() if p.dim() > 1]
        self.synthetic = nn.Parameter(torch.randn(10, 3, 32, 32))

    def gradients(self, images, create_graph):
        labels = torch.zeros(len(images), dtype=torch.long)
        loss = F.cross_entropy(self.network[0](images), labels)
        return torch.autograd.grad(loss, self.weights, create_graph=create_graph)

    def forward(self, images):
        real, learned = self.gradients(images, False), self.gradients(self.synthetic, True)
        distance = 0.0
        for a, b in zip(real, learned):
            distance += (1 - F.cosine_similarity(a.detach().flatten(1), b.flatten(1), dim=1)).sum()
        return distance


def torchvision_model(name):
    import torchvision.models

    return getattr(torchvision.models, name)(num_classes=1000)


# How a network is made, its batch, the side of its images, its classes, and whose it is.
CASES = {
    "d": (resnet18_cifar, 128, 32, 10, "torchvision"),
    "e": (lambda: torchvision_model("resnet50"), 8, 224, 1000, "torchvision"),
    "f": (lambda: torchvision_model("mobilenet_v2"), 16, 224, 1000, "torchvision"),
    "g": (RevNet38, 128, 32, 10, "plain nn.Module"),
    "h": (small_vit, 8, 224, 1000, "transformers"),
}
LEARNING_RATE = dict.fromkeys([*CASES, "i"], 1e-4)


def build(case):
    """The module of a case, its inputs, and what it is called in the report."""
    if case == "i":
        return Matching(), dict(images=torch.randn(256, 3, 32, 32)), "plain nn.Module"
    make, size, side, classes, name = CASES[case]
    images = torch.randn(size, 3, side, side)
    return Classifier(make()), dict(images=images, labels=torch.randint(classes, (size,))), name
