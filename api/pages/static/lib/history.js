// What this tab has seen of a datastream, for services whose history cannot be read.

const MOST = 720;
const KEY = "headrace.history.";

/** One sample of an overview's row; numbers that are not known stay null. */
export function sampleOf(one, atMs) {
  const stage = one.latency || {};
  return { at: Math.round(atMs / 1000), oldest: one.oldest_ms ?? one.at_least_ms, rate: one.bytes_per_second,
           source: stage.source ?? null, fetch: stage.fetch ?? null, queue: stage.queue ?? null, produce: stage.produce ?? null };
}

/** With one more, none twice, the oldest forgotten. Where nobody looked for a while there is a hole. */
export function withSample(samples, sample) {
  const last = samples.at(-1);
  if (last && sample.at <= last.at) return samples;
  const hole = last && sample.at - last.at > 60 ? [{ at: last.at + 1 }] : [];
  return [...samples, ...hole, sample].slice(-MOST);
}

export function remembered(name) {
  try {
    return JSON.parse(sessionStorage.getItem(KEY + name) || "[]");
  } catch {
    return [];
  }
}

/** Keeps it as far as the browser has room; what has none is forgotten. */
export function remember(name, samples) {
  try {
    sessionStorage.setItem(KEY + name, JSON.stringify(samples));
  } catch {
    sessionStorage.removeItem(KEY + name);
  }
}

/** Columns for a chart: seconds, and each name's values. */
export function columns(samples, names) {
  return { times: samples.map((one) => one.at), values: names.map((name) => samples.map((one) => one[name] ?? null)) };
}
