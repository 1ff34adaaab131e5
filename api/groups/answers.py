"""Response about a group of datastreams that share tasks, on /v1."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from api.schemas.datastreams import DatastreamAnswer


class GroupMembersAnswer(BaseModel):
    """Datastreams that share tasks, without those being deleted."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    prefix: str
    """Task prefix of the group, or the name of a datastream without `system.taskPrefix`."""
    datastreams: list[DatastreamAnswer]
    """Datastreams by name."""

    @classmethod
    def of(cls, prefix: str, found: Sequence[DatastreamAnswer]) -> GroupMembersAnswer:
        """Build the response."""
        return cls(prefix=prefix, datastreams=sorted(found, key=lambda one: one.name))
