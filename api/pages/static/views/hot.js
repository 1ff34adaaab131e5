// Partitions by load: those too heavy for a task, and recommendations. Pure.

import { count, isKnown, many, percent, rate } from "../lib/format.js";

const SKEWED = 2; // multiple of the mean of the topic's other partitions from which the key is the cause, as in the query `offending` of `headrace pinot query`

const BASES = { slope: "from log growth", partial: "partly from log growth", held: "last measured value", seasonal: "same hour of earlier days",
  mean: "mean of the topic", mirror: "rate of copying", configured: "configured value" };

/** Return the datastream to show first: the one with most hot partitions, else with the fullest task. */
export function firstToLookAt(overview) {
  const urgency = (one) => [one.hot || 0, one.fullest_bytes_per_second || 0];
  const [first] = [...overview.datastreams].sort((a, b) => {
    const [mine, theirs] = [urgency(a), urgency(b)];
    return theirs[0] - mine[0] || theirs[1] - mine[1] || a.name.localeCompare(b.name);
  });
  return first ? first.name : "";
}

function topicsOf(partitions) {
  const topics = new Map();
  for (const one of partitions) {
    if (!isKnown(one.bytes_per_second)) continue;
    const sum = topics.get(one.topic) || { load: 0, partitions: 0 };
    topics.set(one.topic, { load: sum.load + one.bytes_per_second, partitions: sum.partitions + 1 });
  }
  return topics;
}

/** Return at most `most` names of hot partitions, heaviest first. */
export function hotNames(rows, most) {
  return rows.filter((row) => row.standing.tone === "bad" || row.standing.tone === "warn").slice(0, most).map((row) => row.name);
}

/** Return since when each hot partition is hot: { ms, isLonger, heavyMs, means }. `history`: of /loads/history. */
export function sinceOf(history) {
  const found = new Map();
  for (const one of history?.series || []) {
    if (one.partition === null || !isKnown(one.hot_since_ms)) continue;
    found.set(one.partition, {
      ms: one.hot_since_ms, isLonger: one.is_longer,
      heavyMs: one.too_heavy_since_ms,
      means: one.mean_bytes_per_second.map((mean) => (isKnown(mean) ? mean : null)),
    });
  }
  return found;
}

/** Hourly loads as heights between 0 and 1, for a sparkline; null for an hour without data. */
export function heightsOf(means) {
  const most = Math.max(...means.filter(isKnown), 0);
  return means.map((mean) => (isKnown(mean) ? (most ? mean / most : 0) : null));
}

/** Description of the sparkline. */
export function heightsText(means) {
  const known = means.filter(isKnown);
  if (!known.length) return "";
  return `hourly load between ${rate(Math.min(...known))} and ${rate(Math.max(...known))}, ${rate(known.at(-1))} in the latest of ${many(known.length, "hour")}`;
}

/** Rows, heaviest first. `events`: events of the datastream, for the moves of each partition. */
export function rowsOf(loads, usable, events) {
  const topics = topicsOf(loads.partitions);
  const moves = new Map();
  for (const one of events) {
    if (!one.topic) continue;
    const name = `${one.topic}-${one.kafka_partition}`;
    moves.set(name, [...(moves.get(name) || []), one]);
  }
  return loads.partitions.map((one, at) => rowOf(one, at + 1, usable, topics.get(one.topic), loads.left_out > 0, moves));
}

function rowOf(one, rank, usable, topic, isPart, moves) {
  const name = `${one.topic}-${one.partition}`;
  const load = one.bytes_per_second;
  const share = isKnown(load) && isKnown(usable) ? load / usable : null;
  const others = topic && topic.partitions > 1 && isKnown(load) ? (topic.load - load) / (topic.partitions - 1) : null;
  const skew = isKnown(others) && !isPart ? skewOf(load, others) : null;
  return {
    rank, name, task: one.task || "no task", instance: one.instance || "no instance",
    load: `${one.is_lower_bound ? "at least " : ""}${rate(load)}`, share, shareText: percent(share),
    standing: standingOf(one, share), measuredMs: one.measured_at_ms, source: BASES[one.rate_source] || one.rate_source || "",
    skew: skew === null ? "unknown" : skew === Infinity ? "entire topic" : `${skew.toFixed(1)} × mean of others`,
    topicShare: topic?.load && !isPart && isKnown(load) ? `${percent(load / topic.load)} of the load of ${many(topic.partitions, "partition")}` : "",
    advice: adviceOf(one, skew),
    history: (moves.get(name) || []).map((event) => ({ key: event.event_key, ms: event.time_ms, text: event.sentence,
      load: isKnown(event.bytes_per_second) ? rate(event.bytes_per_second) : "" })),
  };
}

function skewOf(load, others) {
  if (others > 0) return load / others;
  return load > 0 ? Infinity : 1;
}

function standingOf(one, share) {
  if (isKnown(share) ? share > 1 : one.is_offending) return { tone: "bad", sign: "✖", word: "too heavy for a task" };
  if (one.is_hot) return { tone: "warn", sign: "▲", word: "hot" };
  if (!isKnown(one.bytes_per_second)) return { tone: "note", sign: "?", word: "unknown" };
  return { tone: "idle", sign: "·", word: "fits" };
}

function adviceOf(one, skew) {
  if (!one.is_hot) return "";
  if (skew === null) return "Check the topic: the loads of its other partitions are unknown";
  return skew >= SKEWED
    ? `Fix the partitioning key: this partition carries far more than the others of ${one.topic}`
    : `Add partitions to ${one.topic}: its load is evenly distributed, but too high for its number of partitions`;
}

/** Summary above the table. */
export function sentenceOf(rows, loads, usable) {
  if (loads.no_answer) return `Loads are unknown because the leader does not respond: ${loads.no_answer}.`;
  if (!loads.provider) return "No loads measured yet.";
  const hot = rows.filter((row) => row.standing.tone === "bad" || row.standing.tone === "warn");
  if (!isKnown(usable)) return "Placement ignores load, so no partition is too heavy for a task.";
  if (!hot.length) return `No partition is hot: each carries less than half of the usable capacity of a task (${rate(usable)}).`;
  const [first] = hot;
  return `${first.name} is the hottest: ${first.load}, ${first.shareText} of the usable capacity of a task (${rate(usable)}).` +
    (hot.length > 1 ? ` ${count(hot.length)} partitions are hot: each carries at least half of that capacity.` : "");
}
