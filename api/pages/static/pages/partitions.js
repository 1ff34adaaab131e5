// Cards with the definition, topics, partitions and pauses of a datastream.

import { html, useRef, useState } from "../vendor/htm/standalone.module.js";
import { part } from "../lib/api.js";
import { many } from "../lib/format.js";
import { Ago, Card, Facts, Sign, Troubles, Value, to, useAnswers, usePage } from "../lib/parts.js";
import { COLUMNS, choicesOf, definitionOf, lagPath, pausedOf, placeOf, rowsOf, sortedBy, topicsOf } from "../views/partitions.js";

const FIRST = { text: "", state: "", sort: "lag_ms", isDescending: true, page: 0 };

export function Partitions({ name }) {
  const [wanted, setWanted] = useState(FIRST);
  const before = useRef(null);
  const { values, errors } = useAnswers({ lag: lagPath(name, wanted) });
  before.current = values.lag?.value || before.current;
  const lag = before.current;
  const narrow = (change) => setWanted({ ...wanted, ...change, page: 0 });
  return html`<${Card} id="partitions" title="Partitions" note="click a heading to sort">
    <${Troubles} errors=${errors} />
    <div class="filters">
      <label>Search <input type="search" value=${wanted.text} onInput=${(event) => narrow({ text: event.target.value })} placeholder="topic-partition" /></label>
      <label>State <select value=${wanted.state} onChange=${(event) => narrow({ state: event.target.value })}>
        <option value="">all</option>${lag && choicesOf(lag).map((one) => html`<option key=${one.state} value=${one.state}>${one.word}</option>`)}</select></label>
    </div>
    ${lag && html`<${Table} lag=${lag} wanted=${wanted} setWanted=${setWanted} />`}
    ${lag && lag.silent_instances.length > 0 && html`<p class="small quiet">Instances that do not respond: ${lag.silent_instances.join(", ")}.</p>`}<//>`;
}

function Table({ lag, wanted, setWanted }) {
  const place = placeOf(lag, wanted.page);
  const moveBy = (pages) => setWanted({ ...wanted, page: wanted.page + pages });
  return html`<div class="scroll"><table class="stack"><thead><tr>${COLUMNS.map(([column, heading, isNumber]) => html`
      <th key=${column} scope="col" class=${isNumber ? "num" : ""} aria-sort=${wanted.sort === column ? (wanted.isDescending ? "descending" : "ascending") : null}>
        <button type="button" class="plain" onClick=${() => setWanted(sortedBy(wanted, column))}>${heading}${wanted.sort === column ? (wanted.isDescending ? " ▼" : " ▲") : ""}</button></th>`)}</tr></thead>
    <tbody>${rowsOf(lag).map((row) => html`<${Row} key=${row.name} row=${row} />`)}</tbody></table></div>
    <p class="acts"><button type="button" disabled=${place.isFirst} onClick=${() => moveBy(-1)}>Previous</button>
      <span role="status" class="small">${place.text}</span><button type="button" disabled=${place.isLast} onClick=${() => moveBy(1)}>Next</button></p>`;
}

const Row = ({ row }) => html`<tr><td class="name">${row.name}</td>
  <td data-label="State"><span><${Sign} ...${row.standing} />${row.why && html`<span class="sub">${row.why}</span>`}</span></td>
  <td class="num" data-label="End offset"><${Value} text=${row.sourceEnd} /></td><td class="num" data-label="Next offset"><${Value} text=${row.position} /></td>
  <td class="num" data-label="Lag (records)"><${Value} text=${row.lag} /></td><td class="num" data-label="Oldest waiting"><${Value} text=${row.oldest} /></td>
  <td class="num" data-label="Throughput"><${Value} text=${row.rate} /></td><td data-label="Task">${row.task}</td><td data-label="Instance">${row.instance}</td></tr>`;

export function Definition({ name, definition }) {
  const { values, errors } = useAnswers({ lag: `/v1/datastreams/${part(name)}/lag?limit=1` }, 30000);
  const topics = values.lag ? topicsOf(values.lag.value, definition) : [];
  const [shown, more] = usePage(topics, 20);
  return html`<${Card} id="definition" title="Definition" note=${html`<a href=${to(`edit/${encodeURIComponent(name)}`)}>Edit</a>`}>
    <${Troubles} errors=${errors} /><${Facts} of=${definitionOf(definition)} />
    <details><summary>${values.lag ? many(topics.length, "matching topic") : "Matching topics"}</summary>
      <div class="scroll"><table class="stack"><thead><tr><th scope="col">Topic</th><th scope="col" class="num">Partitions</th><th scope="col">Destination topic</th></tr></thead>
      <tbody>${shown.map((one) => html`<tr key=${one.topic}><td class="name">${one.topic}</td><td class="num" data-label="Partitions">${one.partitions}</td><td data-label="Destination topic">${one.there}</td></tr>`)}</tbody></table></div>${more}</details><//>`;
}

export function Paused({ name, definition }) {
  const { values, errors } = useAnswers({ lag: `/v1/datastreams/${part(name)}/lag?state=PAUSED_BY_ITSELF&limit=100` });
  const found = pausedOf(definition, values.lag?.value);
  const [shown, more] = usePage(found, 20);
  return html`<${Troubles} errors=${errors} />
    ${found.length ? html`<ul aria-label="Paused">${shown.map((one) => html`<li key=${one.key}><span class="strong">${one.what}</span>, paused by ${one.by}: ${one.why}
      ${one.sinceMs !== null && html`, <${Ago} ms=${one.sinceMs} />`}${one.untilMs !== null && html`, resumes <${Ago} ms=${one.untilMs} />`}</li>`)}</ul>${more}`
      : html`<p class="quiet">Nothing is paused.</p>`}`;
}
