"""Processes of torch.distributed that share a training. Torch is imported for them alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._errors import ArgumentError, Error

#: Seconds without an answer after which a process is given up.
DEADLINE = 120.0

#: The group of a training in one process.
ALONE: Any = object()

#: The longest wait of gloo, which breaks the connection; Lessen has its own deadline.
LONGEST = timedelta(days=1)


def checked_group(group: Any) -> Any:
    """A group that may be left out; None where it is."""
    if group is ALONE:
        return None
    if group is None and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ArgumentError(
            "group is None, as torch.distributed.group.WORLD is before init_process_group; call that before, or leave "
            "group out to train in each process alone"
        )
    return group


def processes_of(group: Any) -> Processes:
    """The processes of a group of ``torch.distributed``."""
    import torch.distributed as dist

    if not dist.is_available() or not isinstance(group, dist.ProcessGroup):
        kind = type(group).__name__
        raise ArgumentError(f"group is a {kind}; give one of torch.distributed, such as torch.distributed.group.WORLD")
    if dist.get_rank(group) < 0:
        raise Error("this process is not in the group; let those that are in it train")
    return Processes(group)


class Processes:
    """The processes of a group, and messages between them for one training. Rust calls it in threads of its own."""

    def __init__(self, group: Any) -> None:
        import torch.distributed as dist

        self.rank: int = dist.get_rank(group)
        self._ranks: list[int] = dist.get_process_group_ranks(group)
        self._own: Any = None

    def open(self) -> tuple[int, int]:
        """Connects the processes by a group of the training's own, so that no message of others, or of a training that
        failed, is taken for one of it; the number of this process, and how many there are."""
        import torch.distributed as dist

        self._own = dist.new_group(self._ranks, timeout=LONGEST, backend="gloo", use_local_synchronization=True)
        return self.rank, len(self._ranks)

    def send(self, to: int, tag: int, values: NDArray[np.uint8]) -> Callable[[], object]:
        """Begins to send bytes; what waits until they are needed no more."""
        import torch
        import torch.distributed as dist

        work: Any = dist.isend(torch.from_numpy(values), dst=self._ranks[to], group=self._own, tag=tag)
        wait: Callable[[], object] = work.wait
        return wait

    def receive(self, source: int, tag: int, length: int) -> Callable[[], NDArray[np.uint8]]:
        """Begins to receive so many bytes; what waits for them."""
        import torch
        import torch.distributed as dist

        message = torch.empty(length, dtype=torch.uint8)
        work: Any = dist.irecv(message, src=self._ranks[source], group=self._own, tag=tag)

        def wait() -> NDArray[np.uint8]:
            work.wait()
            values: NDArray[np.uint8] = message.numpy()
            return values

        return wait

    def close(self) -> None:
        """Lets go of the training's own group."""
        import torch.distributed as dist

        own, self._own = self._own, None
        # The program has let go of all groups where there is no such group.
        with suppress(Exception):
            dist.destroy_process_group(own)
