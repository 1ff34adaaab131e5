"""Datastreams that share tasks, on /v1."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

from api.schemas.datastreams import DatastreamAnswer


class GroupMembersAnswer(BaseModel):
    """All datastreams that share tasks, without those that are about to go."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    prefix: str
    """What they share: `system.taskPrefix`, or the name of one that is alone."""
    datastreams: list[DatastreamAnswer]
    """By name."""

    @classmethod
    def of(cls, prefix: str, found: Sequence[DatastreamAnswer]) -> GroupMembersAnswer:
        """The JSON form."""
        return cls(prefix=prefix, datastreams=sorted(found, key=lambda one: one.name))
