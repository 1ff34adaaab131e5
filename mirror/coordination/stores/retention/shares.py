"""Fair shares of a folder that all groups write to. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence


def surplus(groups: Mapping[str, str], most_of: Callable[[str], int], most: int) -> Sequence[str]:
    """Return the nodes to drop, the oldest first.

    `groups`: of each node its group, the oldest node first; `most_of`: nodes of one group that are kept, of
    which the newest count; `most`: nodes of all. Where groups together have more than `most`, those that have
    the most nodes lose their oldest ones.
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
