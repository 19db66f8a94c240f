"""Fine-tunes a BERT as transformers' run_glue.py does, with the Trainer of transformers or of Lessen.

    python bench/torch_text.py eager|compile|lessen [--layers 2] [--width 128] [--examples 512] [--epochs 2]

Needs torch, transformers and accelerate. Sentences are made here, and the label says which of two groups of words
occurs more often in one. Lines that differ between the three end in the word that chooses them. Prints the losses, the
accuracy, the seconds of the training, evaluation and compilation included, and the peak of the process beyond what it
held before the training.
"""

import argparse
import random
import tempfile
import time

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast, TrainingArguments

from torch_memory import peak_since, resident

GOOD = "good great fine bright warm happy sweet calm clear kind".split()
BAD = "bad poor grim dark cold sad sour loud dull mean".split()
OTHER = [f"word{number}" for number in range(200)]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]


def tokenizer() -> PreTrainedTokenizerFast:
    words = {word: number for number, word in enumerate([*SPECIAL, *GOOD, *BAD, *OTHER])}
    own = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    own.pre_tokenizer = pre_tokenizers.Whitespace()
    own.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(name, words[name]) for name in ("[CLS]", "[SEP]")]
    )
    return PreTrainedTokenizerFast(tokenizer_object=own, pad_token="[PAD]", unk_token="[UNK]")


def sentences(count: int, seed: int) -> list[tuple[str, int]]:
    own, made = random.Random(seed), []
    for _ in range(count):
        words = own.choices([*GOOD, *BAD], k=2 * own.randrange(1, 4) + 1) + own.choices(OTHER, k=own.randrange(4, 50))
        own.shuffle(words)
        label = sum(word in GOOD for word in words) > sum(word in BAD for word in words)
        made.append((" ".join(words), int(label)))
    return made


def encoded(count: int, length: int, seed: int) -> list[dict[str, object]]:
    texts, encode = sentences(count, seed), tokenizer()
    columns = encode([text for text, _ in texts], padding="max_length", max_length=length, truncation=True)
    names = ("input_ids", "attention_mask")
    return [{name: columns[name][at] for name in names} | {"label": label} for at, (_, label) in enumerate(texts)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", choices=("eager", "compile", "lessen"))
    for name, default in dict(layers=2, width=128, length=64, batch=16, examples=512, epochs=2, threads=2).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    engine, options, Trainer = given.engine, {}, transformers.Trainer
    if engine == "lessen":
        from lessen.integrations.transformers import Trainer  # lessen

        options = {"threads": given.threads}  # lessen
    torch.manual_seed(1)
    heads = max(1, given.width // 64)
    config = BertConfig(
        vocab_size=len(SPECIAL) + len(GOOD) + len(BAD) + len(OTHER),
        hidden_size=given.width,
        num_hidden_layers=given.layers,
        num_attention_heads=heads,
        intermediate_size=4 * given.width,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    args = TrainingArguments(
        output_dir=tempfile.mkdtemp(),
        per_device_train_batch_size=given.batch,
        num_train_epochs=given.epochs,
        learning_rate=1e-3,
        weight_decay=0.01,
        warmup_steps=4,
        logging_steps=8,
        eval_strategy="epoch",
        save_strategy="no",
        seed=1,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        dataloader_drop_last=True,
        torch_compile=engine == "compile",  # compile
    )
    trainer = Trainer(
        BertForSequenceClassification(config),
        args,
        train_dataset=encoded(given.examples, given.length, 1),
        eval_dataset=encoded(given.batch * 8, given.length, 2),
        compute_metrics=lambda own: {"accuracy": float((own.predictions.argmax(-1) == own.label_ids).mean())},
        **options,
    )
    held, begun = resident(), time.perf_counter()
    trainer.train()
    seconds, peak = time.perf_counter() - begun, peak_since(held)
    losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    accuracy = [row["eval_accuracy"] for row in trainer.state.log_history if "eval_accuracy" in row]
    print(
        f"{engine}: losses {' '.join(f'{loss:.6f}' for loss in losses)}; accuracy {accuracy[-1]:.3f}; "
        f"{seconds:.2f} s; peak {peak / 2**20:.0f} MiB"
    )


if __name__ == "__main__":
    main()
