// Content of the page of a datastream. Pure.

import { count, duration, isKnown, many, percent, rate, size, timeOfDay } from "../lib/format.js";
import { standing, wordOf } from "./overview.js";

export { standing };

/** Key figures; those of the latest planning run have its time, `asOfMs`. `loads`: response of /loads, null while it is
 *  unknown. */
export function factsOf(one, usable, loads) {
  const fullest = fullestOf(loads);
  return [
    { name: "Oldest waiting record", text: isKnown(one.oldest_ms) || !isKnown(one.at_least_ms) ? duration(one.oldest_ms) : `at least ${duration(one.at_least_ms)}`,
      note: isKnown(one.objective_ms) ? `objective: p${one.percentile} within ${duration(one.objective_ms)}` : "no objective" },
    { name: "Waiting records", text: count(one.lag_records) },
    { name: "Throughput", text: rate(one.bytes_per_second) },
    { name: "Remaining error budget", text: isKnown(one.objective_ms) || isKnown(one.budget_left) ? percent(one.budget_left) : "none",
      note: isKnown(one.budget_left) ? "as of the latest incident" : isKnown(one.objective_ms) ? "unknown before the first incident" : "no objective" },
    { name: "Tasks", text: count(one.tasks), note: isKnown(one.required_tasks) ? `${count(one.required_tasks)} required by load` : "",
      asOfMs: isKnown(one.required_tasks) ? one.planned_ms : null },
    { name: "Fullest task", text: rate(fullest ?? one.fullest_bytes_per_second), note: isKnown(usable) ? `usable capacity: ${rate(usable)} per task` : "",
      asOfMs: fullest === null && isKnown(one.fullest_bytes_per_second) ? one.planned_ms : null },
    { name: "Partitions", text: count(one.partitions), note: one.not_copied ? `${count(one.not_copied)} not copied` : "" },
  ];
}

const MOST_FAULTS = 20;

/** Content of the audit card, from the response of /v1/audits. */
export function auditOf(audits) {
  const all = audits.topics.flatMap((topic) => topic.faults.map((one) => ({
    text: `${topic.topic}-${one.partition}: ${many(one.records, `${one.verdict} record`)} starting at ${one.source_offset < 0 ? `destination offset ${one.destination_offset}` : `source offset ${one.source_offset}`}`,
    ms: one.start_ms,
  })));
  const more = audits.topics.reduce((sum, topic) => sum + topic.more_faults, Math.max(all.length - MOST_FAULTS, 0));
  const late = audits.topics.reduce((sum, topic) => sum + (topic.late_offsets ?? 0), 0);
  return { late, through: audits.complete_through_ms, faults: all.slice(0, MOST_FAULTS), more, problems: audits.topics.map((topic) => topic.problem).filter(Boolean) };
}

/** Current load of the fullest task; null unless all loads are known and included. */
function fullestOf(loads) {
  if (!loads || loads.left_out || !loads.partitions.length) return null;
  const tasks = new Map();
  for (const one of loads.partitions) {
    if (!isKnown(one.bytes_per_second)) return null;
    if (one.task !== null) tasks.set(one.task, (tasks.get(one.task) || 0) + one.bytes_per_second);
  }
  return tasks.size ? Math.max(...tasks.values()) : null;
}

/** Provider of the loads, and time of the newest one. */
export function measuredBy(loads) {
  const moments = loads.partitions.map((one) => one.measured_at_ms).filter(isKnown);
  const text = loads.no_answer ? `loads unknown: ${loads.no_answer}` : loads.provider ? `loads from provider ${loads.provider}` : "no loads measured yet";
  return { text, ms: moments.length ? Math.max(...moments) : null };
}

/** Partitions that are not OK: [{ word, number }], largest number first. */
export const statesOf = (one) =>
  Object.entries(one.states).sort((a, b) => b[1] - a[1]).map(([state, number]) => ({ word: wordOf(state), number }));

/** Return a history without the steps before the first measurement. */
export function measuredOf(history) {
  const first = history.records.findIndex(isKnown);
  const from = first < 0 ? 0 : Math.max(0, Math.min(first, history.records.length - 2));
  return Object.fromEntries(Object.entries(history).map(([name, value]) => [name, Array.isArray(value) ? value.slice(from) : value]));
}

/** Return a sentence about record latency. `history`: response of /latency/history. */
export function lateText(history) {
  const known = history.p99_ms.filter(isKnown);
  if (!known.length) return "No records were copied in this period.";
  const records = history.records.filter(isKnown).reduce((sum, one) => sum + one, 0);
  return `p99 between ${duration(Math.min(...known))} and ${duration(Math.max(...known))} over ${many(records, "record")}; ${duration(known.at(-1))} in the latest interval with records.`;
}

/** Return a sentence about throughput. `history`: response of /latency/history. */
export function throughputText(history) {
  const known = history.bytes_per_second.filter(isKnown);
  if (!known.length) return "No throughput was measured in this period.";
  return `Between ${rate(Math.min(...known))} and ${rate(Math.max(...known))}; ${rate(known.at(-1))} in the latest interval.`;
}

/** Return a sentence about waiting records. `history`: response of /latency/history. */
export function lagText(history) {
  const known = history.lag_records.filter(isKnown).map(Math.round);
  if (!known.length) return "No lag was measured in this period.";
  return `Between ${count(Math.min(...known))} and ${many(Math.max(...known), "waiting record")} (averages of intervals); ${count(known.at(-1))} in the latest interval.`;
}

/** Tasks with their partitions as fractions of usable capacity, fullest first. The full width stands for `scale`. A
 *  partition without a known load has width null. */
export function placementOf(loads, usable) {
  const tasks = new Map();
  const idle = [];
  for (const one of loads.partitions) {
    if (one.task === null) idle.push(`${one.topic}-${one.partition}`);
    else if (tasks.has(one.task)) tasks.get(one.task).partitions.push(one);
    else tasks.set(one.task, { task: one.task, instance: one.instance, partitions: [one] });
  }
  const found = [...tasks.values()].map((task) => {
    const known = task.partitions.filter((one) => isKnown(one.bytes_per_second));
    return { ...task, load: known.reduce((sum, one) => sum + one.bytes_per_second, 0), unknown: task.partitions.length - known.length };
  });
  const scale = Math.max(usable || 0, ...found.map((task) => task.load)) * 1.05 || 1;
  return {
    usableAt: usable ? usable / scale : null,
    idle,
    isPart: loads.left_out > 0,
    leftOut: loads.left_out,
    tasks: found.sort((a, b) => b.load - a.load || a.task.localeCompare(b.task)).map((task) => taskOf(task, scale, usable)),
  };
}

function taskOf(task, scale, usable) {
  const parts = task.partitions.map((one) => ({
    name: `${one.topic}-${one.partition}`,
    width: isKnown(one.bytes_per_second) ? one.bytes_per_second / scale : null,
    isHot: one.is_hot === true,
    text: `${one.topic}-${one.partition}: ${rate(one.bytes_per_second)}${one.is_hot ? ", hot" : ""}`,
  }));
  const isOver = isKnown(usable) && task.load > usable;
  const hot = parts.filter((one) => one.isHot).map((one) => one.name);
  return {
    task: task.task, instance: task.instance || "no instance", parts, isOver, hot,
    load: rate(task.load), share: isKnown(usable) ? percent(task.load / usable) : "",
    text: `${task.task} on ${task.instance || "no instance"}: ${rate(task.load)}${isKnown(usable) ? `, ${percent(task.load / usable)} of usable capacity` : ""}, ` +
      `${many(parts.length, "partition")}${hot.length ? `, hot: ${hot.join(", ")}` : ""}${task.unknown ? `, load of ${many(task.unknown, "partition")} unknown` : ""}`,
    unknown: task.unknown,
  };
}

const KINDS = { plan: "plan", move: "move", problem: "problem", request: "request", loads: "loads", command: "command", instance: "instance", worker: "worker", datastream: "state" };

/** Events as text; moves of one plan for one reason are one entry. `events`: newest first. */
export function eventsOf(events) {
  const found = [];
  for (const one of events) {
    const last = found.at(-1);
    const row = eventOf(one);
    if (last && one.topic && last.moves.length && last.epoch === row.epoch && last.why === row.why) last.moves.push(row.what);
    else found.push({ ...row, moves: one.topic ? [row.what] : [] });
  }
  return found.map((row) => (row.moves.length > 1 ? { ...row, what: `${many(row.moves.length, "partition")}`, load: "" } : row));
}

const eventOf = (one) => ({
  key: one.event_key, ms: one.time_ms, kind: KINDS[one.kind] || "other", epoch: one.plan_epoch,
  what: one.topic ? `${one.topic}-${one.kafka_partition}: ${placeOf(one.from_task, one.from_instance)} → ${placeOf(one.to_task, one.to_instance)}` : "",
  why: one.sentence, load: isKnown(one.bytes_per_second) ? rate(one.bytes_per_second) : "",
});

const placeOf = (task, instance) => (task ? `${task}${instance ? ` on ${instance}` : ""}` : "no task");

const milliseconds = (value) => duration(value);
const seconds = (value) => duration(value * 1000);
const stampOffset = (value) => `${seconds(Math.abs(value))} ${value > 0 ? "ahead of" : "behind"} the clock of the source`;
/** Labels and formats of the figures of a cause. */
const EVIDENCE = {
  late_partitions: ["late partitions", count], explained_partitions: ["late partitions with this cause", count], waiting_records: ["waiting records", count],
  wait_ms: ["waiting at the source", milliseconds], fetch_ms: ["fetch", milliseconds], queue_ms: ["worker queue", milliseconds], produce_ms: ["produce", milliseconds],
  quota: ["throttled by the quota of", String], throttled_share: ["throttled for", (value) => `${percent(value)} of the time`], broker: ["broker", String],
  worker_cores: ["worker CPU usage", (value) => `${percent(value)} of a core`], worker_waited_share: ["worker waiting for CPU", (value) => `${percent(value)} of the time`],
  fetch_unanswered_seconds: ["no response from the source for", seconds], produce_unanswered_seconds: ["no response from the destination for", seconds],
  timestamp_offset_seconds: ["record timestamps", stampOffset], limited_at: ["rate limited by round trips to", String], window_bytes: ["data per connection and round trip", size],
  round_trip_ms: ["round trip", milliseconds], connections: ["additional connections in use", count], allowed_connections: ["additional connections allowed", count],
  task: ["task", String], task_bytes_per_second: ["task throughput", rate], partition: ["heaviest partition", String], partition_bytes_per_second: ["throughput of the heaviest partition", rate],
};

/** The figures of a cause with labels and units; unknown figures are shown by name and value. */
export const evidenceOf = (evidence) => Object.entries(evidence).map(([name, value]) => {
  const [word, shown] = EVIDENCE[name] || [name.replaceAll("_", " "), (one) => (typeof one === "number" ? count(one) : one)];
  return `${word}: ${shown(value)}`;
});

/** State of an incident: { tone, sign, word }. */
function stateOf(one) {
  if (one.closed_ms !== null) return { tone: "idle", sign: "✓", word: "closed" };
  if (isKnown(one.closing_ms)) return { tone: "warn", sign: "✓", word: `recovered, closes at ${timeOfDay(one.closing_ms)}` };
  return { tone: "bad", sign: "▲", word: "open" };
}

/** Incidents, newest first. */
export const incidentsOf = (incidents) =>
  incidents.map((one) => ({
    id: one.id, name: one.datastream, isOpen: one.closed_ms === null, openedMs: one.opened_ms, closedMs: one.closed_ms,
    state: stateOf(one),
    cause: one.cause || (one.matters.length ? one.matters.join(", ") : "unknown cause"),
    worst: isKnown(one.worst_ms) ? `worst ${duration(one.worst_ms)}` : "",
    lasted: one.closed_ms === null ? "" : duration(one.closed_ms - one.opened_ms),
    spent: one.costs.filter((cost) => isKnown(cost.spent)).map((cost) => `${percent(cost.spent)} of the error budget of ${cost.objective}`)
      .concat((one.deliveries ?? []).map((cost) => `${count(Math.round(cost.late))} of ${many(cost.records, "record")} later than ${cost.objective}`)),
    evidence: evidenceOf(one.evidence),
    timeline: one.timeline.map((entry, at) => ({ key: at, ms: entry.time_ms, phase: entry.phase, text: entry.text })),
    leftOut: one.left_out,
  }));

/** Partitions with missing records, or that wait for an operator, according to the ledger. */
export function gapsOf(answer) {
  const classes = (offsets) => Object.entries(offsets).filter(([, number]) => number).map(([name, number]) => `${count(number)} ${name.replaceAll("_", " ")}`);
  return {
    line: `${many(answer.looked_at, "partition")} checked, ${answer.partitions.length} with missing records or a problem` +
      (answer.unknown.length ? `; ${many(answer.unknown.length, "partition")} not checked because no progress is stored` : ""),
    rows: answer.partitions.map((one) => ({
      name: `${one.topic}-${one.partition}`,
      missing: classes(one.offsets).join(", ") || "none",
      events: one.events.slice(-3),
      waits: [one.refused, one.not_copied && `${one.not_copied.state}: ${one.not_copied.reason}`,
              one.destination_is_current === false && "the destination topic was deleted"].filter(Boolean).join("; "),
    })),
  };
}
