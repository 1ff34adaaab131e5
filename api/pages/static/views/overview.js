// Content of the first page, from the response of /v1/overview. Pure.

import { count, duration, isKnown, many, percent, rate, timeOfDay, UNKNOWN } from "../lib/format.js";

const STUCK = ["STALL", "STOP", "REWIND", "TRUNCATED", "RECREATED", "SOURCE_AWAY", "DESTINATION_AWAY"];
const BEHIND = ["WARN", "CATCHING_UP", "PAUSED_BY_ITSELF", "THROTTLED", "WAITING_FOR_TRANSACTION"];
const HALTED = ["PAUSED", "STOPPING", "STOPPED", "DELETING"];
const WORDS = { STALL: "stalled", STOP: "not copied", REWIND: "rewound", WARN: "falling behind",
  CATCHING_UP: "catching up", PAUSED_BY_ITSELF: "paused automatically", THROTTLED: "throttled by a quota",
  SOURCE_AWAY: "source unreachable", DESTINATION_AWAY: "destination unreachable", TRUNCATED: "truncated at the source",
  RECREATED: "topic recreated at the source", WAITING_FOR_TRANSACTION: "waiting for an open transaction",
  PAUSED_BY_USER: "paused by an operator" };
export const RANKS = { loss: 0, aside: 1, late: 2, stuck: 3, unplaced: 4, hot: 5, incident: 6, behind: 7, unknown: 8, halted: 9, well: 10 };

/** Label of a movement state. */
export const wordOf = (state) => WORDS[state] || state.toLowerCase().replaceAll("_", " ");

const sumOf = (one, states) => states.reduce((sum, state) => sum + (one.states[state] || 0), 0);

/** Return the most urgent state of a datastream: { rank, tone, sign, word, why }. */
export function standing(one) {
  const found = (rank, tone, sign, word, why) => ({ rank: RANKS[rank], tone, sign, word, why });
  if (isKnown(one.loses_data_in_seconds))
    return found("loss", "bad", "✖", "will lose records", `in ${duration(one.loses_data_in_seconds * 1000)}: the source deletes them before they are copied`);
  if (one.is_set_aside) return found("aside", "bad", "✖", one.status === "DAMAGED" ? "damaged" : "problem", one.problem);
  if (HALTED.includes(one.status)) return found("halted", "idle", "❚❚", one.status.toLowerCase(), one.halt);
  const isCaughtUp = !one.states.CATCHING_UP || one.incident;  // else it makes progress, which is no breach
  const isLate = isCaughtUp && isKnown(one.objective_ms) && isKnown(one.counted_ms) && one.counted_ms > one.objective_ms;
  const closingMs = one.incident?.closing_ms ?? null;
  if (isLate || (one.incident?.is_late && closingMs === null))
    return found("late", "bad", "▲", "late", one.incident?.cause || one.worst || "the oldest waiting record exceeds the objective");
  if (sumOf(one, STUCK)) return found("stuck", "bad", "■", statesOf(one, STUCK), one.worst);
  if (one.unplaced) return found("unplaced", "warn", "▲", `${many(one.unplaced, "partition")} without a task`, "");
  if (one.offending) return found("hot", "warn", "▲", `${many(one.offending, "partition")} too heavy for a task`, "according to the latest planning run");
  if (one.incident && closingMs !== null)
    return found("incident", "warn", "✓", "recovered", `the incident (${one.incident.cause || "unknown cause"}) closes at ${timeOfDay(closingMs)}`);
  if (one.incident) return found("incident", "warn", "▲", "incident", one.incident.cause);
  if (sumOf(one, BEHIND)) return found("behind", "warn", "▲", statesOf(one, BEHIND), one.worst);
  if (one.status === "INITIALIZING") return found("unknown", "note", "…", "initializing", "");
  if (!isKnown(one.oldest_ms)) return found("unknown", "note", "?", "unknown", one.worst || "the lag of some partitions is unknown");
  return found("well", "good", "✓", "healthy", one.problem || one.worst);
}

function statesOf(one, states) {
  const [state] = states.filter((name) => one.states[name]).sort((a, b) => one.states[b] - one.states[a]);
  return `${wordOf(state)}: ${many(one.states[state], "partition")}`;
}

const byUrgency = (one, other) =>
  one.standing.rank - other.standing.rank || (other.oldestMs ?? -1) - (one.oldestMs ?? -1) || one.name.localeCompare(other.name);

/** Rows, worst first. `wanted`: { text, tone, owner }, each "" for all. */
export function rowsOf(answer, wanted = {}) {
  const text = (wanted.text || "").toLowerCase();
  return answer.datastreams
    .map((one) => rowOf(one))
    .filter((row) => !text || row.name.toLowerCase().includes(text) || row.owner.toLowerCase().includes(text))
    .filter((row) => !wanted.tone || row.standing.tone === wanted.tone)
    .filter((row) => !wanted.owner || row.owner === wanted.owner)
    .sort(byUrgency);
}

function rowOf(one) {
  return {
    name: one.name,
    owner: one.owner,
    way: `${one.source} → ${one.destination}`,
    standing: standing(one),
    objective: isKnown(one.objective_ms) ? `p${one.percentile} ≤ ${duration(one.objective_ms)}` : "none",
    budget: isKnown(one.objective_ms) || isKnown(one.budget_left) ? percent(one.budget_left) : "none",
    budgetAsOfMs: one.budget_as_of_ms,
    oldest: isKnown(one.oldest_ms) || !isKnown(one.at_least_ms) ? duration(one.oldest_ms) : `at least ${duration(one.at_least_ms)}`,
    oldestMs: one.oldest_ms ?? one.at_least_ms,
    waiting: isKnown(one.lag_records) ? many(one.lag_records, "record") : "",
    rate: rate(one.bytes_per_second),
    tasks: count(one.tasks),
    needed: isKnown(one.required_tasks) && one.required_tasks !== one.tasks ? `${count(one.required_tasks)} required` : "",
    plannedMs: one.planned_ms,
    partitions: count(one.partitions),
    hot: one.hot || 0,
  };
}

const TONES = [["bad", "critical"], ["warn", "warning"], ["note", "unknown"], ["idle", "halted"], ["good", "healthy"]];

/** Summary above the table. */
export function summaryOf(answer) {
  const rows = answer.datastreams.map((one) => standing(one).tone);
  const rates = answer.datastreams.map((one) => one.bytes_per_second);
  const isWhole = rates.every(isKnown);
  const total = rates.filter(isKnown).reduce((sum, one) => sum + one, 0);
  const hot = answer.datastreams.map((one) => one.hot);
  return {
    tones: TONES.map(([tone, word]) => ({ tone, word, number: rows.filter((one) => one === tone).length })),
    facts: [
      { name: "Datastreams", text: count(rows.length) },
      { name: "Partitions", text: count(answer.datastreams.reduce((sum, one) => sum + one.partitions, 0)) },
      { name: "Throughput", text: rates.length && !isWhole && !total ? UNKNOWN : `${isWhole ? "" : "at least "}${rate(total)}` },
      { name: "Hot partitions", text: hot.some(isKnown) || !rows.length ? count(hot.reduce((sum, one) => sum + (one || 0), 0)) : UNKNOWN,
        note: "at least half of the usable capacity of a task" },
      { name: "Instances", text: count(answer.instances), note: answer.silent_instances.length ? `${answer.silent_instances.length} not responding` : "" },
      { name: "Plan", text: `epoch ${answer.epoch}` },
    ],
    owners: [...new Set(answer.datastreams.map((one) => one.owner))].filter(Boolean).sort(),
    isIncomplete: !answer.is_complete,
    silent: answer.silent_instances,
    lacksIncidents: !answer.knows_incidents,
  };
}
