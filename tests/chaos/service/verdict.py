"""Findings of a run in readable form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields

from tests.chaos.service.comparison import Findings
from tests.chaos.service.schedule import Kind


@dataclass
class Verdict:
    """Result of a run. `violations`: sentences; empty if every guarantee was met. Times are in seconds."""

    seed: int
    length: float
    faults: Mapping[Kind, int]
    silences: Mapping[Kind, tuple[float, str]]
    """Longest time without an arrival on one partition that overlaps a fault of the kind, and that partition.

    Another fault may be its cause.
    """
    findings: dict[str, Findings] = field(default_factory=dict)
    """Findings by datastream."""
    flowing_after: float = 0.0
    """Time from the end of the last fault until every partition had a new record."""
    complete_after: float = 0.0
    """Time from the end of writing until everything had arrived."""
    audit_lag: float = 0.0
    """Longest time by which a watermark of the audits was behind."""
    statements: int = 0
    """Number of watermarks that were compared with both sides."""
    seconds: float = 0.0
    """Duration of the run, with its checks."""
    violations: list[str] = field(default_factory=list)

    def add(self, name: str, found: Findings, may_repeat: bool) -> None:
        """Add the findings of a datastream."""
        self.findings[name] = found
        for what, count in found.violations(may_repeat).items():
            self.violations.append(f"{name}: {count} records {what.replace('_', ' ')}")

    @property
    def total(self) -> Findings:
        """Sum over all datastreams."""
        return sum(self.findings.values(), Findings())

    def __str__(self) -> str:
        return "\n".join([*self._head(), *self._fault_lines(), *self._lines(), *self._end()])

    def _head(self) -> Sequence[str]:
        return [
            f"seed {self.seed}: {sum(self.faults.values())} faults in {self.length:.0f} s;"
            f" every partition flowed {self.flowing_after:.1f} s after the last;"
            f" complete {self.complete_after:.1f} s after the last record;"
            f" {self.statements} watermarks, at most {self.audit_lag:.1f} s behind",
        ]

    def _fault_lines(self) -> Sequence[str]:
        lines = [f"  {'faults':34}{'times':>6}{'silence s':>11}  of"]
        for kind, count in sorted(self.faults.items()):
            seconds, place = self.silences.get(kind, (0.0, ""))
            lines.append(f"  {kind:34}{count:6}{seconds:11.1f}  {place}")
        return lines

    def _lines(self) -> Sequence[str]:
        names = [one.name for one in fields(Findings)]
        width = max(map(len, [*self.findings, "datastream"]), default=0) + 1
        lines = [f"  {'datastream':{width}}" + "".join(f"{name.replace('_', ' '):>13}" for name in names)]
        for name, found in [*self.findings.items(), ("all", self.total)]:
            lines.append(f"  {name:{width}}" + "".join(f"{getattr(found, one):13,}" for one in names))
        return lines

    def _end(self) -> Sequence[str]:
        if not self.violations:
            return ["  nothing lost, doubled or out of order"]
        return ["  VIOLATIONS", *(f"  - {one}" for one in self.violations)]
