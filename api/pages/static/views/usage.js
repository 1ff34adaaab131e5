// Usage and transfer cost by owner and day. Pure.

import { count, duration, isKnown, percent, rate, size } from "../lib/format.js";

const DAY_MS = 86400000;
const MOST_OWNERS = 4;
const NOBODY = "without owner";

const nameOf = (owner) => owner || NOBODY;

/** A cost with its currency. */
export const costOf = (value, currency) => (isKnown(value) ? `${value.toFixed(2)} ${currency}` : "unknown");

/** Key figures of the period. */
export function factsOf(answer) {
  const sum = (name) => answer.owners.reduce((all, one) => all + one[name], 0);
  const isPriced = answer.owners.every((one) => isKnown(one.cost));
  return [
    { name: "Copied", text: size(sum("bytes")) },
    { name: "Records", text: count(sum("records")) },
    { name: "CPU time", text: duration(sum("cpu_seconds") * 1000) },
    { name: "Transfer cost", text: costOf(isPriced ? sum("cost") : null, answer.currency), note: isPriced ? "" : "some prices are not configured" },
  ];
}

/** Owners, largest first. */
export const ownersOf = (answer) => answer.owners.map((one) => ({
  name: nameOf(one.owner), size: size(one.bytes), records: count(one.records), cpu: duration(one.cpu_seconds * 1000),
  cost: costOf(one.cost, answer.currency),
  quota: isKnown(one.quota_bytes_per_second) ? rate(one.quota_bytes_per_second) : "none",
  share: one.quota_share, shareText: isKnown(one.quota_share) ? percent(one.quota_share) : "",
}));

/** Topics, largest first, summed over the days. */
export function topicsOf(answer) {
  const found = new Map();
  for (const line of answer.lines) {
    const key = JSON.stringify([line.owner, line.datastream, line.topic]);
    const known = found.get(key) || { key, owner: nameOf(line.owner), datastream: line.datastream, topic: line.topic, bytes: 0, records: 0, cost: 0 };
    known.bytes += line.bytes;
    known.records += line.records;
    known.cost = isKnown(known.cost) && isKnown(line.cost) ? known.cost + line.cost : null;
    found.set(key, known);
  }
  return [...found.values()].sort((a, b) => b.bytes - a.bytes || a.key.localeCompare(b.key)).map((one) => ({
    ...one, size: size(one.bytes), records: count(one.records), cost: costOf(one.cost, answer.currency),
  }));
}

/** Mean rate of the largest owners on each day: { times, series: [{ name, values }] }. Days without lines are 0. */
export function ratesOf(answer) {
  const first = Math.floor(answer.since_ms / DAY_MS);
  const days = Math.floor(answer.until_ms / DAY_MS) - first + 1;
  const names = answer.owners.slice(0, MOST_OWNERS).map((one) => one.owner);
  const rest = answer.owners.length > MOST_OWNERS ? ["others"] : [];
  const series = [...names.map(nameOf), ...rest].map((name) => ({ name, values: Array(days).fill(0) }));
  for (const line of answer.lines) {
    const at = names.indexOf(line.owner);
    const day = Math.floor(line.day_ms / DAY_MS) - first;
    const seconds = Math.max(1, Math.min(DAY_MS, answer.until_ms - line.day_ms) / 1000);
    series[at < 0 ? names.length : at].values[day] += line.bytes / seconds;
  }
  return { times: Array.from({ length: days }, (_, day) => ((first + day) * DAY_MS) / 1000), series };
}
