// Sizing advice of the leader: required tasks and instances, now and ahead, with reasons. Pure.

import { count, isKnown, many, percent } from "../lib/format.js";

const HOUR_MS = 3600000;

/** "3", or "3 to 5" if the high end of the forecast requires more. */
export const intervalOf = (need) =>
  need.most_tasks > need.tasks ? `${count(need.tasks)} to ${count(need.most_tasks)}` : count(need.tasks);

/** The state in the heading: { tone, sign, word }. */
export function standingOf(advice) {
  const { tasks, required_tasks: required, instances, required_instances: bearing } = advice;
  if (!isKnown(required)) return { tone: "note", sign: "?", word: "unknown" };
  if (required > tasks || (isKnown(bearing) && bearing > instances)) return { tone: "bad", sign: "▲", word: "scale up" };
  if (advice.rises) return { tone: "warn", sign: "▲", word: "scale up soon" };
  if (isKnown(advice.lower_since_ms)) return { tone: "idle", sign: "▼", word: "scale down possible" };
  return { tone: "good", sign: "✓", word: "right-sized" };
}

/** The required number, or its lower bound if some requirements are unknown. */
const needOf = (known, atLeast) => (isKnown(known) || !atLeast ? count(known) : `at least ${count(atLeast)}`);

/** Key figures of the whole service. */
export function factsOf(advice) {
  const peak = advice.peak;
  const bearing = peak && isKnown(advice.peak_instances) ? `on ${many(advice.peak_instances, "instance")}` : "";
  return [
    { name: "Required tasks", text: needOf(advice.required_tasks, advice.tasks_at_least), note: isKnown(advice.tasks) ? `${count(advice.tasks)} now` : "" },
    { name: "Required instances", text: needOf(advice.required_instances, advice.instances_at_least), note: isKnown(advice.instances) ? `${count(advice.instances)} now` : "" },
    { name: "Forecast peak", text: peak ? `${intervalOf(peak)} ${intervalOf(peak) === "1" ? "task" : "tasks"}` : "unknown", note: bearing },
    { name: "Scale-down target", text: isKnown(advice.lower_tasks) ? many(advice.lower_tasks, "task") : "none" },
  ];
}

/** Relevant times: [{ name, ms }]. */
export const momentsOf = (advice) =>
  [
    { name: "scale-down possible since", ms: advice.lower_since_ms },
    { name: "scale-up required", ms: advice.rises ? advice.rises.hour_ms : null },
    { name: "peak", ms: advice.peak ? advice.peak.hour_ms : null },
    { name: "computed", ms: advice.computed_ms },
  ].filter((one) => isKnown(one.ms));

/** Savings or shortage over the forecast period; "" without a forecast. */
export function savingsOf(advice) {
  const sums = advice.sums;
  if (!sums) return "";
  const parts = [differenceOf(sums.task_hours, sums.needed_task_hours, "task-hour")];
  if (isKnown(sums.needed_instance_hours)) parts.push(differenceOf(sums.instance_hours, sums.needed_instance_hours, "instance-hour"));
  return `Over the next ${many(sums.hours, "hour")}, compared with the current size: ${parts.join("; ")}.`;
}

/** Requirements of the last day and week, compared with the current size and with that of their busiest hour. */
export const pastOf = (advice) => [pastNeedOf(advice.past_day, "day", 24), pastNeedOf(advice.past_week, "week", 168)];

function pastNeedOf(past, span, hours) {
  if (!past) return `The tasks required in the last ${span} are unknown.`;
  const known = past.hours < hours ? ` (${count(past.hours)} of ${hours} hours have data)` : "";
  const { task_hours: there, needed_task_hours: needed } = past;
  const saved = needed < there ? ` Scaling every hour would have saved ${many(there - needed, "task-hour")} (${percent((there - needed) / there)}).` : "";
  return `The load of the last ${span}${known} required at least ${many(needed, "task-hour")}. The current number of tasks would use ${count(there)}, and the number required in the busiest hour would use ${many(past.peak_task_hours, "task-hour")}.${saved}`;
}

function differenceOf(there, needed, word) {
  if (needed > there) return `${many(needed - there, word)} missing (${count(needed)} required, ${count(there)} available)`;
  const saved = there - needed;
  return saved ? `autoscaling would save ${count(saved)} of ${many(there, word)} (${percent(saved / there)})` : there === 1 ? `the one ${word} is required` : `all ${many(there, word)} are required`;
}

/** Rows of the datastream groups, largest shortage first. */
export const groupsOf = (advice) =>
  advice.groups
    .map((one) => ({
      name: one.group, tasks: count(one.tasks), now: count(one.now), why: one.why,
      lacks: Math.max(0, (one.now ?? 0) - one.tasks),
      next: one.coming.length ? intervalOf(one.coming[0]) : "unknown",
      most: one.coming.length ? intervalOf(one.coming.reduce((peak, hour) => (hour.most_tasks > peak.most_tasks ? hour : peak))) : "unknown",
      grade: gradeOf(one),
    }))
    .sort((a, b) => b.lacks - a.lacks || a.name.localeCompare(b.name));

function gradeOf(one) {
  if (!one.tried || !isKnown(one.covered)) return "no forecast to check yet";
  const off = isKnown(one.error) ? `; median error ${percent(one.error)}` : "";
  return `upper bound not exceeded in ${percent(one.covered)} of ${many(one.tried, "forecast")}${off}`;
}

/** Columns of a chart of all groups together; empty unless every group has a forecast. */
export function forecastOf(advice) {
  const nothing = { times: [], tasks: [], most: [], there: [] };
  if (!advice.groups.length || advice.groups.some((one) => !one.coming.length)) return nothing;
  const hours = [...new Set(advice.groups.flatMap((one) => one.coming.map((need) => need.hour_ms)))].sort((a, b) => a - b);
  const sums = hours.map((hour) => advice.groups.map((one) => one.coming.find((need) => need.hour_ms === hour)));
  const sum = (needs, key) => (needs.every(Boolean) ? needs.reduce((total, need) => total + need[key], 0) : null);
  const end = hours.at(-1) + HOUR_MS;
  return {
    times: [...hours, end].map((ms) => ms / 1000),
    tasks: held(sums.map((needs) => sum(needs, "tasks"))),
    most: held(sums.map((needs) => sum(needs, "most_tasks"))),
    there: [...hours, end].map(() => advice.tasks ?? null),
  };
}

/** Repeat the last value, so that the last hour is drawn until its end. */
const held = (values) => [...values, values.at(-1)];
