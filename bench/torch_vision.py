"""Trains a network of torchvision as its references/classification/train.py does: eager, torch.compile or Lessen.

    python bench/torch_vision.py eager|compile|lessen [--model resnet18] [--images 512] [--epochs 2] [--batch-size 64]

Needs torch and torchvision. Images are 32x32 and made here: a pattern of their class, with noise. Lines that differ
between the three end in the word that chooses them. Prints the losses, the accuracy, the seconds of the training,
evaluation and compilation included, and the peak of the process beyond what it held before the training.
"""

import argparse
import time

import torch
import torchvision
from torch import nn

from torch_memory import peak_since, resident


def images(count: int, classes: int, seed: int) -> torch.utils.data.TensorDataset:
    patterns = torch.randn(classes, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    own = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, classes, (count,), generator=own)
    return torch.utils.data.TensorDataset(patterns[labels] + torch.randn(count, 3, 32, 32, generator=own), labels)


def train_one_epoch(model, criterion, optimizer, loader, losses, step) -> None:
    model.train()
    for image, target in loader:
        if step is not None:
            losses.append(step(image, target))  # lessen
            continue
        loss = criterion(model(image), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())


def evaluate(model, loader) -> float:
    model.eval()
    with torch.inference_mode():
        right = [(model(image).argmax(1) == target).float().mean().item() for image, target in loader]
    return sum(right) / len(right)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", choices=("eager", "compile", "lessen"))
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--lr", type=float, default=0.02)
    for name, default in {"images": 512, "epochs": 2, "batch-size": 64, "threads": 2}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    classes = 10
    loader = torch.utils.data.DataLoader(images(args.images, classes, 1), args.batch_size, shuffle=True, drop_last=True)
    loader_test = torch.utils.data.DataLoader(images(args.batch_size * 2, classes, 2), args.batch_size)
    # Where residual branches do not begin as zeros, first steps magnify rounding by 1e5, whatever runs them.
    keys = {"zero_init_residual": True} if "resn" in args.model else {}
    model = getattr(torchvision.models, args.model)(num_classes=classes, **keys)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=args.epochs)
    held, begun, losses = resident(), time.perf_counter(), []
    step, network = None, model
    if args.engine == "compile":
        network = torch.compile(model)  # compile
    if args.engine == "lessen":
        import lessen  # lessen

        example = loader.dataset[: args.batch_size]  # lessen
        compiled = lessen.compile(model, example, loss=criterion, optimizer=optimizer, threads=args.threads)  # lessen
        step = compiled.step  # lessen
    for _ in range(args.epochs):
        train_one_epoch(network, criterion, optimizer, loader, losses, step)
        scheduler.step()
        if step is not None:
            compiled.sync()  # lessen
        accuracy = evaluate(network, loader_test)
    seconds, peak = time.perf_counter() - begun, peak_since(held)
    print(
        f"{args.engine}: losses {' '.join(f'{loss:.6f}' for loss in losses)}; accuracy {accuracy:.3f}; "
        f"{seconds:.2f} s; peak {peak / 2**20:.0f} MiB"
    )


if __name__ == "__main__":
    main()
