// Page of hot partitions: heaviest first, with their share of a task's capacity and recommendations.

import { html } from "../vendor/htm/standalone.module.js";
import { part } from "../lib/api.js";
import { many } from "../lib/format.js";
import { Ago, Card, Sign, Troubles, Value, to, useAnswers, usePage } from "../lib/parts.js";
import { firstToLookAt, heightsOf, heightsText, hotNames, rowsOf, sentenceOf, sinceOf } from "../views/hot.js";

const HOURS = 48;
const MOST_ASKED = 25;
export const title = () => "Hot partitions";

export default function Hot({ query }) {
  const { values, errors } = useAnswers({ all: "/v1/overview" }, 10000);
  const overview = values.all?.value;
  const name = query.datastream || (overview ? firstToLookAt(overview) : "");
  const choose = (event) => {
    location.hash = to("offending", { datastream: event.target.value });
  };
  return html`
    <div class="head"><h1>Hot partitions</h1>
      ${overview && overview.datastreams.length > 0 && html`<label>Datastream <select value=${name} onChange=${choose}>${overview.datastreams.map((one) =>
        html`<option key=${one.name} value=${one.name}>${one.name}${one.hot ? ` (${one.hot} hot)` : ""}</option>`)}</select></label>`}</div>
    <${Troubles} errors=${errors} />
    ${overview && !name && html`<p>No datastreams yet.</p>`}
    ${overview && name && html`<${Of} key=${name} name=${name} usable=${overview.datastreams.find((one) => one.name === name)?.usable_bytes_per_second} />`}`;
}

function Of({ name, usable }) {
  const path = `/v1/datastreams/${part(name)}`;
  const { values, errors, isFirst } = useAnswers({ loads: `${path}/loads?limit=500`, events: `/v1/events?datastream=${part(name)}&limit=300` });
  const loads = values.loads?.value;
  const rows = loads ? rowsOf(loads, usable, values.events?.value || []) : [];
  const [shown, more] = usePage(rows, 25);
  const hot = hotNames(rows, MOST_ASKED);
  const asked = hot.map((one) => `partition=${encodeURIComponent(one)}`).join("&");
  const past = useAnswers({ history: hot.length ? `${path}/loads/history?hours=${HOURS}&${asked}` : null }, 60000);
  const since = sinceOf(past.values.history?.value);
  return html`<${Troubles} errors=${errors} />
    ${isFirst && html`<p class="quiet loading">Loading …</p>`}
    ${loads && html`<div class="alert note" role="status"><p class="strong">${sentenceOf(rows, loads, usable)}</p></div>
      <${Card} id="table" title=${`Partitions of ${name} by load`} note=${loads.provider ? `arrival rate at the source, measured by ${loads.provider}` : ""}>
        <div class="scroll"><table class="stack"><thead><tr><th scope="col" class="num">#</th><th scope="col">Partition</th><th scope="col">State</th><th scope="col" class="num">Load</th>
          <th scope="col">Task share</th><th scope="col">Topic skew</th><th scope="col">Task</th><th scope="col">Recommendation</th></tr></thead>
          <tbody>${shown.map((row) => html`<${Row} key=${row.name} row=${row} since=${since.get(row.name)} />`)}</tbody></table></div>${more}
        ${past.errors.history && html`<p class="small quiet">The time since which partitions are hot is unknown: ${past.errors.history.message}${past.errors.history.advice && ` (${past.errors.history.advice})`}.</p>`}
        ${loads.left_out > 0 && html`<p class="small quiet">${many(loads.left_out, "partition")} with less load not shown.</p>`}
      <//>
      <p><a href=${to(`plans/${encodeURIComponent(name)}`)}>Preview a plan</a> · <a href=${to(`datastreams/${encodeURIComponent(name)}`)}>Open datastream</a></p>`}`;
}

/** Start time, and hourly loads. */
const Since = ({ of }) => html`<span class="sub">${of.isLonger ? "at least since" : "since"} <${Ago} ms=${of.ms} /></span>
  ${of.means.length > 1 && html`<span class="spark" role="img" aria-label=${heightsText(of.means)} title=${heightsText(of.means)}>${heightsOf(of.means).map((height, at) =>
    html`<i key=${at} class=${height === null ? "unknown" : ""} style=${{ height: `${height === null ? 8 : Math.max(4, height * 100)}%` }}></i>`)}</span>`}`;

const Row = ({ row, since }) => html`<tr>
  <td class="num" data-label="Rank">${row.rank}</td>
  <td class="name">${row.name}</td>
  <td data-label="State"><span><${Sign} ...${row.standing} />${since && html`<${Since} of=${since} />`}</span></td>
  <td class="num" data-label="Load"><span><${Value} text=${row.load} /><span class="sub">${row.source}${row.measuredMs && html`, <${Ago} ms=${row.measuredMs} />`}</span></span></td>
  <td data-label="Task share"><span>${row.share !== null && html`<span class=${`bar ${row.share > 1 ? "over" : ""}`} role="img" aria-label=${row.shareText}><i style=${{ width: `${Math.min(100, row.share * 100)}%` }}></i></span>`} <${Value} text=${row.shareText} /></span></td>
  <td data-label="Topic skew"><span><${Value} text=${row.skew} /><span class="sub">${row.topicShare}</span></span></td>
  <td data-label="Task"><span>${row.task}<span class="sub">${row.instance}</span></span></td>
  <td data-label="Recommendation"><span>${row.advice}
    ${row.history.length > 0 && html`<details><summary>${many(row.history.length, "move")}</summary>
      <ol class="line">${row.history.map((one) => html`<li key=${one.key}><span class="when"><${Ago} ms=${one.ms} /></span>${one.text} ${one.load && `(${one.load})`}</li>`)}</ol></details>`}</span></td>
</tr>`;
