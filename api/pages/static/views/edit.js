// Form of a datastream: its fields, and the resulting API call. Pure.

import { count, many, rate } from "../lib/format.js";

const FROM_SETTINGS = "empty: value from the service settings";
const GUARANTEES = ["at-least-once", "effectively-once", "exactly-once"];
/** Each field: { key, label, hint, path, kind, isFixed }; a fixed field cannot change after the creation. An empty
 *  field of a kind other than text is null. */
export const FIELDS = [
  { key: "name", label: "Name", path: ["name"], isFixed: true, isNeeded: true },
  { key: "owner", label: "Owner", path: ["owner"], isNeeded: true },
  { key: "source", label: "Source cluster", path: ["source", "cluster"], isFixed: true, isNeeded: true },
  { key: "topics", label: "Topics", hint: "regular expression that matches whole names, such as orders|users", path: ["source", "topics"], isNeeded: true },
  { key: "exclude", label: "Excluded topics", hint: "regular expression; empty: none", path: ["source", "exclude"] },
  { key: "destination", label: "Destination cluster", path: ["destination", "cluster"], isFixed: true, isNeeded: true },
  { key: "rename", label: "Destination topic name", hint: "* is replaced by the source topic name", path: ["destination", "name"], isFixed: true },
  { key: "guarantee", label: "Guarantee", path: ["guarantee"], kind: GUARANTEES },
  { key: "start", label: "Start", hint: "where to start copying: earliest, latest, or a time such as 2026-01-31T08:00:00Z", path: ["start"], isFixed: true },
  { key: "positions", label: "Start positions", hint: "one per line: topic:partition=offset; the topic * means every topic", path: ["start_positions"], kind: "positions", isFixed: true },
  { key: "objective", label: "Latency objective (p99), in ms", hint: "empty: no objective", path: ["objective", "milliseconds"], kind: "number" },
  { key: "objectives", label: "Objectives with an error budget", hint: "one per line, such as: p99 within 2 s over 60 s, 99.5 % over 30 d", path: ["metadata", "headrace-objectives"], kind: "objectives" },
  { key: "min_tasks", label: "Minimum number of tasks", path: ["limits", "min_tasks"], kind: "number" },
  { key: "max_tasks", label: "Maximum number of tasks", hint: "empty: no limit", path: ["limits", "max_tasks"], kind: "number" },
  { key: "quota", label: "Quota, in bytes per second", hint: "empty: no quota", path: ["quota", "bytes_per_second"], kind: "number" },
  { key: "capacity", label: "Capacity of a task, in bytes per second", hint: `a number, or the word learned to measure it; ${FROM_SETTINGS}`, path: ["placement", "capacity_bytes_per_second"], kind: "capacity" },
  { key: "messages", label: "Capacity of a task, in records per second", hint: FROM_SETTINGS, path: ["placement", "capacity_messages_per_second"], kind: "number" },
  { key: "utilisation", label: "Usable share of the capacity, in percent", hint: FROM_SETTINGS, path: ["placement", "utilisation_percent"], kind: "number" },
  { key: "provider", label: "Load provider", hint: `self, pinot, none, or the name of a plug-in; ${FROM_SETTINGS}`, path: ["placement", "load_provider"], kind: "choice" },
  { key: "strategy", label: "Placement strategy", hint: `assigner, simple, auto, or the name of a plug-in; ${FROM_SETTINGS}`, path: ["placement", "strategy"], kind: "choice" },
];
const DEFAULTS = { rename: "*", guarantee: "effectively-once", start: "earliest", min_tasks: "1" };

const at = (document, path) => path.reduce((found, name) => found?.[name], document);

const positionsText = (positions) => Object.entries(positions || {})
  .flatMap(([topic, offsets]) => Object.entries(offsets).map(([number, offset]) => `${topic}:${number}=${offset}`)).join("\n");

const lengthOf = (ms) => (ms % 1000 ? `${ms} ms` : `${ms / 1000} s`);

const objectivesText = (objectives) => (objectives || []).map((one) =>
  `p${one.percentile} within ${lengthOf(one.milliseconds)} over ${one.window_seconds} s, ${one.target_percent} % over ${one.period_days} d`).join("\n");

function textOf({ kind, path }, definition) {
  if (kind === "objectives") return objectivesText(definition.objectives);
  return kind === "positions" ? positionsText(at(definition, path)) : String(at(definition, path) ?? "");
}

/** Return the texts of the fields. `definition`: null for a new datastream. */
export const valuesOf = (definition) =>
  Object.fromEntries(FIELDS.map((field) => [field.key, definition ? textOf(field, definition) : DEFAULTS[field.key] || ""]));

/** Return the labels of required fields that are empty. */
export const missingOf = (values) => FIELDS.filter((field) => field.isNeeded && !values[field.key].trim()).map((field) => field.label);

const POSITION = /^(\S+):(\d+)\s*=\s*(\d+)$/;
const linesOf = (text) => text.split("\n").map((line) => line.trim()).filter(Boolean);

/** Return the lines that are not valid start positions. */
export const unreadableOf = (values) =>
  linesOf(values.positions).filter((line) => !Number.isSafeInteger(Number(line.match(POSITION)?.[3] ?? NaN)));

function positionsOf(text) {
  const found = Object.create(null);  // any text is the name of a topic here
  for (const [, topic, number, offset] of linesOf(text).map((line) => line.match(POSITION)).filter(Boolean))
    (found[topic] ??= Object.create(null))[number] = Number(offset);
  return found;
}

function valueOf(kind, text) {
  if (kind === "positions") return positionsOf(text);
  if (!text) return !kind || Array.isArray(kind) ? "" : null;
  return kind === "number" || (kind === "capacity" && /^\d+$/.test(text)) ? Number(text) : text;
}

function documentOf(fields, values) {
  const found = {};
  for (const { key, path, kind } of fields) {
    const value = valueOf(kind, values[key].trim());
    if (path[0] === "objective") {
      found.objective = value === null ? null : { ...found.objective, milliseconds: value };
      continue;
    }
    const parent = path.slice(0, -1).reduce((place, name) => (place[name] ??= {}), found);
    parent[path.at(-1)] = value;
  }
  return found;
}

/** Return the call that creates the datastream, or changes the fields that differ from `definition`. `isReal`: no dry run. */
export function callOf(values, definition, etag, isReal) {
  const query = isReal ? `?reason=${encodeURIComponent("requested on the web page")}` : "?dry_run=true";
  if (!definition) {
    const wanted = FIELDS.filter(({ key, kind }) => !kind || Array.isArray(kind) || values[key].trim());
    return { method: "POST", path: `/v1/datastreams${query}`, body: documentOf(wanted, values) };
  }
  const before = valuesOf(definition);
  const changed = FIELDS.filter(({ key, isFixed }) => !isFixed && values[key].trim() !== before[key]);
  return { method: "PATCH", path: `/v1/datastreams/${encodeURIComponent(definition.name)}${query}`, type: "application/merge-patch+json",
           headers: { "If-Match": etag || "*" }, body: documentOf(changed, values) };
}

/** Return whether the call changes anything. */
export const isChange = (call) => Object.keys(call.body).length > 0;

/** Return a sentence about partitions that stop, for the confirmation; "" if there are none. `answer`: of the dry run. */
export function stopsOf(answer) {
  if (!answer.stops.length) return "";
  const topics = new Map();
  for (const one of answer.stops) {
    const topic = one.partition.slice(0, one.partition.lastIndexOf("-"));
    topics.set(topic, (topics.get(topic) || 0) + 1);
  }
  const loads = answer.stops.map((one) => one.bytes_per_second).filter((one) => one !== null);
  const named = [...topics].slice(0, 10).map(([topic, number]) => `${topic} (${count(number)})`).join(", ");
  const carried = loads.length ? `, total load ${loads.length < answer.stops.length ? "at least " : ""}${rate(loads.reduce((sum, one) => sum + one, 0))}` : "";
  return `${many(answer.stops.length, "partition is", "partitions are")} no longer copied: ${named}${topics.size > 10 ? " and others" : ""}${carried}.`;
}
