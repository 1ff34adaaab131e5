// Form of a datastream: its fields, and the resulting API call. Pure.

import { count, many, rate } from "../lib/format.js";

const GUARANTEES = ["at-least-once", "effectively-once", "exactly-once"];
/** Each field: { key, label, hint, path, kind, isFixed }; a fixed field cannot change after the creation. */
export const FIELDS = [
  { key: "name", label: "Name", path: ["name"], isFixed: true, isNeeded: true },
  { key: "owner", label: "Owner", path: ["owner"], isNeeded: true },
  { key: "source", label: "Source cluster", path: ["source", "cluster"], isFixed: true, isNeeded: true },
  { key: "topics", label: "Topics", hint: "regular expression that matches whole names, such as orders|users", path: ["source", "topics"], isNeeded: true },
  { key: "exclude", label: "Excluded topics", hint: "regular expression; empty: none", path: ["source", "exclude"] },
  { key: "destination", label: "Destination cluster", path: ["destination", "cluster"], isFixed: true, isNeeded: true },
  { key: "rename", label: "Destination topic name", hint: "* stands for the source topic name", path: ["destination", "name"], isFixed: true },
  { key: "guarantee", label: "Guarantee", path: ["guarantee"], kind: GUARANTEES },
  { key: "start", label: "Start", hint: "earliest, latest, or a time such as 2026-01-31T08:00:00Z", path: ["start"], isFixed: true },
  { key: "objective", label: "Latency objective (p99), in ms", hint: "empty: no objective", path: ["objective", "milliseconds"], kind: "number" },
  { key: "min_tasks", label: "Minimum number of tasks", path: ["limits", "min_tasks"], kind: "number" },
  { key: "max_tasks", label: "Maximum number of tasks", hint: "empty: no limit", path: ["limits", "max_tasks"], kind: "number" },
  { key: "quota", label: "Quota, in bytes per second", hint: "empty: no quota", path: ["quota", "bytes_per_second"], kind: "number" },
];
const DEFAULTS = { rename: "*", guarantee: "effectively-once", start: "earliest", min_tasks: "1" };

const at = (document, path) => path.reduce((found, name) => found?.[name], document);

/** Return the texts of the fields. `definition`: null for a new datastream. */
export const valuesOf = (definition) =>
  Object.fromEntries(FIELDS.map(({ key, path }) => [key, definition ? String(at(definition, path) ?? "") : DEFAULTS[key] || ""]));

/** Return the labels of required fields that are empty. */
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

/** Return the call that creates the datastream, or changes the fields that differ from `definition`. `isReal`: no dry run. */
export function callOf(values, definition, etag, isReal) {
  const query = isReal ? `?reason=${encodeURIComponent("requested on the web page")}` : "?dry_run=true";
  if (!definition) {
    const wanted = FIELDS.filter(({ key, kind }) => !(kind === "number" && !values[key].trim()));
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
  return `${many(answer.stops.length, "partition stops", "partitions stop")}: ${named}${topics.size > 10 ? " and others" : ""}${carried}.`;
}
