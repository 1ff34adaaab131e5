"""Settings of `[dr.NAME]`: a pair of clusters with exchangeable roles."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Final

from pydantic import Field, model_validator

from mirror.model.datastreams.consumer_groups import read_expression
from mirror.options import Seconds, Settings, read_by

_SHORTEST_STILL: Final = 1.0


class PairSettings(Settings):
    """Settings of a pair: primary and standby cluster, and the datastreams between them."""

    primary: str
    """Alias of the cluster to which producers normally write."""
    standby: str
    """Alias of the cluster that takes over from the primary."""
    datastreams: list[str] = Field(min_length=1)
    """Names of the datastreams from the primary to the standby. The datastreams of a pair must not rename
    topics."""
    groups: Annotated[str, read_by(partial(read_expression, "groups"))] = ""
    """Consumer groups to move: a regular expression that must match the whole name; empty moves none."""
    principals: list[str] = Field(default=[])
    """Principals of producers, such as `User:app`. A switch-over denies them Write. If the list is empty,
    stop the producers yourself; the switch-over then only checks that there are no writes."""
    rpo_seconds: Seconds = 30.0
    """Recovery point objective: maximum age of the oldest record that is not yet on the other cluster. A
    switch-over starts only if the age is below this value."""
    rto_seconds: Seconds = 60.0
    """Recovery time objective: maximum time during which producers cannot write. The report of a switch-over
    compares the actual time with this value."""
    still_seconds: float = Field(default=10.0, ge=_SHORTEST_STILL)
    """Time without new records after which a switch-over assumes that no producer writes."""

    @model_validator(mode="after")
    def _has_two_clusters(self) -> PairSettings:
        if self.primary == self.standby:
            raise ValueError(f"primary and standby are both {self.primary!r}: name two clusters")
        return self

    def other(self, cluster: str) -> str:
        """Return the other cluster of the pair."""
        return self.standby if cluster == self.primary else self.primary
