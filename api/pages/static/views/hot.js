// Partitions by load: which are too heavy for a task, and what helps. Pure.

import { count, isKnown, many, percent, rate } from "../lib/format.js";

const SKEWED = 2; // as the query `offending` of `headrace pinot query` has it: from this multiple of the topic's other partitions on the key is at fault

/** The datastream to begin with: the one with most hot partitions, else that with the fullest task. */
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

/** Names of partitions that are hot, the heaviest first, at most `most`. */
export function hotNames(rows, most) {
  return rows.filter((row) => row.standing.tone === "bad" || row.standing.tone === "warn").slice(0, most).map((row) => row.name);
}

/** By partition, since when it is hot: { ms, isLonger, text } or null. `history`: of /loads/history. */
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

/** Loads by hour as heights between 0 and 1, for a small picture; null where nothing is known of an hour. */
export function heightsOf(means) {
  const most = Math.max(...means.filter(isKnown), 0);
  return means.map((mean) => (isKnown(mean) ? (most ? mean / most : 0) : null));
}

/** The small picture in words. */
export function heightsText(means) {
  const known = means.filter(isKnown);
  if (!known.length) return "";
  return `by hour: between ${rate(Math.min(...known))} and ${rate(Math.max(...known))}, ${rate(known.at(-1))} in the newest of ${many(known.length, "hour")}`;
}

/** Rows, the heaviest first. `events`: those of the datastream, for the history of each partition. */
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
    standing: standingOf(one, share), measuredMs: one.measured_at_ms, source: one.rate_source || "",
    skew: skew === null ? "unknown" : skew === Infinity ? "all of the topic" : `${skew.toFixed(1)} × the others`,
    topicShare: topic?.load && !isPart && isKnown(load) ? `${percent(load / topic.load)} of ${many(topic.partitions, "partition")}` : "",
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
  if (skew === null) return "Look at the topic: its other loads are not known";
  return skew >= SKEWED
    ? `Fix the key: it carries far more than the others of ${one.topic}`
    : `Add partitions to ${one.topic}: its load is even, and too high for their number`;
}

/** The sentence above the table. */
export function sentenceOf(rows, loads, usable) {
  if (loads.no_answer) return `The leader does not answer, so no load is known: ${loads.no_answer}.`;
  if (!loads.provider) return "No load was measured yet.";
  const hot = rows.filter((row) => row.standing.tone === "bad" || row.standing.tone === "warn");
  if (!isKnown(usable)) return "Placement is not by load, so that no partition is too heavy for a task.";
  if (!hot.length) return `No partition is hot: none carries half of the ${rate(usable)} that a task may.`;
  const [first] = hot;
  return `${first.name} is the hottest: ${first.load}, ${first.shareText} of the ${rate(usable)} that a task may carry.` +
    (hot.length > 1 ? ` ${count(hot.length)} partitions are hot: they carry half of that or more.` : "");
}
