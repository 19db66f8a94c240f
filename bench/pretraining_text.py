"""The text and the vocabulary with which bench/pretrained.py pre-trains.

Text: Penn Treebank, tiny Shakespeare and the sentences of the training files of GLUE, without their labels; nothing of
any file for evaluation, but the validation text of Penn Treebank as validation text. One line is one text.

Vocabulary: that of bert-base-uncased without the tokens that the text has seldom, since each of them costs memory and
time at every step and none of them would be learned. Words without a token of their own fall into pieces, as ever.
"""

import collections
import os

# Places of the sentences in the training files of GLUE: columns, and whether the file has a header line.
GLUE = {
    "CoLA": ([3], False),
    "SST-2": ([0], True),
    "MRPC": ([3, 4], True),
    "RTE": ([1, 2], True),
    "STS-B": ([7, 8], True),
    "WNLI": ([1, 2], True),
}
# SST-2 has the parts of its sentences as well; shorter ones are left out.
FEWEST_WORDS_OF_A_PART = 6
# Words of a line; longer texts are cut into several.
MOST_WORDS = 40
VALIDATION_LINES = 1000
# A token that occurs in the text more seldom is left out of the vocabulary.
FEWEST_OCCURRENCES = 10
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def read(*path):
    with open(os.path.join(*path), encoding="utf-8-sig") as file:
        return file.read()


def treebank(text):
    """Lines of Penn Treebank; its rare words stay unknown ones, and `N` stands for a number."""
    for line in text.split("\n"):
        words = [{"<unk>": "[UNK]", "N": "10"}.get(word, word) for word in line.split()]
        yield " ".join(words).replace(" n't", "n't").replace(" '", "'")


def pieces(texts):
    """Cuts texts into lines of about equal length, each once."""
    seen = set()
    for text in texts:
        words = text.split()
        parts = -(-len(words) // MOST_WORDS)
        for part in range(parts):
            line = " ".join(words[len(words) * part // parts : len(words) * (part + 1) // parts])
            if line not in seen:
                seen.add(line)
                yield line


def training_texts(data):
    yield from treebank(read(data, "text", "ptb.train.txt"))
    yield from read(data, "text", "tinyshakespeare.txt").split("\n\n")
    for task, (columns, header) in GLUE.items():
        for line in read(data, "glue", task, "train.tsv").split("\n")[header:]:
            fields = line.split("\t")
            for column in columns:
                text = fields[column] if column < len(fields) else ""
                if task != "SST-2" or len(text.split()) >= FEWEST_WORDS_OF_A_PART:
                    yield text


def write(path, lines):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(line + "\n" for line in lines)


def make(data, out, transformers):
    """Writes `out/text` and `out/tokenizer` and returns what a reader wants to know of them."""
    train = list(pieces(training_texts(data)))
    valid = list(pieces(treebank(read(data, "text", "ptb.valid.txt"))))[:VALIDATION_LINES]
    write(os.path.join(out, "text", "train.txt"), train)
    write(os.path.join(out, "text", "valid.txt"), valid)
    whole = os.path.join(data, "tokenizers", "bert-base-uncased", "vocab.txt")
    tokenizer = transformers.BertTokenizerFast(vocab=whole)
    counts = collections.Counter()
    for start in range(0, len(train), 10000):
        for ids in tokenizer(train[start : start + 10000], add_special_tokens=False)["input_ids"]:
            counts.update(ids)

    def kept(token, id_):
        character = token.removeprefix("##")
        letter = len(character) == 1 and character.isascii()
        return token in SPECIAL or letter or counts[id_] >= FEWEST_OCCURRENCES

    vocabulary = [token for id_, token in enumerate(read(whole).rstrip("\n").split("\n")) if kept(token, id_)]
    folder = os.path.join(out, "tokenizer")
    write(os.path.join(folder, "vocab.txt"), vocabulary)
    tokenizer = transformers.BertTokenizerFast(vocab=os.path.join(folder, "vocab.txt"))
    tokenizer.model_max_length = 64
    tokenizer.save_pretrained(folder)
    tokens = sum(len(ids) for ids in tokenizer(train, add_special_tokens=False)["input_ids"])
    words = sum(len(line.split()) for line in train)
    return {"lines": len(train), "words": words, "tokens": tokens, "vocabulary": len(vocabulary)}
