// Diff of a proposed plan. Pure.

import { count, isKnown, percent, rate } from "../lib/format.js";

const placeOf = (task, instance) => (task ? `${task}${instance ? ` on ${instance}` : ""}` : "no task");

/** Changes of a proposal. `before`: current number of tasks. */
export function diffOf(proposal, before) {
  return {
    sentence: proposal.sentence,
    isTrue: proposal.changed.length === 0,
    changed: proposal.changed,
    isAsked: proposal.asked_by !== null,
    askedBy: proposal.asked_by,
    expiresMs: proposal.expires_ms,
    isEmpty: proposal.moves.length === 0 && proposal.tasks === before,
    reasons: proposal.reasons,
    facts: [
      { name: "Tasks", text: isKnown(before) && before !== proposal.tasks ? `${count(before)} → ${count(proposal.tasks)}` : count(proposal.tasks),
        note: isKnown(proposal.task_lower_bound) ? `every plan needs at least ${count(proposal.task_lower_bound)}` : "" },
      { name: "Partitions to move", text: count(proposal.moves.length), note: "copying of each pauses for at most about 1 s" },
      { name: "Load of these partitions", text: rate(proposal.moved),
        note: isKnown(proposal.moved_lower_bound) ? `every equally good plan moves at least ${rate(proposal.moved_lower_bound)}` : "" },
      { name: "Loads", text: proposal.loads_known ? "measured" : "unknown", note: proposal.loads_known ? "" : "each task gets about the same number of partitions" },
    ],
    rows: proposal.moves.map((one) => ({
      key: `${one.datastream}/${one.partition}`, partition: one.partition,
      from: placeOf(one.from_task, one.from_instance), to: placeOf(one.to_task, one.to_instance), why: one.reason,
    })),
  };
}

/** Return why a plan cannot be approved now; "" if it can. */
export function refusalOf(diff, ofRole) {
  if (ofRole) return ofRole;
  if (diff.isAsked) return `${diff.askedBy} has already approved this plan`;
  if (!diff.isTrue) return `the plan is outdated: ${diff.changed.join("; ")}`;
  return diff.isEmpty ? "the plan changes nothing" : "";
}

/** Effect of a change, from the response of a dry run. */
export function effectOf(answer) {
  const parts = [["starts", "start"], ["stops", "stop"], ["moves", "move"], ["restarts", "restart"]];
  return {
    facts: [
      { name: "Tasks", text: answer.tasks_before === answer.tasks_after ? count(answer.tasks_after) : `${count(answer.tasks_before)} → ${count(answer.tasks_after)}` },
      ...parts.map(([key, word]) => ({ name: `Partitions to ${word}`, text: count(answer[key].length) })),
      { name: "Interrupted load", text: answer.starts.length + answer.moves.length + answer.restarts.length + answer.stops.length ? rate(answer.interrupted_bytes_per_second) : "none",
        note: "arrival rate of these partitions" },
    ],
    reasons: answer.reasons,
    changes: answer.changes.map((one) => ({ field: one.field, before: JSON.stringify(one.before), after: JSON.stringify(one.after) })),
    rows: parts.flatMap(([key, word]) => answer[key].map((one) => ({
      key: `${key}/${one.partition}`, word, partition: one.partition, from: placeOf(one.from_task, one.from_instance), to: placeOf(one.to_task, one.to_instance),
      why: one.reason, load: isKnown(one.bytes_per_second) ? rate(one.bytes_per_second) : "" }))),
    isNothing: parts.every(([key]) => answer[key].length === 0) && answer.tasks_before === answer.tasks_after,
  };
}

/** Sliders of a datastream: current values and ranges. */
export function slidersOf(definition, one, usable) {
  const most = Math.max(8, (one.tasks || 1) * 3, definition.limits.max_tasks || 0, (one.required_tasks || 0) * 2);
  const fullest = Math.max(1, Math.ceil((one.partitions || 1)));
  return {
    note: isKnown(usable) && isKnown(one.fullest_bytes_per_second) ? `The fullest task uses ${percent(one.fullest_bytes_per_second / usable)} of its usable capacity.` : "",
    sliders: [
      { key: "min_tasks", label: "Minimum number of tasks", least: 1, most, value: definition.limits.min_tasks, off: null },
      { key: "max_tasks", label: "Maximum number of tasks", least: 1, most, value: definition.limits.max_tasks ?? null, off: "no limit" },
      { key: "max_partitions_per_task", label: "Maximum partitions per task", least: 1, most: fullest, value: definition.limits.max_partitions_per_task ?? null, off: "no limit" },
    ],
  };
}

/** Return the call for a dry run, or for the change. */
export const limitsCall = (name, limits, etag, isReal) => ({
  method: "PATCH", path: `/v1/datastreams/${encodeURIComponent(name)}${isReal ? "" : "?dry_run=true"}`,
  type: "application/merge-patch+json", headers: { "If-Match": etag || "*" }, body: { limits },
});
