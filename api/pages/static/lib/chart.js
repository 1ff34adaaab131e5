// Line charts over time with uPlot, which is loaded when the first chart is drawn.

import { COUNT_STEPS, DURATION_STEPS, UNKNOWN, count, countTicks, duration, durationTicks, isKnown, moment, rate, rateTicks } from "./format.js";
import { html, useEffect, useRef, useState } from "../vendor/htm/standalone.module.js";

let loading = null;

function library() {
  loading ??= new Promise((done, failed) => {
    const style = Object.assign(document.createElement("link"), { rel: "stylesheet", href: "vendor/uplot/uPlot.min.css" });
    const script = Object.assign(document.createElement("script"), { src: "vendor/uplot/uPlot.iife.min.js" });
    script.onload = () => (window.uPlot ? done(window.uPlot) : failed(new Error("cannot start uPlot")));
    script.onerror = () => failed(new Error("cannot load uPlot"));
    document.head.append(style, script);
  });
  return loading;
}

const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const DAY = 86400;

/** Ticks of the time axis by their distance in seconds, as uPlot expects them: label, then the second line under the
 * first tick of a year, month, day, hour, minute and second. */
const TICKS = [
  [365 * DAY, "{YYYY}", null, null, null, null, null, null, 1],
  [28 * DAY, "{YYYY}-{MM}", null, null, null, null, null, null, 1],
  [DAY, "{MM}-{DD}", "\n{YYYY}", null, null, null, null, null, 1],
  [60, "{HH}:{mm}", "\n{YYYY}-{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1],
  [1, ":{ss}", "\n{HH}:{mm}", null, "\n{MM}-{DD} {HH}:{mm}", null, "\n{HH}:{mm}", null, 1],
];
/** Units of an axis: text of a value, increments and labels of its ticks. */
export const DURATION = { text: duration, steps: DURATION_STEPS, labels: durationTicks };
export const COUNT = { text: (value) => count(Math.round(value)), steps: COUNT_STEPS, labels: countTicks };
export const RATE = { text: rate, steps: COUNT_STEPS, labels: rateTicks };
const DASHES = [[], [6, 3], [2, 3], [10, 4, 2, 4], [1, 4]];

/** Return the last index at which a line has a value, or -1. `lines`: [[value]]. */
export const newestOf = (lines) => Math.max(-1, ...lines.map((values) => values.findLastIndex(isKnown)));

/** Return the legend text at an index; without a cursor, of the latest values. */
function atPlace(plot, line, at, say) {
  const place = at ?? newestOf(plot.data.slice(1));
  const value = plot.data[line][place];
  return place < 0 ? "" : isKnown(value) ? say(value) : UNKNOWN;
}

function options(series, measure, width, label) {
  const axis = { stroke: ink("--quiet"), grid: { stroke: ink("--line"), width: 1 }, ticks: { stroke: ink("--line") } };
  return {
    width, height: 220, cursor: { y: false }, scales: { y: { range: (_, __, most) => [0, (most || 1) * 1.1] } },
    axes: [
      { ...axis, values: TICKS },
      { ...axis, size: 74, incrs: measure.steps, values: (_, ticks, __, ___, step) => measure.labels(ticks, step) },
    ],
    series: [
      { label, value: (plot, _, line, at) => atPlace(plot, line, at, (seconds) => moment(seconds * 1000)) },
      ...series.map((one, at) => ({
        label: one.name, stroke: ink(one.ink), width: one.width || 1.6, dash: DASHES[at % DASHES.length],
        value: (plot, _, line, at) => atPlace(plot, line, at, measure.text),
        spanGaps: false,
      })),
    ],
  };
}

/** `times`: seconds; `series`: [{ name, ink, values }]; `measure`: DURATION, COUNT or RATE. `text`: description for screen readers. */
export function Lines({ times, series, measure, text }) {
  const place = useRef(null);
  const [isAway, setAway] = useState(false);
  const chart = useRef(null);
  const names = series.map((one) => one.name).join();
  useEffect(() => {
    let isGone = false;
    let observer = null;
    library().then((Plot) => {
      if (isGone) return;
      const width = () => Math.max(240, place.current.clientWidth);
      chart.current = new Plot(options(series, measure, width(), "time"), [times, ...series.map((one) => one.values)], place.current);
      observer = new ResizeObserver(() => chart.current?.setSize({ width: width(), height: 220 }));
      observer.observe(place.current);
    }).catch(() => setAway(true));
    return () => {
      isGone = true;
      observer?.disconnect();
      chart.current?.destroy();
      chart.current = null;
    };
  }, [names]);
  useEffect(() => {
    chart.current?.setData([times, ...series.map((one) => one.values)]);
    chart.current?.setLegend({ idx: chart.current.cursor.idx });
  }, [times, series]);
  if (isAway) return html`<p class="quiet">Cannot draw the chart. ${text}</p>`;
  return html`<div class="chart" ref=${place} role="img" aria-label=${text}></div>`;
}
