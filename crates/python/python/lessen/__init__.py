"""Lessen trains and runs neural networks with less: less memory, less time, the same answer.

- ``lessen.load`` opens a saved model to ask it, ``lessen.onnx`` an ONNX file to run it.
- ``lessen.train`` and ``lessen.Trainer`` train by a recipe, on files or on data in memory; ``lessen.plan`` tells memory
  and time beforehand.
- ``lessen.quantize``, ``lessen.convert``, ``lessen.condense``, ``lessen.search``, ``lessen.energy`` and
  ``lessen.evaluate`` are the command's.
- ``lessen.compile`` trains a module of PyTorch; ``lessen.integrations`` does so in loops of transformers and Lightning.
- ``lessen.sklearn`` has estimators for scikit-learn.

Mistakes are ``lessen.Error``, a ``ValueError`` with the command's sentence. The command is ``python -m lessen``.
"""

from ._errors import ArgumentError, Error
from ._lessen import version as _version
from ._model import Model, load
from ._onnx import OnnxSession, onnx
from ._show import Result
from ._train import (
    Condensed,
    Plan,
    Run,
    Trainer,
    condense,
    convert,
    energy,
    evaluate,
    plan,
    quantize,
    search,
    train,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._torch import compile as compile

__version__: str = _version()


def __getattr__(name: str) -> object:
    """``compile``, which imports PyTorch."""
    if name != "compile":
        raise AttributeError(f"module 'lessen' has no attribute '{name}'")
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise Error("lessen.compile needs PyTorch; pip install torch") from error
    from ._torch import compile

    return compile


__all__ = [
    "ArgumentError",
    "Condensed",
    "Error",
    "Model",
    "OnnxSession",
    "Plan",
    "Result",
    "Run",
    "Trainer",
    "condense",
    "convert",
    "energy",
    "evaluate",
    "load",
    "onnx",
    "plan",
    "quantize",
    "search",
    "train",
]
