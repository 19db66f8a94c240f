"""Resident bytes of this process, for the scripts that compare PyTorch with Lessen."""

from pathlib import Path


def _status(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    return 0


def resident() -> int:
    """Bytes that are resident now, from which on the peak is counted anew."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def peak_since(held: int) -> int:
    """Bytes by which the peak since ``resident`` is above what it gave."""
    return _status("VmHWM") - held
