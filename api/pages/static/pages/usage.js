// Page of usage and transfer cost by owner, topic and day.

import { html, useMemo } from "../vendor/htm/standalone.module.js";
import { Lines, RATE } from "../lib/chart.js";
import { many } from "../lib/format.js";
import { Card, Facts, Troubles, Value, to, useAnswers, usePage } from "../lib/parts.js";
import { factsOf, ownersOf, ratesOf, topicsOf } from "../views/usage.js";

const PERIODS = [1, 7, 30, 90];
const INKS = ["--bar-strong", "--over", "--note", "--bad", "--quiet"];
export const title = () => "Usage";

export default function Usage({ query }) {
  const days = PERIODS.includes(Number(query.days)) ? Number(query.days) : 7;
  const { values, errors, isFirst } = useAnswers({ usage: `/v1/usage?days=${days}` }, 60000);
  const usage = values.usage?.value;
  const choose = (event) => {
    location.hash = to("usage", { days: event.target.value });
  };
  return html`
    <div class="head"><h1>Usage</h1><label>Period <select value=${days} onChange=${choose}>${PERIODS.map((one) =>
      html`<option key=${one} value=${one}>${many(one, "day")}</option>`)}</select></label></div>
    <${Troubles} errors=${errors} />
    ${isFirst && html`<p class="quiet loading">Loading …</p>`}
    ${usage && usage.owners.length === 0 && html`<p>No records were copied in this period.</p>`}
    ${usage && usage.owners.length > 0 && html`<section class="card" aria-label="Key figures"><${Facts} of=${factsOf(usage)} /></section>
      <${Days} usage=${usage} /><${Owners} usage=${usage} /><${Topics} usage=${usage} />`}`;
}

function Days({ usage }) {
  const drawn = useMemo(() => ratesOf(usage), [usage]);
  const series = useMemo(() => drawn.series.map((one, at) => ({ ...one, ink: INKS[at], width: 2 })), [drawn]);
  return html`<${Card} id="days" title="Mean rate by day" note=${`days in UTC, measured by ${usage.measured_by === "pinot" ? "Pinot" : "the metrics topic"}`}>
    <${Lines} times=${drawn.times} series=${series} measure=${RATE} text="Mean rate of the largest owners on each day" /><//>`;
}

function Owners({ usage }) {
  const [shown, more] = usePage(ownersOf(usage));
  return html`<${Card} id="owners" title="Owners">
    <div class="scroll"><table class="stack"><thead><tr><th scope="col">Owner</th><th scope="col" class="num">Copied</th><th scope="col" class="num">Records</th>
      <th scope="col" class="num">CPU time</th><th scope="col" class="num">Transfer cost</th><th scope="col" class="num">Quota</th><th scope="col">Quota used</th></tr></thead>
      <tbody>${shown.map((row) => html`<tr key=${row.name}><td class="name">${row.name}</td>
        <td class="num" data-label="Copied">${row.size}</td><td class="num" data-label="Records">${row.records}</td>
        <td class="num" data-label="CPU time">${row.cpu}</td><td class="num" data-label="Transfer cost"><${Value} text=${row.cost} /></td>
        <td class="num" data-label="Quota">${row.quota}</td>
        <td data-label="Quota used"><span>${row.shareText && html`<span class=${`bar ${row.share > 1 ? "over" : ""}`} role="img" aria-label=${row.shareText}><i style=${{ width: `${Math.min(100, row.share * 100)}%` }}></i></span> ${row.shareText}`}</span></td></tr>`)}</tbody></table></div>${more}<//>`;
}

function Topics({ usage }) {
  const [shown, more] = usePage(topicsOf(usage), 25);
  return html`<${Card} id="topics" title="Topics" note=${usage.left_out > 0 ? `${many(usage.left_out, "entry", "entries")} not included` : ""}>
    <div class="scroll"><table class="stack"><thead><tr><th scope="col">Topic</th><th scope="col">Datastream</th><th scope="col">Owner</th>
      <th scope="col" class="num">Copied</th><th scope="col" class="num">Records</th><th scope="col" class="num">Transfer cost</th></tr></thead>
      <tbody>${shown.map((row) => html`<tr key=${row.key}><td class="name">${row.topic}</td><td data-label="Datastream">${row.datastream}</td>
        <td data-label="Owner">${row.owner}</td><td class="num" data-label="Copied">${row.size}</td><td class="num" data-label="Records">${row.records}</td>
        <td class="num" data-label="Transfer cost"><${Value} text=${row.cost} /></td></tr>`)}</tbody></table></div>${more}<//>`;
}
