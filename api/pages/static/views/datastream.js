// What a datastream's page shows. Pure.

import { count, duration, isKnown, many, percent, rate } from "../lib/format.js";
import { standing, wordOf } from "./overview.js";

export { standing };

/** The numbers in the head; what the last planning says has its moment, `asOfMs`. `loads`: of /loads, null
 *  while they are not known. */
export function factsOf(one, usable, loads) {
  const fullest = fullestOf(loads);
  return [
    { name: "Oldest waiting record", text: isKnown(one.oldest_ms) || !isKnown(one.at_least_ms) ? duration(one.oldest_ms) : `at least ${duration(one.at_least_ms)}`,
      note: isKnown(one.objective_ms) ? `objective: p${one.percentile} within ${duration(one.objective_ms)}` : "no objective" },
    { name: "Waiting records", text: count(one.lag_records) },
    { name: "Throughput", text: rate(one.bytes_per_second) },
    { name: "Budget left", text: percent(one.budget_left), note: isKnown(one.budget_left) ? "as its newest incident says" : "its incidents say it; there is none" },
    { name: "Tasks", text: count(one.tasks), note: isKnown(one.required_tasks) ? `${count(one.required_tasks)} needed by load` : "",
      asOfMs: isKnown(one.required_tasks) ? one.planned_ms : null },
    { name: "Fullest task", text: rate(fullest ?? one.fullest_bytes_per_second), note: isKnown(usable) ? `usable: ${rate(usable)} a task` : "",
      asOfMs: fullest === null && isKnown(one.fullest_bytes_per_second) ? one.planned_ms : null },
    { name: "Partitions", text: count(one.partitions), note: one.not_copied ? `${count(one.not_copied)} of them nobody copies` : "" },
  ];
}

/** What the fullest task carries by the loads of now; null unless every load is known and told. */
function fullestOf(loads) {
  if (!loads || loads.left_out || !loads.partitions.length) return null;
  const tasks = new Map();
  for (const one of loads.partitions) {
    if (!isKnown(one.bytes_per_second)) return null;
    if (one.task !== null) tasks.set(one.task, (tasks.get(one.task) || 0) + one.bytes_per_second);
  }
  return tasks.size ? Math.max(...tasks.values()) : null;
}

/** Who measured the loads, and when the newest of them. */
export function measuredBy(loads) {
  const moments = loads.partitions.map((one) => one.measured_at_ms).filter(isKnown);
  const text = loads.no_answer ? `loads are not known: ${loads.no_answer}` : loads.provider ? `loads by ${loads.provider}` : "no load was measured yet";
  return { text, ms: moments.length ? Math.max(...moments) : null };
}

/** Partitions that are not OK: [{ word, number }], the most first. */
export const statesOf = (one) =>
  Object.entries(one.states).sort((a, b) => b[1] - a[1]).map(([state, number]) => ({ word: wordOf(state), number }));

/** A history without the steps before the first one in which something was measured. */
export function measuredOf(history) {
  const first = history.records.findIndex(isKnown);
  const from = first < 0 ? 0 : Math.max(0, Math.min(first, history.records.length - 2));
  return Object.fromEntries(Object.entries(history).map(([name, value]) => [name, Array.isArray(value) ? value.slice(from) : value]));
}

/** How late records were, in a sentence. `history`: of /latency/history. */
export function lateText(history) {
  const known = history.p99_ms.filter(isKnown);
  if (!known.length) return "Nothing was copied in that time.";
  const records = history.records.filter(isKnown).reduce((sum, one) => sum + one, 0);
  return `p99 between ${duration(Math.min(...known))} and ${duration(Math.max(...known))} over ${many(records, "record")}; in the newest step with records ${duration(known.at(-1))}.`;
}

/** How much was copied, in a sentence. `history`: of /latency/history. */
export function throughputText(history) {
  const known = history.bytes_per_second.filter(isKnown);
  if (!known.length) return "Nothing was measured in that time.";
  return `Between ${rate(Math.min(...known))} and ${rate(Math.max(...known))}; in the newest step ${rate(known.at(-1))}.`;
}

/** Tasks with their partitions as shares of usable capacity, the fullest first.
 *  `scale`: what the whole width stands for. A partition without a known load has `share` null. */
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
      `${many(parts.length, "partition")}${hot.length ? `, hot: ${hot.join(", ")}` : ""}${task.unknown ? `, load unknown of ${task.unknown}` : ""}`,
    unknown: task.unknown,
  };
}

const KINDS = { plan: "plan", move: "move", problem: "problem", request: "request", loads: "loads", command: "command", datastream: "state" };

/** What happened, in words; moves of one plan for one reason are one entry. `events`: the newest first. */
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

const placeOf = (task, instance) => (task ? `${task}${instance ? ` on ${instance}` : ""}` : "nobody");

const milliseconds = (value) => duration(value);
const seconds = (value) => duration(value * 1000);
/** Words of the figures of a cause, and how each is shown. */
const EVIDENCE = {
  late_partitions: ["late partitions", count], explained_partitions: ["of them with this cause", count], waiting_records: ["waiting records", count],
  wait_ms: ["at the source", milliseconds], fetch_ms: ["being received", milliseconds], queue_ms: ["in the worker", milliseconds], produce_ms: ["until acknowledged", milliseconds],
  quota: ["held back by the quota of", String], throttled_share: ["held back for", (value) => `${percent(value)} of the time`], broker: ["broker", String],
  worker_cores: ["worker process busy", (value) => `${percent(value)} of a core`], worker_waited_share: ["worker process waited for a core", (value) => `${percent(value)} of the time`],
  fetch_unanswered_seconds: ["source has not answered for", seconds], produce_unanswered_seconds: ["destination has not answered for", seconds],
  task: ["task", String], task_bytes_per_second: ["the task copies", rate], partition: ["heaviest partition", String], partition_bytes_per_second: ["it copies", rate],
};

/** The figures of a cause in words and units; of a figure that is unknown here, its name and value. */
export const evidenceOf = (evidence) => Object.entries(evidence).map(([name, value]) => {
  const [word, shown] = EVIDENCE[name] || [name.replaceAll("_", " "), (one) => (typeof one === "number" ? count(one) : one)];
  return `${word}: ${shown(value)}`;
});

/** Incidents, the newest first. */
export const incidentsOf = (incidents) =>
  incidents.map((one) => ({
    id: one.id, name: one.datastream, isOpen: one.closed_ms === null, openedMs: one.opened_ms, closedMs: one.closed_ms,
    cause: one.cause || (one.matters.length ? one.matters.join(", ") : "no cause was found"),
    worst: isKnown(one.worst_ms) ? `worst ${duration(one.worst_ms)}` : "",
    lasted: one.closed_ms === null ? "" : duration(one.closed_ms - one.opened_ms),
    spent: one.costs.filter((cost) => isKnown(cost.spent)).map((cost) => `${percent(cost.spent)} of the budget of ${cost.objective}`)
      .concat((one.deliveries ?? []).map((cost) => `${count(Math.round(cost.late))} of ${many(cost.records, "record")} later than ${cost.objective}`)),
    evidence: evidenceOf(one.evidence),
    timeline: one.timeline.map((entry, at) => ({ key: at, ms: entry.time_ms, phase: entry.phase, text: entry.text })),
    leftOut: one.left_out,
  }));

/** What the ledger says of partitions from which something is missing, or that wait for somebody. */
export function gapsOf(answer) {
  const classes = (offsets) => Object.entries(offsets).filter(([, number]) => number).map(([name, number]) => `${count(number)} ${name.replaceAll("_", " ")}`);
  return {
    line: `${many(answer.looked_at, "partition")} looked at, ${answer.partitions.length} to look at more closely` +
      (answer.unknown.length ? `; of ${answer.unknown.length} nothing is stored yet` : ""),
    rows: answer.partitions.map((one) => ({
      name: `${one.topic}-${one.partition}`,
      missing: classes(one.offsets).join(", ") || "nothing",
      events: one.events.slice(-3),
      waits: [one.refused, one.not_copied && `${one.not_copied.state}: ${one.not_copied.reason}`,
              one.destination_is_current === false && "the destination topic was deleted"].filter(Boolean).join("; "),
    })),
  };
}
