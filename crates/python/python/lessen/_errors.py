"""Errors of Lessen."""


class Error(ValueError):
    """A mistake in what was given, in the sentence of the command: the thing, the place and the remedy; or a failure of
    Lessen itself, which says so."""


class ArgumentError(Error, TypeError):
    """An argument of a type that is not taken."""


Error.__module__ = ArgumentError.__module__ = "lessen"
