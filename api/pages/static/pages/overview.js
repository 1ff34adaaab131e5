// First page: all datastreams, worst first.

import { html, useState } from "../vendor/htm/standalone.module.js";
import { Ago, Facts, Sign, Troubles, Value, to, useAnswers, usePage } from "../lib/parts.js";
import { rowsOf, summaryOf } from "../views/overview.js";

export const title = () => "Overview";

export default function Overview({ query }) {
  const { values, errors, isFirst } = useAnswers({ all: "/v1/overview" });
  const [text, setText] = useState("");
  const [tone, setTone] = useState("");
  const [owner, setOwner] = useState(query.owner || "");
  const answer = values.all?.value;
  return html`
    <div class="head"><h1>Datastreams</h1><a class="button" href=${to("edit")}>New datastream</a>${answer && html`<${Tones} of=${summaryOf(answer).tones} chosen=${tone} choose=${setTone} />`}</div>
    <${Troubles} errors=${errors} />
    ${isFirst && html`<p class="quiet loading">Loading …</p>`}
    ${answer && html`<${Whole} answer=${answer} asOfMs=${values.all.asOfMs} />
      <section class="card" aria-label="Datastreams, worst first">
        <div class="filters">
          <label>Search <input type="search" value=${text} onInput=${(event) => setText(event.target.value)} placeholder="name or owner" /></label>
          <label>Owner <select value=${owner} onChange=${(event) => setOwner(event.target.value)}>
            <option value="">all</option>${summaryOf(answer).owners.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}
          </select></label>
        </div>
        <${Table} key=${`${text}|${tone}|${owner}`} rows=${rowsOf(answer, { text, tone, owner })} isEmpty=${!answer.datastreams.length} />
      </section>`}`;
}

const SIGNS = { bad: "✖", warn: "▲", note: "?", idle: "❚❚", good: "✓" };

const Tones = ({ of, chosen, choose }) => html`<div class="acts" role="group" aria-label="Filter by state">
  ${of.filter((one) => one.number || one.tone === chosen).map((one) => html`
    <button type="button" key=${one.tone} aria-pressed=${chosen === one.tone} onClick=${() => choose(chosen === one.tone ? "" : one.tone)}>
      <${Sign} tone=${one.tone} sign=${SIGNS[one.tone]} word=${`${one.number} ${one.word}`} /></button>`)}</div>`;

function Whole({ answer, asOfMs }) {
  const found = summaryOf(answer);
  return html`
    ${asOfMs && html`<div class="alert warn"><p>The coordination store does not respond. The page shows the definitions and the plan that the instance read <${Ago} ms=${asOfMs} />.</p></div>`}
    ${found.isIncomplete && html`<div class="alert warn"><p>${found.silent.length ? `Instances that do not respond: ${found.silent.join(", ")}. ` : "The leader does not respond. "}
      The actual states may be worse than shown.</p></div>`}
    ${found.lacksIncidents && html`<div class="alert note"><p>Incidents are not shown because the incidents of the monitor cannot be read.</p></div>`}
    <section class="card" aria-label="Service"><${Facts} of=${found.facts} /></section>`;
}

function Table({ rows, isEmpty }) {
  const [shown, more] = usePage(rows);
  if (isEmpty) return html`<p>No datastreams yet. To create one, use <a href=${to("edit")}>New datastream</a> or <code>headrace datastream create</code>.</p>`;
  if (!rows.length) return html`<p>No matching datastreams.</p>`;
  return html`<div class="scroll"><table class="stack">
    <thead><tr><th scope="col">Datastream</th><th scope="col">State</th><th scope="col" class="num">Oldest waiting</th><th scope="col">Objective</th>
      <th scope="col" class="num">Error budget</th><th scope="col" class="num">Throughput</th><th scope="col" class="num">Tasks</th><th scope="col" class="num">Partitions</th><th scope="col">Owner</th></tr></thead>
    <tbody>${shown.map((row) => html`<${Row} key=${row.name} row=${row} />`)}</tbody></table></div>${more}`;
}

const Row = ({ row }) => html`<tr>
  <td class="name"><a href=${to(`datastreams/${encodeURIComponent(row.name)}`)}>${row.name}</a><span class="sub">${row.way}</span></td>
  <td data-label="State"><span><${Sign} ...${row.standing} /><span class="sub">${row.standing.why}</span>
    ${row.hot > 0 && html`<span class="sub"><a href=${to("offending", { datastream: row.name })}>Show ${row.hot === 1 ? "hot partition" : "hot partitions"}</a></span>`}</span></td>
  <td class="num" data-label="Oldest waiting"><span><${Value} text=${row.oldest} /><span class="sub">${row.waiting}</span></span></td>
  <td data-label="Objective">${row.objective}</td>
  <td class="num" data-label="Error budget"><span><${Value} text=${row.budget} />${row.budgetAsOfMs && html`<span class="sub"><${Ago} ms=${row.budgetAsOfMs} /></span>`}</span></td>
  <td class="num" data-label="Throughput"><${Value} text=${row.rate} /></td>
  <td class="num" data-label="Tasks"><span>${row.tasks}<span class="sub">${row.needed}${row.needed && row.plannedMs && html`, planned <${Ago} ms=${row.plannedMs} />`}</span></span></td>
  <td class="num" data-label="Partitions">${row.partitions}</td>
  <td data-label="Owner">${row.owner || html`<span class="unknown">none</span>`}</td>
</tr>`;
