// The form of a datastream: what it has, and the call that it makes. Pure.

import { count, many, rate } from "../lib/format.js";

const GUARANTEES = ["at-least-once", "effectively-once", "exactly-once"];
/** Each field: { key, label, hint, path, kind, isFixed }; a fixed one is chosen at the creation alone. */
export const FIELDS = [
  { key: "name", label: "Name", path: ["name"], isFixed: true, isNeeded: true },
  { key: "owner", label: "Owner", path: ["owner"], isNeeded: true },
  { key: "source", label: "Source cluster", path: ["source", "cluster"], isFixed: true, isNeeded: true },
  { key: "topics", label: "Topics", hint: "a regular expression over whole names, such as orders|users", path: ["source", "topics"], isNeeded: true },
  { key: "exclude", label: "Except", hint: "a regular expression; empty: none", path: ["source", "exclude"] },
  { key: "destination", label: "Destination cluster", path: ["destination", "cluster"], isFixed: true, isNeeded: true },
  { key: "rename", label: "Name there", hint: "* stands for the name at the source", path: ["destination", "name"], isFixed: true },
  { key: "guarantee", label: "Guarantee", path: ["guarantee"], kind: GUARANTEES },
  { key: "start", label: "Start", hint: "earliest, latest, or a moment such as 2026-01-31T08:00:00Z", path: ["start"], isFixed: true },
  { key: "objective", label: "99 % arrive within, in ms", hint: "empty: no objective", path: ["objective", "milliseconds"], kind: "number" },
  { key: "min_tasks", label: "At least this number of tasks", path: ["limits", "min_tasks"], kind: "number" },
  { key: "max_tasks", label: "At most this number of tasks", hint: "empty: no limit", path: ["limits", "max_tasks"], kind: "number" },
  { key: "quota", label: "Quota, in bytes a second", hint: "empty: none", path: ["quota", "bytes_per_second"], kind: "number" },
];
const DEFAULTS = { rename: "*", guarantee: "effectively-once", start: "earliest", min_tasks: "1" };

const at = (document, path) => path.reduce((found, name) => found?.[name], document);

/** The texts of the fields. `definition`: null for one that is created. */
export const valuesOf = (definition) =>
  Object.fromEntries(FIELDS.map(({ key, path }) => [key, definition ? String(at(definition, path) ?? "") : DEFAULTS[key] || ""]));

/** Labels of needed fields that are empty. */
export const missingOf = (values) => FIELDS.filter((field) => field.isNeeded && !values[field.key].trim()).map((field) => field.label);

function documentOf(fields, values) {
  const found = {};
  for (const { key, path, kind } of fields) {
    const text = values[key].trim();
    const value = kind === "number" ? (text ? Number(text) : null) : text;
    if (path[0] === "objective") {
      found.objective = value === null ? null : { ...found.objective, milliseconds: value };
      continue;
    }
    const parent = path.slice(0, -1).reduce((place, name) => (place[name] ??= {}), found);
    parent[path.at(-1)] = value;
  }
  return found;
}

/** The call that creates it, or changes what differs from `definition`. `isReal`: not as a dry run. */
export function callOf(values, definition, etag, isReal) {
  const query = isReal ? `?reason=${encodeURIComponent("asked for on the web page")}` : "?dry_run=true";
  if (!definition) {
    const wanted = FIELDS.filter(({ key, kind }) => !(kind === "number" && !values[key].trim()));
    return { method: "POST", path: `/v1/datastreams${query}`, body: documentOf(wanted, values) };
  }
  const before = valuesOf(definition);
  const changed = FIELDS.filter(({ key, isFixed }) => !isFixed && values[key].trim() !== before[key]);
  return { method: "PATCH", path: `/v1/datastreams/${encodeURIComponent(definition.name)}${query}`, type: "application/merge-patch+json",
           headers: { "If-Match": etag || "*" }, body: documentOf(changed, values) };
}

/** Whether anything would be changed. */
export const isChange = (call) => Object.keys(call.body).length > 0;

/** What stops, in a sentence, before it is confirmed; "" where nothing does. `answer`: of the dry run. */
export function stopsOf(answer) {
  if (!answer.stops.length) return "";
  const topics = new Map();
  for (const one of answer.stops) {
    const topic = one.partition.slice(0, one.partition.lastIndexOf("-"));
    topics.set(topic, (topics.get(topic) || 0) + 1);
  }
  const loads = answer.stops.map((one) => one.bytes_per_second).filter((one) => one !== null);
  const named = [...topics].slice(0, 10).map(([topic, number]) => `${topic} (${count(number)})`).join(", ");
  const carried = loads.length ? `, which carry ${loads.length < answer.stops.length ? "at least " : ""}${rate(loads.reduce((sum, one) => sum + one, 0))}` : "";
  return `${many(answer.stops.length, "partition stops", "partitions stop")}: ${named}${topics.size > 10 ? " and others" : ""}${carried}.`;
}
