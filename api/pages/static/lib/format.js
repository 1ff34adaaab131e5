// Numbers with units, and times. Pure: the current time is passed in. `mirror/wording.py` has the same functions for
// commands and sentences of the service; `tests/data/units.json` is the test data of both.

const UNKNOWN = "unknown";
const STEPS = ["", "k", "M", "G", "T", "P"];

function scaled(value, unit) {
  let step = 0;
  while (Math.abs(value) >= 999.5 && step < STEPS.length - 1) {
    value /= 1000;
    step += 1;
  }
  return `${step ? digits(value) : value.toFixed(0)} ${STEPS[step]}${unit}`;
}

const digits = (value) => (Math.abs(value) < 9.95 ? value.toFixed(1).replace(/\.0$/, "") : value.toFixed(0));

const isKnown = (value) => value !== null && value !== undefined && Number.isFinite(value);

/** Bytes per second, in powers of 1000. */
export const rate = (value) => (isKnown(value) ? scaled(value, "B/s") : UNKNOWN);

/** Bytes, in powers of 1000. */
export const size = (value) => (isKnown(value) ? scaled(value, "B") : UNKNOWN);

/** A count without a unit. */
export const count = (value) => (isKnown(value) ? value.toLocaleString("en") : UNKNOWN);

/** A fraction as a percentage. */
export function percent(value) {
  if (!isKnown(value)) return UNKNOWN;
  const found = value * 100;
  return `${found !== 0 && Math.abs(found) < 9.95 ? found.toFixed(1) : found.toFixed(0)} %`;
}

/** Milliseconds with a suitable unit. */
export function duration(ms) {
  if (!isKnown(ms)) return UNKNOWN;
  if (ms < 999.5) return `${Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 99.5) return `${digits(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

const UNITS = [[1, "ms"], [1000, "s"], [60_000, "min"], [3_600_000, "h"], [86_400_000, "d"]];

/** Tick increments of an axis that starts at 0, for which every label is exact. */
export const DURATION_STEPS = UNITS.flatMap(([unit, name]) => {
  const parts = { ms: [1, 2, 5, 10, 20, 50, 100, 200, 500], h: [1, 2, 3, 6, 12], d: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000] };
  return (parts[name] || [1, 2, 5, 10, 15, 30]).map((part) => part * unit);
});
export const COUNT_STEPS = Array.from({ length: 16 }, (_, power) => [1, 2, 5].map((part) => part * 10 ** power)).flat();

/** Labels of ticks in bytes per second, with increments from `COUNT_STEPS`. */
export const rateTicks = (ticks) => ticks.map((value) => {
  let step = 0;
  while (value >= 1000 && step < STEPS.length - 1) {
    value /= 1000;
    step += 1;
  }
  return `${Number(value.toPrecision(12))} ${STEPS[step]}B/s`;
});

/** Labels of ticks at multiples of `step` ms, in the largest unit in which all are whole numbers. */
export function durationTicks(ticks, step) {
  const [unit, name] = UNITS.findLast(([unit]) => step % unit === 0);
  return ticks.map((ms) => `${count(ms / unit)} ${name}`);
}

/** Labels of ticks that are counts. */
export const countTicks = (ticks) => ticks.map(count);

/** A relative time: "5 min ago" or "in 5 min". */
export function ago(ms, nowMs) {
  if (!isKnown(ms)) return UNKNOWN;
  const gone = nowMs - ms;
  if (Math.abs(gone) < 1000) return "now";
  return gone > 0 ? `${duration(gone)} ago` : `in ${duration(-gone)}`;
}

/** An absolute time in the browser's time zone. */
export function moment(ms) {
  if (!isKnown(ms)) return UNKNOWN;
  return new Date(ms).toLocaleString("en-GB", {
    year: "numeric", month: "short", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit",
    timeZoneName: "short",
  });
}

/** "21:54 UTC", in the browser's time zone. */
export function timeOfDay(ms) {
  return new Date(ms).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", timeZoneName: "short" });
}

/** "1 task", "2 tasks", "tasks unknown". `words`: form for any number other than 1, if appending an s is wrong. */
export function many(value, word, words = `${word}s`) {
  if (!isKnown(value)) return `${words} ${UNKNOWN}`;
  return `${count(value)} ${value === 1 ? word : words}`;
}

export { UNKNOWN, isKnown };
