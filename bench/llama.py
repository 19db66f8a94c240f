#!/usr/bin/env python3
"""Generation with a Llama of GPT-2 small's size, one text: Lessen beside llama.cpp in f32, in 8 bits and in 4 bits.

    python3 bench/llama.py FOLDER [--convert convert_hf_to_gguf.py] [--tokenizer DIR] [--rounds 5] [--threads 2]
                           [--lessen PATH] [--write FILE]

FOLDER gets the model with random weights of a fixed seed as transformers writes it, and the same weights as GGUF: in f32
by llama.cpp's own converter, which its sources have, and from that file `Q8_0` and `Q4_0` by its quantizer. Files that are
there are taken. Both sides continue the same prompt greedily with a key/value cache, in turns, each in a process of its
own. Tokens in a second are those after the prompt; the whole command is beside, from its start to its last token. Needs
torch, transformers, sentencepiece, gguf and llama-cpp-python.
"""

import argparse
import datetime
import importlib.metadata
import json
import os
import shutil
import statistics
import subprocess
import sys
import time

import step

PROMPT, TOKENS, FEW = "The history of the city begins with", 256, 16
# What Lessen's precisions stand beside.
PAIRS = (("f32", "F32"), ("int8", "Q8_0"), ("int4", "Q4_0"))


def make(args):
    """The folder of the model in Hugging Face's form."""
    folder = os.path.join(args.folder, "hf")
    if os.path.exists(folder):
        return folder
    import torch
    from transformers import GPT2Tokenizer, LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=50257, hidden_size=768, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=12,
        max_position_embeddings=1024, tie_word_embeddings=True, bos_token_id=50256, eos_token_id=50256,
    )
    model, aside = LlamaForCausalLM(config), folder + ".part"
    for name, parameter in model.named_parameters():
        # With a head tied to the embeddings, a new model repeats its last token unless its blocks do more.
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            parameter.data *= 8
    model.save_pretrained(aside)
    GPT2Tokenizer.from_pretrained(args.tokenizer).save_pretrained(aside)
    for name in ("vocab.json", "merges.txt"):
        shutil.copy(os.path.join(args.tokenizer, name), aside)
    os.replace(aside, folder)
    return folder


def gguf_files(args, model):
    """The model's files for llama.cpp, by the name of their type."""
    import llama_cpp

    files = {kind: os.path.join(args.folder, f"{kind}.gguf") for _, kind in PAIRS}
    if not os.path.exists(files["F32"]):
        if args.convert is None:
            sys.exit("llama: there is no F32.gguf in the folder; name llama.cpp's convert_hf_to_gguf.py with --convert")
        command = [sys.executable, args.convert, model, "--outtype", "f32", "--outfile", files["F32"]]
        step.output_of(command, "the conversion to GGUF")
    types = {"Q8_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q8_0, "Q4_0": llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0}
    for kind, number in types.items():
        if not os.path.exists(files[kind]):
            settings = llama_cpp.llama_model_quantize_default_params()
            settings.ftype = number
            if llama_cpp.llama_model_quantize(files["F32"].encode(), files[kind].encode(), settings) != 0:
                sys.exit(f"llama: llama.cpp did not quantize the model to {kind}")
    return files


def rival(path, threads):
    """One run of llama.cpp: prints its text and tokens in a second."""
    import llama_cpp
    import numpy as np

    model = llama_cpp.Llama(path, n_ctx=512, n_threads=threads, n_threads_batch=threads, verbose=False)
    tokens = model.tokenize(PROMPT.encode(), add_bos=False)
    model.eval(tokens)
    size, found, begun = model.n_vocab(), [], None
    token = (llama_cpp.llama_token * 1)()
    for count in range(FEW + TOKENS):
        # The first tokens warm up.
        if count == FEW:
            begun = time.perf_counter()
        logits = np.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(model.ctx, -1), (size,))
        found.append(int(logits.argmax()))
        token[0] = found[-1]
        if llama_cpp.llama_decode(model.ctx, llama_cpp.llama_batch_get_one(token, 1)) != 0:
            sys.exit("llama: llama.cpp did not decode a token")
    seconds = time.perf_counter() - begun
    print(json.dumps({"text": model.detokenize(found).decode(errors="replace"), "speed": TOKENS / seconds}))


def run_rival(args, path):
    """llama.cpp in a process of its own."""
    command = [sys.executable, os.path.abspath(__file__), args.folder, "--rival", path, "--threads", str(args.threads)]
    begun = time.perf_counter()
    printed = step.output_of(command, "llama.cpp")
    return {**json.loads(printed.strip().splitlines()[-1]), "whole": time.perf_counter() - begun}


def run_lessen(args, model, precision):
    """Lessen's text, and its tokens in a second: what `TOKENS` more take."""
    def run(tokens):
        command = [args.lessen, "generate", model, "--prompt", PROMPT, "--precision", precision, "--temperature", "0"]
        command += ["--tokens", str(tokens), "--min-tokens", str(tokens), "--json"]
        begun = time.perf_counter()
        done = subprocess.run(command, capture_output=True, check=True, env={**os.environ, "LESSEN_THREADS": str(args.threads)})
        return time.perf_counter() - begun, done.stdout.decode()

    short, _ = run(FEW)
    long, printed = run(FEW + TOKENS)
    return {"text": json.loads(printed.splitlines()[-1]).get("text", ""), "speed": TOKENS / (long - short), "whole": long}


def markdown(args, speeds, wholes, agree):
    lines = [
        "# Generation beside llama.cpp",
        "",
        "Written by",
        "",
        "```",
        f"python3 bench/llama.py FOLDER --convert convert_hf_to_gguf.py --rounds {args.rounds} --threads {args.threads}",
        "```",
        "",
        f"- Date: {datetime.date.today().isoformat()}",
        f"- Machine: {step.machine()}",
        f"- Versions: {step.versions(sys.executable)}, llama-cpp-python {importlib.metadata.version('llama-cpp-python')}"
        " built for this processor",
        "- A Llama of GPT-2 small's size (12 layers of width 768, feed-forward layers of 2,048, 50,257 tokens, tied head)"
        f" with random weights, one text, {TOKENS} tokens after {FEW}, greedy, {args.threads} threads",
        "- int8 of Lessen has a scale for each channel and Q8_0 one for 32 weights; int4 has groups of 32 as Q4_0 has. Bytes"
        " of a weight are about 1 and 1.06, 0.63 and 0.56. Q4_0 keeps the tied table of tokens in 6 bits",
        f"- Medians of {args.rounds} runs in turn, with the smallest and largest; a ratio is taken within each round, and at"
        " least 1 is wanted of 8 and 4 bits",
        f"- In f32 both add the same {agree[0]:,} of {agree[1]:,} characters, until two tokens are about as likely",
        f"- The whole command adds {FEW + TOKENS} tokens. Lessen's reads the weights in f32 and quantizes them each time, which"
        " `lessen quantize` spares; llama.cpp's reads the quantized file and has Python's start in it",
        "",
        "| Lessen | llama.cpp | Lessen, tokens in a second | llama.cpp, tokens in a second | Lessen / llama.cpp | Lessen, whole"
        " command, s | llama.cpp, whole command, s |",
        "|---|---|---|---|---|---|---|",
    ]
    for own, other in PAIRS:
        ratios = [first / second for first, second in zip(speeds[own], speeds[other])]
        cells = [spread(values, digits) for values, digits in (
            (speeds[own], 1), (speeds[other], 1), (ratios, 2), (wholes[own], 2), (wholes[other], 2))]
        lines.append(f"| {own} | {other} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def spread(values, digits):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}..{max(values):.{digits}f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--convert")
    parser.add_argument("--tokenizer", default=os.path.join(step.ROOT, "data", "tokenizers", "gpt2"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--lessen")
    parser.add_argument("--rival", help="the side of llama.cpp: a GGUF file")
    parser.add_argument("--write")
    args = parser.parse_args()
    if args.rival:
        return rival(args.rival, args.threads)
    os.makedirs(args.folder, exist_ok=True)
    args.lessen = args.lessen or step.build_lessen()
    model = make(args)
    files = gguf_files(args, model)
    speeds, texts = {name: [] for pair in PAIRS for name in pair}, {}
    wholes = {name: [] for name in speeds}
    for _ in range(args.rounds):
        for own, other in PAIRS:
            for name, found in ((own, run_lessen(args, model, own)), (other, run_rival(args, files[other]))):
                speeds[name].append(found["speed"])
                wholes[name].append(found["whole"])
                texts[name] = found["text"]
        print({name: round(values[-1], 1) for name, values in speeds.items()}, flush=True)
    same = len(os.path.commonprefix([texts["f32"], texts["F32"]]))
    page = markdown(args, speeds, wholes, (same, len(texts["F32"])))
    print(page)
    if args.write:
        step.write_aside(args.write, page)


if __name__ == "__main__":
    main()
