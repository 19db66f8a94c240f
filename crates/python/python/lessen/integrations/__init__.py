"""Lessen in the training loops of other libraries; each module here imports the library of its name."""
