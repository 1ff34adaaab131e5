// Partitions and definition of a datastream. Pure.

import { count, duration, isKnown, many, rate, size, UNKNOWN } from "../lib/format.js";
import { wordOf } from "./overview.js";

export const PAGE_SIZE = 50;
/** Columns: [sort key of the service, heading, whether it is numeric]. */
export const COLUMNS = [
  ["name", "Partition", false], ["state", "State", false], ["source_end", "End offset", true], ["position", "Next offset", true],
  ["lag_records", "Lag (records)", true], ["lag_ms", "Oldest waiting", true], ["bytes_per_second", "Throughput", true], ["task", "Task", false], ["instance", "Instance", false],
];
const GOOD = ["OK", "copying"];
const CALM = ["CATCHING_UP", "PAUSED_BY_USER", "paused", "waiting", "starting", "stopping"];

/** Return the path of the request for partitions. `wanted`: { text, state, sort, isDescending, page }. */
export function lagPath(name, wanted) {
  const query = new URLSearchParams({ limit: PAGE_SIZE, offset: wanted.page * PAGE_SIZE, sort: wanted.sort, descending: wanted.isDescending });
  if (wanted.text) query.set("text", wanted.text);
  if (wanted.state) query.set("state", wanted.state);
  return `/v1/datastreams/${encodeURIComponent(name)}/lag?${query}`;
}

/** Return the query after a click on a heading: numbers start with the largest, texts with the first. */
export function sortedBy(wanted, column) {
  const isNumber = COLUMNS.find(([name]) => name === column)[2];
  const isDescending = wanted.sort === column ? !wanted.isDescending : isNumber;
  return { ...wanted, sort: column, isDescending, page: 0 };
}

/** Rows of a response of /lag. */
export const rowsOf = (lag) => lag.partitions.map((one) => {
  const state = one.movement ? one.movement.state : one.state;
  return {
    name: `${one.topic}-${one.partition}`, standing: standingOf(state), why: one.reason || one.movement?.reason || windowText(one) || stampedText(one.timestamp_offset_seconds),
    sourceEnd: count(one.source_end), position: count(one.position), lag: count(one.lag_records), oldest: duration(one.lag_ms),
    rate: rate(one.bytes_per_second), task: one.task || "no task", instance: one.instance || "no instance",
  };
});

/** The distant broker that limits the rate, with figures and the setting that allows more connections. */
function windowText({ source_window: source, destination_window: destination }) {
  const window = destination || source;
  if (!window) return "";
  const [side, setting] = destination ? ["destination", "write_connections"] : ["source", "read_connections"];
  return `each connection to broker ${window.broker} of the ${side} carries at most ${size(window.window_bytes)} per round trip (${duration(window.round_trip_ms)}); ` +
    `${count(window.connections)} of ${count(window.allowed_connections)} additional connections in use (setting mirror.copying.${setting})`;
}

function stampedText(offset) {
  return offset ? `record timestamps are ${duration(Math.abs(offset) * 1000)} ${offset > 0 ? "ahead of" : "behind"} the clock of the source` : "";
}

function standingOf(state) {
  if (GOOD.includes(state)) return { tone: "good", sign: "✓", word: state === "OK" ? "up to date" : state };
  if (state === "unknown") return { tone: "note", sign: "?", word: UNKNOWN };
  return CALM.includes(state) ? { tone: "idle", sign: "·", word: wordOf(state) } : { tone: "bad", sign: "▲", word: wordOf(state) };
}

/** States to filter by, with their number of partitions. */
export const choicesOf = (lag) => Object.entries(lag.states).map(([state, number]) => ({ state, word: `${standingOf(state).word} (${count(number)})` }));

/** Position of the page: { text, isFirst, isLast }. */
export function placeOf(lag, page) {
  const first = page * PAGE_SIZE;
  const last = first + lag.partitions.length;
  return {
    text: lag.matching ? `${count(first + 1)}–${count(last)} of ${many(lag.matching, "partition")}` : "no matching partitions",
    isFirst: page === 0, isLast: last >= lag.matching,
  };
}

/** The definition: [{ name, text }]. */
export function definitionOf(definition) {
  const { source, destination, policies } = definition;
  const start = Object.keys(definition.start_positions).length ? `${definition.start}, with explicit offsets for some partitions` : definition.start;
  return [
    { name: "Topics", text: source.topics }, { name: "Excluded topics", text: source.exclude || "none" },
    { name: "Source cluster", text: source.cluster }, { name: "Destination cluster", text: destination.cluster },
    { name: "Destination topic name", text: destination.name === "*" ? "same as the source" : destination.name },
    { name: "Guarantee", text: definition.guarantee }, { name: "Start of new partitions", text: start },
    { name: "On data loss", text: policies.on_loss }, { name: "On rejected records", text: policies.on_rejection },
    { name: "Quota", text: isKnown(definition.quota.bytes_per_second) ? rate(definition.quota.bytes_per_second) : "none" },
  ];
}

/** Matching topics with partition counts and destination names. */
export const topicsOf = (lag, definition) =>
  Object.entries(lag.topics).map(([topic, number]) => ({ topic, partitions: count(number), there: definition.destination.name.replace("*", () => topic) }));

/** List of all pauses: of the datastream, of partitions, and automatic ones. `lag`: response of /lag with state PAUSED_BY_ITSELF. */
export function pausedOf(definition, lag) {
  const { halt } = definition;
  const whole = halt ? [{ key: "whole", what: "entire datastream", by: halt.requested_by || "an operator", why: halt.reason, sinceMs: halt.since_ms, untilMs: halt.until_ms ?? null }] : [];
  const parts = Object.entries(definition.pauses).map(([topic, one]) => ({
    key: topic, what: one.partitions === null ? `${topic}, all partitions` : `${topic}, ${one.partitions.length === 1 ? "partition" : "partitions"} ${one.partitions.join(", ")}`,
    by: one.requested_by || "an operator", why: one.reason, sinceMs: one.since_ms, untilMs: one.until_ms ?? null,
  }));
  const itself = (lag?.partitions || []).map((one) => ({
    key: `${one.topic}-${one.partition}`, what: `${one.topic}-${one.partition}`, by: "Headrace", why: one.reason || one.movement?.reason || "", sinceMs: one.movement?.since_ms ?? null, untilMs: null,
  }));
  return [...whole, ...parts, ...itself].map((one) => ({ ...one, why: one.why || "no reason given" }));
}
