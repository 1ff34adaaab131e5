// Live instances and their health. Pure.

import { UNKNOWN, isKnown, many, size } from "../lib/format.js";

/** Rows of the instances in order of arrival. */
export const rowsOf = (instances) => instances.map((one) => ({
  name: one.name, host: one.host, address: one.rest_address, processId: one.process_id, weight: one.weight,
  standing: standingOf(one),
  epoch: one.health ? `epoch ${one.health.epoch}` : "unknown",
  dataPlane: one.health ? one.health.data_plane || "not ready" : "unknown",
  usage: usageOf(one.health),
  isLeading: one.health?.is_leading === true,
  unwell: one.health ? partsOf(one.health, false) : [],
  well: one.health ? partsOf(one.health, true) : [],
  reason: one.reason,
}));

/** "2 processes, 650 MB resident, 1.2 cores busy"; "unknown" without data. */
export function usageOf(health) {
  if (!isKnown(health?.memory_bytes)) return UNKNOWN;
  const cores = isKnown(health.cpu_cores) ? `, ${many(Number(health.cpu_cores.toFixed(1)), "core")} busy` : "";
  return `${many(health.processes, "process", "processes")}, ${size(health.memory_bytes)} resident${cores}`;
}

function standingOf(one) {
  if (one.state !== "answered") return { tone: "bad", sign: "✖", word: one.state };
  if (one.is_leaving) return { tone: "idle", sign: "→", word: "leaving" };
  if (!one.health?.is_well) return { tone: "warn", sign: "▲", word: "unhealthy" };
  return { tone: "good", sign: "✓", word: "healthy" };
}

const partsOf = (health, isWell) =>
  Object.entries(health.parts).filter(([, part]) => part.is_well === isWell).map(([name, part]) => ({ name: name.replaceAll("_", " "), sentence: part.sentence }));

/** Return a warning if instances do not respond, or run different plans. */
export function sentenceOf(instances) {
  const epochs = new Set(instances.filter((one) => one.health).map((one) => one.health.epoch));
  const silent = instances.filter((one) => one.state !== "answered").map((one) => one.name);
  if (silent.length) return `${silent.join(", ")} ${silent.length === 1 ? "does" : "do"} not respond.`;
  return epochs.size > 1 ? "Not all instances run the same plan yet." : "";
}
