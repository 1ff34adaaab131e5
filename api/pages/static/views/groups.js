// Consumer groups that follow a datastream to its destination. Pure.

import { count, isKnown } from "../lib/format.js";

/** Rows of the table; groups that do not follow come first. */
export const groupsOf = (answer) => answer.groups.map((one) => ({
  name: one.group, kind: one.kind || "unknown", follows: one.follows,
  positions: `${count(one.positions.filter((each) => each.follows).length)} of ${count(one.positions.length)}`,
  why: [...one.reasons, one.follows && one.may_redeliver && "the group may receive records again after it moves to the destination", one.detail].filter(Boolean).join("; "),
  changedMs: one.changed_ms,
})).sort((a, b) => a.follows - b.follows || a.name.localeCompare(b.name));

/** Positions of a group at both ends, and its lag at the source. `lag`: response of /lag, null while it is unknown. */
export function positionsOf(answer, group, lag) {
  const ends = new Map((lag?.partitions || []).map((one) => [`${one.topic}-${one.partition}`, one.source_end]));
  const found = answer.groups.find((one) => one.group === group);
  return (found?.positions || []).map((one) => {
    const name = `${one.topic}-${one.partition}`;
    const end = ends.get(name);
    return {
      name, to: `${one.to_topic}-${one.partition}`, offset: count(one.offset),
      toOffset: !isKnown(one.to_offset) ? "none" : one.is_exact ? count(one.to_offset) : `at least ${count(one.to_offset)}`,
      lag: isKnown(end) ? count(Math.max(0, end - one.offset)) : "unknown", reason: one.reason,
    };
  });
}
