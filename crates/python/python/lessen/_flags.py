"""Keywords of Python as arguments of the command."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ._errors import ArgumentError

#: The first words of keys of recipes; a keyword ``train_lr`` means the key ``train.lr``.
SECTIONS = ("run", "model", "data", "image", "train", "optimizer", "lora", "record", "condense", "search")


def text_of(value: Any, name: str) -> str:
    """A value as the command reads it."""
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(f'"{one}"' if isinstance(one, str) else text_of(one, name) for one in value) + "]"
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return text_of(value.item(), name)
    raise ArgumentError(f"{name} is a {type(value).__name__}; give a text, a number, a truth value or a list")


def flags_of(keywords: Mapping[str, Any]) -> list[str]:
    """The flags of keywords: ``top_k=3`` is ``--top-k 3``; true is the flag alone, None and false are no flag, and a
    list repeats the flag."""
    flags: list[str] = []
    for name, value in keywords.items():
        flag = "--" + name.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            flags.append(flag)
        else:
            for one in value if isinstance(value, (list, tuple)) else [value]:
                # One argument, so that a value may begin with a hyphen.
                flags.append(f"{flag}={text_of(one, name)}")
    return flags


def job_flags(keywords: Mapping[str, Any]) -> list[str]:
    """The flags of a job: keys of recipes become assignments of ``--set``, everything else flags of their own."""
    given = dict(keywords)
    assignments = dict(given.pop("set", None) or {})
    for name in list(given):
        section, _, key = name.partition("." if "." in name else "_")
        if key and section in SECTIONS:
            assignments[f"{section}.{key}"] = given.pop(name)
    sets = [f"--set={key}={text_of(value, key)}" for key, value in assignments.items() if value is not None]
    return flags_of(given) + sets
