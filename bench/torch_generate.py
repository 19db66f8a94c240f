#!/usr/bin/env python3
"""Continues a text with transformers: one side of bench/generate.py.

    python3 bench/torch_generate.py --model DIR --mode make --tokenizer DIR
    python3 bench/torch_generate.py --model DIR --mode float32|bfloat16 --prompt TEXT --tokens N --threads N
    python3 bench/torch_generate.py --mode bandwidth --threads N

`make` writes a GPT-2 small with random weights of a fixed seed. `float32` and `bfloat16` continue the prompt by
`generate` with its key/value cache, greedily, and print one JSON object: tokens, text, and the seconds from the first
token that is added to the last one. `bandwidth` prints how many bytes the threads read in a second.
"""

import argparse
import json
import os
import shutil
import time


def make(folder, tokenizer):
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(1)
    aside, model = folder + ".part", GPT2LMHeadModel(GPT2Config())
    for name, parameter in model.named_parameters():
        # With a head tied to the embeddings, a new model repeats its last token unless its blocks do more.
        if name.endswith("c_proj.weight"):
            parameter.data *= 8
    model.save_pretrained(aside)
    for name in ("vocab.json", "merges.txt"):
        shutil.copy(os.path.join(tokenizer, name), aside)
    os.replace(aside, folder)


class Times:
    """A streamer that takes the time of every call: one for the prompt, and one for each token."""

    def __init__(self):
        self.times = []

    def put(self, _):
        self.times.append(time.perf_counter())

    def end(self):
        pass


def generate(args):
    import torch
    from transformers import GPT2LMHeadModel, GPT2Tokenizer

    torch.set_num_threads(args.threads)
    model = GPT2LMHeadModel.from_pretrained(args.model, dtype=getattr(torch, args.mode)).eval()
    tokenizer = GPT2Tokenizer.from_pretrained(args.model)
    prompt, times = tokenizer(args.prompt, return_tensors="pt"), Times()
    with torch.inference_mode():
        found = model.generate(
            **prompt,
            max_new_tokens=args.tokens,
            min_new_tokens=args.tokens,
            do_sample=False,
            pad_token_id=tokenizer.eos_token_id,
            streamer=times,
        )
    added = found[0, prompt["input_ids"].shape[1] :].tolist()
    return {
        "prompt": prompt["input_ids"][0].tolist(),
        "tokens": added,
        "text": tokenizer.decode(added),
        "seconds": times.times[-1] - times.times[1],
    }


def bandwidth(threads):
    """Bytes a second of the fastest of some sums over 512 MiB."""
    import torch

    torch.set_num_threads(threads)
    x, seconds = torch.ones(2**27), []
    for _ in range(10):
        begin = time.perf_counter()
        x.sum()
        seconds.append(time.perf_counter() - begin)
    return {"bytes_per_second": 4 * x.numel() / min(seconds)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model")
    parser.add_argument("--mode", required=True, choices=["make", "float32", "bfloat16", "bandwidth"])
    parser.add_argument("--tokenizer")
    parser.add_argument("--prompt")
    parser.add_argument("--tokens", type=int)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    if args.mode == "make":
        make(args.model, args.tokenizer)
    elif args.mode == "bandwidth":
        print(json.dumps(bandwidth(args.threads)))
    else:
        print(json.dumps(generate(args)))


if __name__ == "__main__":
    main()
