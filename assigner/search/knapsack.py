"""Finds the most valuable set of partitions that fits into one task, for column generation."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from assigner.problem.limits import Limits
from assigner.problem.problem import Ints

_TINY: Final = 1e-9


class Pricing:
    """Bounded knapsack that finds the most valuable column."""

    def __init__(self, sizes: Ints, room: int, limits: Limits) -> None:
        self._sizes = sizes.tolist()
        self._room = room
        self.limits = limits

    def best(self, values: list[float], demands: list[int]) -> tuple[float, dict[int, int]]:
        """Return value and content of the best column; approximate if a limit ends the search."""
        pieces = self._pieces(values, demands)
        table = np.zeros(self._room + 1)
        taken: list[npt.NDArray[np.bool_]] = []
        for _, count, size, value in pieces:
            width = count * size
            with_piece = table[: self._room + 1 - width] + count * value
            better = with_piece > table[width:] + _TINY
            taken.append(better)
            table[width:] = np.where(better, with_piece, table[width:])
        return float(table[self._room]), self._trace(pieces, taken)

    def _pieces(self, values: list[float], demands: list[int]) -> list[tuple[int, int, int, float]]:
        """Return (kind, count, size, value) with counts 1, 2, 4, … up to the demand that fits.

        Partitions without load come first, so that under limits `_trace` prefers the others.
        """
        pieces = []
        for kind, (value, demand) in enumerate(zip(values, demands, strict=True)):
            size = self._sizes[kind]
            most = min(demand, self._room // size if size else demand)
            if value <= _TINY:
                continue
            step = 1
            while most > 0:
                count = min(step, most)
                pieces.append((kind, count, size, value))
                most -= count
                step *= 2
        return sorted(pieces, key=lambda piece: piece[2] > 0)

    def _trace(
        self, pieces: list[tuple[int, int, int, float]], taken: list[npt.NDArray[np.bool_]]
    ) -> dict[int, int]:
        column: dict[int, int] = {}
        room, held = self._room, 0
        for (kind, count, size, _), better in zip(reversed(pieces), reversed(taken), strict=True):
            width = count * size
            if width <= room and better[room - width]:
                allowed = self.limits.most(held + count) - held
                room -= width
                held += allowed
                if allowed:
                    column[kind] = column.get(kind, 0) + allowed
        return column
