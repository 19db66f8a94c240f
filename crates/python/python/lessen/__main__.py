"""The command: ``python -m lessen``, and the script ``lessen``."""

import signal
import sys

from . import _lessen


def main() -> None:
    """Runs the command with the arguments of the process, and ends the process with its exit code."""
    # Python's handler would only note Ctrl-C; the command has its own where it can stop with a checkpoint.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_lessen.main(["lessen", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
