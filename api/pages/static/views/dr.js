// Pairs of clusters, whose roles `headrace dr` exchanges. Pure.

import { UNKNOWN, count, duration } from "../lib/format.js";

const TONES = { steady: ["good", "●"], "failed-over": ["warn", "▲"], degraded: ["bad", "■"], unknown: ["bad", "?"] };

/** State of a pair as the properties of a sign. */
export function stateOf(pair) {
  const [tone, sign] = TONES[pair.state] || ["warn", "…"];
  return { tone, sign, word: pair.state };
}

/** Operation in progress: { text, atMs, failure }, null if there is none. */
export function operationOf(pair) {
  const one = pair.operation;
  return one && { text: `${one.origin} to ${one.target} by ${one.operator}`, atMs: one.begun_ms, failure: one.failure };
}

/** Steps of the plan; `isCurrent`: the operation in progress is at this step. */
export const planOf = (pair) => pair.plan.map((one) => ({ ...one, isCurrent: pair.operation?.step === one.step }));

/** Plans to show: { title, steps, command }; without a command if the operation is in progress. */
export function plansOf(pair) {
  if (pair.operation) return [{ title: "Remaining steps", steps: planOf(pair) }];
  const next = pair.fork ? { title: "Steps of the failback", command: "headrace dr failback" } : { title: "Steps of a switch-over", command: "headrace dr switchover" };
  const lost = { title: "Steps of a failover, if the active cluster is lost", steps: pair.failover, command: "headrace dr failover" };
  return [{ ...next, steps: planOf(pair) }, lost].filter((plan) => plan.steps.length > 0);
}

/** Topics with records that a failure would lose. */
export const topicsOf = (pair) => pair.topics.filter((one) => one.records > 0 || one.unknown > 0).map((one) => ({
  topic: one.topic, records: !one.unknown ? count(one.records) : one.records ? `at least ${count(one.records)}` : UNKNOWN,
  age: one.unknown ? UNKNOWN : duration(one.seconds * 1000),
}));

/** Past operations, the last one first. */
export const historyOf = (pair) => pair.history.map((one) => ({
  key: one.identity, text: `${one.origin} to ${one.target}`, operator: one.operator, atMs: one.begun_ms,
  closed: duration(one.closed_ms), outcome: one.failure ? `undone: ${one.failure}` : "completed", notes: one.notes,
})).reverse();
