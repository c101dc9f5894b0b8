"""Several processes under torchrun: gradients are averaged over them, chains are each one's own."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch
from torch import distributed, nn


@dataclass(frozen=True)
class Ranks:
    """Which process this is, of how many."""

    rank: int = 0
    count: int = 1

    @classmethod
    def joined(cls) -> Ranks:
        """Join the group that torchrun set up; a lone process otherwise."""
        if int(os.environ.get("WORLD_SIZE", "1")) <= 1:
            return cls()
        if not distributed.is_initialized():
            distributed.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
        return cls(distributed.get_rank(), distributed.get_world_size())

    @property
    def first(self) -> bool:
        return self.rank == 0

    def average_gradients(self, module: nn.Module) -> None:
        if self.count == 1:
            return
        for parameter in module.parameters():
            if parameter.grad is not None:
                distributed.all_reduce(parameter.grad)
                parameter.grad /= self.count

    def agreed(self, number: int) -> int:
        """The first process's number."""
        if self.count == 1:
            return number
        told = torch.tensor([number])
        distributed.broadcast(told, 0)
        return int(told)

    def wait(self) -> None:
        if self.count > 1:
            distributed.barrier()

    def leave(self) -> None:
        """Dissolve the group at the end of a program."""
        if self.count > 1:
            distributed.destroy_process_group()
