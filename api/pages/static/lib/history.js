// Samples of a datastream collected by this tab, for services without a readable history.

const MOST = 720;
const KEY = "headrace.history.";

/** One sample of a row of the overview; unknown numbers stay null. */
export function sampleOf(one, atMs) {
  const stage = one.latency || {};
  return { at: Math.round(atMs / 1000), oldest: one.oldest_ms ?? one.at_least_ms, rate: one.bytes_per_second, lag: one.lag_records,
           source: stage.source ?? null, fetch: stage.fetch ?? null, queue: stage.queue ?? null, produce: stage.produce ?? null };
}

/** Append a sample, drop duplicates and the oldest ones, and leave a gap if the page was hidden for a while. */
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

/** Store the samples if the browser has room, else drop them. */
export function remember(name, samples) {
  try {
    sessionStorage.setItem(KEY + name, JSON.stringify(samples));
  } catch {
    sessionStorage.removeItem(KEY + name);
  }
}

/** Columns of a chart: times in seconds, and the values of each name. */
export function columns(samples, names) {
  return { times: samples.map((one) => one.at), values: names.map((name) => samples.map((one) => one[name] ?? null)) };
}
