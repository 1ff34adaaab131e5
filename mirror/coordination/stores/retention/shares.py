"""Limits the number of child nodes per group. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence


def surplus(groups: Mapping[str, str], most_of: Callable[[str], int], most: int) -> Sequence[str]:
    """Return the nodes to drop, oldest first.

    `groups`: group of each node, oldest node first. `most_of`: returns the maximum number of nodes of a
    group. `most`: maximum number of nodes in total. If the total exceeds `most`, nodes are dropped from the
    groups with the most nodes, oldest first.
    """
    by_group: dict[str, list[str]] = {}
    for node, group in groups.items():
        by_group.setdefault(group, []).append(node)
    kept = {group: min(len(nodes), most_of(group)) for group, nodes in by_group.items()}
    share = max(kept.values(), default=0)
    while share > 1 and sum(min(count, share) for count in kept.values()) > most:
        share -= 1
    dropped = {node for group, nodes in by_group.items() for node in nodes[: -min(kept[group], share)]}
    left = [node for node in groups if node not in dropped]
    dropped.update(left[:-most])
    return [node for node in groups if node in dropped]
