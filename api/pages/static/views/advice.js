// What the leader advises: how many tasks and instances, for how long, and why. Pure.

import { count, isKnown, many, percent } from "../lib/format.js";

const HOUR_MS = 3600000;

/** "3", or "3 to 5" where the high end of a forecast needs more. */
export const intervalOf = (need) =>
  need.most_tasks > need.tasks ? `${count(need.tasks)} to ${count(need.most_tasks)}` : count(need.tasks);

/** The line at the top: { tone, sign, word }. */
export function standingOf(advice) {
  const { tasks, required_tasks: required, instances, required_instances: bearing } = advice;
  if (!isKnown(required)) return { tone: "note", sign: "?", word: "not known" };
  if (required > tasks || (isKnown(bearing) && bearing > instances)) return { tone: "bad", sign: "▲", word: "more is needed" };
  if (advice.rises) return { tone: "warn", sign: "▲", word: "more will be needed" };
  if (isKnown(advice.lower_since_ms)) return { tone: "idle", sign: "▼", word: "less would do" };
  return { tone: "good", sign: "✓", word: "it fits" };
}

/** The number needed, or the least number where some needs are unknown. */
const needOf = (known, atLeast) => (isKnown(known) || !atLeast ? count(known) : `at least ${count(atLeast)}`);

/** Numbers of the whole service. A moment is `ms`, with `note` in front of it. */
export function factsOf(advice) {
  const peak = advice.peak;
  const bearing = peak && isKnown(advice.peak_instances) ? `on ${many(advice.peak_instances, "instance")}` : "";
  return [
    { name: "Tasks needed", text: needOf(advice.required_tasks, advice.tasks_at_least), note: isKnown(advice.tasks) ? `${count(advice.tasks)} now` : "" },
    { name: "Instances needed", text: needOf(advice.required_instances, advice.instances_at_least), note: isKnown(advice.instances) ? `${count(advice.instances)} now` : "" },
    { name: "At the peak", text: peak ? `${intervalOf(peak)} ${intervalOf(peak) === "1" ? "task" : "tasks"}` : "unknown", note: bearing },
    { name: "Would do", text: isKnown(advice.lower_tasks) ? many(advice.lower_tasks, "task") : "nothing less" },
  ];
}

/** Moments that matter: [{ name, ms }]. */
export const momentsOf = (advice) =>
  [
    { name: "less would do since", ms: advice.lower_since_ms },
    { name: "more is needed from", ms: advice.rises ? advice.rises.hour_ms : null },
    { name: "the peak is", ms: advice.peak ? advice.peak.hour_ms : null },
    { name: "computed", ms: advice.computed_ms },
  ].filter((one) => isKnown(one.ms));

/** What would be saved, or is missing, over the forecast; "" without one. */
export function savingsOf(advice) {
  const sums = advice.sums;
  if (!sums) return "";
  const parts = [differenceOf(sums.task_hours, sums.needed_task_hours, "task-hour")];
  if (isKnown(sums.needed_instance_hours)) parts.push(differenceOf(sums.instance_hours, sums.needed_instance_hours, "instance-hour"));
  return `In the next ${many(sums.hours, "hour")}, against what is there now: ${parts.join("; ")}.`;
}

/** What the last day and the last week needed, beside what is there and what their busiest hour needed. */
export const pastOf = (advice) => [pastNeedOf(advice.past_day, "day", 24), pastNeedOf(advice.past_week, "week", 168)];

function pastNeedOf(past, span, hours) {
  if (!past) return `What the last ${span} needed is not known.`;
  const known = past.hours < hours ? ` (${many(past.hours, `hour of ${hours} is`, `hours of ${hours} are`)} known)` : "";
  const { task_hours: there, needed_task_hours: needed } = past;
  const saved = needed < there ? `; sizing by the hour would save ${count(there - needed)} (${percent((there - needed) / there)})` : "";
  return `The last ${span}${known} needed ${many(needed, "task-hour")} at the least; what is there now takes ${count(there)}, the number of its busiest hour ${count(past.peak_task_hours)}${saved}.`;
}

function differenceOf(there, needed, word) {
  if (needed > there) return `${many(needed - there, `${word} is`, `${word}s are`)} missing (${count(needed)} needed, ${count(there)} there)`;
  const saved = there - needed;
  return saved ? `growing and shrinking would save ${many(saved, word)} of ${count(there)} (${percent(saved / there)})` : there === 1 ? `the one ${word} is needed` : `all ${many(there, word)} are needed`;
}

/** Of each group of datastreams, that which lacks most first. */
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
  if (!one.tried || !isKnown(one.covered)) return "no such forecast has come true yet";
  const off = isKnown(one.error) ? `, off by ${percent(one.error)} in the median` : "";
  return `${percent(one.covered)} of ${many(one.tried, "forecast")} covered what came${off}`;
}

/** Columns for a chart of all groups together; none unless every group has a forecast of the same hours. */
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

/** The last hour lasts until its end. */
const held = (values) => [...values, values.at(-1)];
