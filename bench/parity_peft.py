"""Checks that adapters go from Lessen to `peft` and back with the same answers; a part of `parity.py`.

Adapters that Lessen trained are loaded by `peft` over the same base model; adapters that `peft` made, of several
kinds, are read by Lessen. Each time three models answer the same texts: `peft`'s, the one that `lessen export` merged,
in transformers, and Lessen itself (`predict` or `eval`). `peft`'s float32 is the reference.
"""

import json
import os
import subprocess
import sys

import torch
import torch.nn.functional as F
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    BertConfig,
    BertForSequenceClassification,
    BertTokenizer,
    GPT2Config,
    GPT2LMHeadModel,
    GPT2Tokenizer,
    GPTJConfig,
    GPTJForCausalLM,
    GPTNeoXConfig,
    GPTNeoXForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
)

LOGITS_TOLERANCE = 1e-4
CLASSES, LENGTH, TEXTS = 10, 32, 16


def is_installed():
    """Whether `peft` is there."""
    try:
        import peft  # noqa: F401
    except ImportError:
        return False
    return True


def run(*command):
    """Runs a command and returns what it prints."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"parity: {' '.join(command)} ended with exit code {done.returncode}; its message stands above")
    return done.stdout


def classifier_logits(model, tokenizer, texts):
    inputs = tokenizer(texts, padding=True, truncation=True, max_length=LENGTH, return_tensors="pt")
    with torch.no_grad():
        return model.eval()(**inputs).logits


def decoder_logits(model, windows):
    with torch.no_grad():
        return model.eval()(input_ids=windows).logits


class Side:
    """A family of models: its base model, and what is compared."""

    def __init__(self, args, folder):
        self.args, self.folder, self.base = args, folder, os.path.join(folder, "base")
        os.makedirs(self.base)

    def path(self, name):
        return os.path.join(self.folder, name)

    def differences(self, adapted, adapters):
        """How far the merged model and Lessen are from the model of `peft`, whose adapters are in a folder."""
        merged = self.path("merged-" + os.path.basename(adapters.rstrip("/")))
        run(self.args.lessen, "export", adapters, merged, "--base", self.base)
        theirs, ours = self.logits(adapted), self.logits(self.auto.from_pretrained(merged))
        return (ours - theirs).abs().max().item(), self.own_difference(theirs, adapters)


class Classifier(Side):
    """BERT with a head for classes."""

    auto = AutoModelForSequenceClassification
    recipe, task = "bert-classifier", "SEQ_CLS"
    targets, regex = "query,value", r".*attention\.self\.(query|key)"

    def __init__(self, args, folder):
        super().__init__(args, folder)
        with open(os.path.join(args.data, "train.txt"), encoding="utf-8") as file:
            lines = [line for _, line in zip(range(80), file)]
        data = self.path("data")
        os.makedirs(data)
        for split in ("train.txt", "dev.txt"):
            with open(os.path.join(data, split), "w", encoding="utf-8") as file:
                file.writelines(lines)
        with open(os.path.join(data, "class.txt"), "w", encoding="utf-8") as file:
            file.writelines(f"class {number}\n" for number in range(CLASSES))
        self.data = data
        self.texts = [line.rsplit("\t", 1)[0] for line in lines[:TEXTS]]
        self.input = self.path("texts.txt")
        with open(self.input, "w", encoding="utf-8") as file:
            file.writelines(text + "\n" for text in self.texts)
        vocab = os.path.join(args.tokenizers, "bert-base-chinese", "vocab.txt")
        self.tokenizer = BertTokenizer(vocab)
        self.tokenizer.save_pretrained(self.base)
        config = BertConfig(
            vocab_size=len(self.tokenizer),
            hidden_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=128,
            initializer_range=0.1,
            num_labels=CLASSES,
        )
        BertForSequenceClassification(config).save_pretrained(self.base)

    def logits(self, model):
        return classifier_logits(model, self.tokenizer, self.texts)

    def own_difference(self, logits, adapters):
        lines = run(
            self.args.lessen, "predict", adapters, "--base", self.base, "--input", self.input,
            "--format", "jsonl", "--probabilities", "--set", f"data.max_length={LENGTH}",
        )  # fmt: skip
        ours = [list(json.loads(line)["probabilities"].values()) for line in lines.splitlines()]
        return (torch.tensor(ours) - F.softmax(logits, -1)).abs().max().item()


class Decoder(Side):
    """A language model."""

    auto = AutoModelForCausalLM
    task = "CAUSAL_LM"

    def __init__(self, args, folder):
        super().__init__(args, folder)
        self.tokenizer = GPT2Tokenizer(
            *(os.path.join(args.tokenizers, "gpt2", name) for name in ("vocab.json", "merges.txt"))
        )
        self.tokenizer.save_pretrained(self.base)
        self.make(len(self.tokenizer)).save_pretrained(self.base)
        self.data = self.path("text.txt")
        with open(args.text, encoding="utf-8") as whole, open(self.data, "w", encoding="utf-8") as part:
            part.writelines(line for _, line in zip(range(400), whole))
        with open(self.data, encoding="utf-8") as file:
            tokens = self.tokenizer(file.read(), return_tensors="pt").input_ids[0]
        # The last window is padded at its end, which no token before it sees.
        inputs, labels = tokens[:-1], tokens[1:]
        room = -len(inputs) % LENGTH
        self.windows = F.pad(inputs, (0, room)).reshape(-1, LENGTH)
        self.labels = F.pad(labels, (0, room), value=-100).reshape(-1, LENGTH)

    def logits(self, model):
        return decoder_logits(model, self.windows)

    def own_difference(self, logits, adapters):
        out = run(
            self.args.lessen, "eval", adapters, "--base", self.base, "--json", "--set", f"data.max_length={LENGTH}",
            "--set", f"data.path={self.data}", "--set", f"data.dev={self.data}",
        )  # fmt: skip
        loss = F.cross_entropy(logits.flatten(0, 1).double(), self.labels.flatten()).item()
        return abs(json.loads(out)["dev_loss"] - loss) / loss


class Gpt2(Decoder):
    recipe, targets, regex = "gpt2-lm", "c_attn", r".*\.attn\.c_proj"

    def make(self, vocab):
        config = GPT2Config(vocab_size=vocab, n_embd=64, n_layer=2, n_head=4, n_positions=64, initializer_range=0.1)
        return GPT2LMHeadModel(config)


class Llama(Decoder):
    recipe, targets, regex = "llama-lm", "q_proj,v_proj", r".*mlp\.(up|down)_proj"

    def make(self, vocab):
        sizes = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)
        config = LlamaConfig(vocab_size=vocab, intermediate_size=96, initializer_range=0.1, **sizes)
        return LlamaForCausalLM(config)


class GptNeox(Decoder):
    recipe, targets, regex = "llama-lm", "query_key_value", r".*mlp\.dense_(h_to_4h|4h_to_h)"

    def make(self, vocab):
        sizes = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96)
        return GPTNeoXForCausalLM(GPTNeoXConfig(vocab_size=vocab, initializer_range=0.1, **sizes))


class Gptj(Decoder):
    recipe, targets, regex = "llama-lm", "q_proj,v_proj", r".*mlp\.fc_(in|out)"

    def make(self, vocab):
        sizes = dict(n_embd=64, n_layer=2, n_head=4, n_positions=64, rotary_dim=8)
        return GPTJForCausalLM(GPTJConfig(vocab_size=vocab, initializer_range=0.1, **sizes))


def trained_here(side):
    """Adapters that Lessen trained: `peft`'s model with them, and their folder."""
    from peft import PeftModel

    out = side.path("run")
    settings = [
        "lora.rank=4", "lora.alpha=16", f"lora.targets={side.targets}", "train.lr=0.01", "train.batch=8",
        f"data.max_length={LENGTH}", "model.dropout=0", "train.warmup=0",
    ]  # fmt: skip
    command = [side.args.lessen, "train", side.recipe, "--init", side.base, "--data", side.data, "--out", out]
    run(*command, "--steps", "5", *(part for setting in settings for part in ("--set", setting)))
    folder = os.path.join(out, "model")
    return PeftModel.from_pretrained(side.auto.from_pretrained(side.base), folder), folder


def made_by_peft(side, name, **settings):
    """Adapters with random elements that `peft` made: its model with them, and their folder."""
    from peft import LoraConfig, PeftModel, get_peft_model

    model = side.auto.from_pretrained(side.base)
    model = get_peft_model(model, LoraConfig(task_type=side.task, r=4, lora_alpha=6, **settings))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.copy_(0.1 * torch.randn(parameter.shape, generator=generator))
    folder = side.path(name)
    model.save_pretrained(folder)
    return PeftModel.from_pretrained(side.auto.from_pretrained(side.base), folder), folder


def cases(side):
    """What is compared: a title, and the function that makes it."""
    pattern = side.targets.split(",")[0]
    several = dict(rank_pattern={pattern: 2}, alpha_pattern={pattern: 9})
    names = side.targets.split(",")
    return [
        ("trained by Lessen", lambda: trained_here(side)),
        ("by peft, some layers", lambda: made_by_peft(side, "some", target_modules=names, **several)),
        ("by peft, all-linear, rsLoRA", lambda: made_by_peft(side, "all", target_modules="all-linear", use_rslora=True)),
        ("by peft, a regular expression, biases", lambda: made_by_peft(side, "bias", target_modules=side.regex, bias="all")),
    ]  # fmt: skip


def compare(args, folder, say, check):
    """All cases; true where everything is met."""
    met = True
    for kind in (Classifier, Gpt2, Llama, GptNeox, Gptj):
        torch.manual_seed(1)
        side = kind(args, os.path.join(folder, kind.__name__.lower()))
        say(f"adapters of {kind.__name__}, with peft")
        for title, make in cases(side):
            adapted, adapters = make()
            plain = side.logits(side.auto.from_pretrained(side.base))
            moved = (side.logits(adapted) - plain).abs().max().item()
            merged, own = side.differences(adapted, adapters)
            met &= check(f"{title}: merged, logits", merged, LOGITS_TOLERANCE, f"(adapters move them by {moved:.2f})")
            met &= check(f"{title}: {'probabilities' if kind is Classifier else 'loss'}", own, LOGITS_TOLERANCE)
            met &= moved > 0.01
    return met
