#!/usr/bin/env python3
"""Times one attention layer in PyTorch: the other side of `lessen bench attention`.

    python3 bench/torch_attention.py --tokens 512 --heads 12 [--full] [--mask] [--backward] [--runs N] [--threads N]

`torch.nn.functional.scaled_dot_product_attention` on standard normal q, k and v of shape [1, H, T, 64] in float32.
With --mask it adds a float mask [1, H, T, T] (the position bias, -inf above the diagonal) instead of `is_causal`; the
mask needs no gradient. Peak growth is the process's highest resident size (VmHWM) over its resident size when the
operands exist (VmRSS). One JSON object goes to stdout.
"""

import argparse
import json
import statistics
import time

from torch_step import status_bytes


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokens", type=int, required=True)
    parser.add_argument("--heads", type=int, required=True)
    parser.add_argument("--head", type=int, default=64)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--mask", action="store_true")
    parser.add_argument("--backward", action="store_true")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()

    import torch
    from torch.nn.functional import scaled_dot_product_attention as attention

    torch.set_num_threads(args.threads)
    torch.manual_seed(42)
    shape = (1, args.heads, args.tokens, args.head)
    q, k, v, cotangent = (torch.randn(shape) for _ in range(4))
    mask = None
    if args.mask:
        mask = torch.randn(1, args.heads, args.tokens, args.tokens)
        if not args.full:
            future = torch.ones(args.tokens, args.tokens, dtype=torch.bool).triu(1)
            mask.masked_fill_(future, float("-inf"))
    operands = [x.requires_grad_(args.backward) for x in (q, k, v)]
    try:
        with open("/proc/self/clear_refs", "w") as refs:
            refs.write("5")
    except OSError:
        pass
    before = status_bytes("VmRSS")

    def run():
        causal = not args.full and mask is None
        o = attention(*operands, attn_mask=mask, is_causal=causal)
        if args.backward:
            o.backward(cotangent)
            for x in operands:
                x.grad = None

    times = []
    for i in range(args.runs + 2):
        begin = time.perf_counter()
        run()
        if i >= 2:
            times.append(1000 * (time.perf_counter() - begin))
    print(
        json.dumps(
            {
                "ms": statistics.median(times),
                "ms_min": min(times),
                "ms_max": max(times),
                "growth_bytes": status_bytes("VmHWM") - before,
                "torch": torch.__version__,
            }
        )
    )


if __name__ == "__main__":
    main()
