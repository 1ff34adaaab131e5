// Page of pairs of clusters: state, loss of a failure now, plan and past operations. It changes nothing.

import { html } from "../vendor/htm/standalone.module.js";
import { Ago, Card, Sign, Troubles, Value, useAnswers, usePage } from "../lib/parts.js";
import { historyOf, operationOf, plansOf, stateOf, topicsOf } from "../views/dr.js";

export const title = () => "Disaster recovery";

export default function Pairs() {
  const { values, errors, isFirst } = useAnswers({ pairs: "/v1/dr" }, 10000);
  const pairs = values.pairs?.value;
  return html`<div class="head"><h1>Disaster recovery</h1></div>
    <${Troubles} errors=${errors} />
    ${isFirst && html`<p class="quiet loading">Loading …</p>`}
    ${pairs && !pairs.length && html`<p>No pair of clusters is configured: add <code>[dr.NAME]</code> to the settings.</p>`}
    ${pairs?.map((pair) => html`<${Pair} key=${pair.pair} pair=${pair} />`)}`;
}

function Pair({ pair }) {
  const operation = operationOf(pair);
  const topics = topicsOf(pair);
  const id = `pair-${encodeURIComponent(pair.pair)}`;
  return html`<${Card} id=${id} title=${pair.pair} note=${pair.active ? `producers write to ${pair.active}` : ""}>
    <p><${Sign} ...${stateOf(pair)} /></p>
    ${operation && html`<p class="strong">In progress: ${operation.text}, <${Ago} ms=${operation.atMs} /></p>`}
    ${operation?.failure && html`<p class="alert">The operation failed and is being undone: ${operation.failure}</p>`}
    ${pair.problems.length > 0 && html`<ul>${pair.problems.map((text) => html`<li key=${text} class="strong">${text}</li>`)}</ul>`}
    <${Loss} topics=${topics} isKnown=${pair.topics.length > 0} />
    ${plansOf(pair).map((plan) => html`<${Plan} key=${plan.title} plan=${plan} />`)}
    <${History} pair=${pair} />
  <//>`;
}

function Loss({ topics, isKnown }) {
  const [shown, more] = usePage(topics, 20);
  if (!topics.length) return html`<p>${isKnown ? "If the active cluster failed now, no records would be lost." : "The number of records that a failure of the active cluster would lose is unknown."}</p>`;
  return html`<h3>Records not yet on the standby cluster</h3><div class="scroll"><table class="stack"><thead><tr><th scope="col">Topic</th><th scope="col" class="num">Records</th><th scope="col" class="num">Age of the oldest</th></tr></thead>
    <tbody>${shown.map((row) => html`<tr key=${row.topic}><td class="name">${row.topic}</td><td class="num" data-label="Records"><${Value} text=${row.records} /></td><td class="num" data-label="Age of the oldest"><${Value} text=${row.age} /></td></tr>`)}</tbody></table></div>${more}`;
}

function Plan({ plan }) {
  return html`<h3>${plan.title}</h3>
    <div class="scroll"><table class="stack"><thead><tr><th scope="col">Step</th><th scope="col">Action</th></tr></thead>
      <tbody>${plan.steps.map((row) => html`<tr key=${row.step} aria-current=${row.isCurrent ? "step" : null}><td class="name">${row.step}${row.isCurrent && " (now)"}</td><td data-label="Action">${row.action}</td></tr>`)}</tbody></table></div>
    ${plan.command && html`<p class="small quiet">To start, run <code>${plan.command}</code>.</p>`}`;
}

function History({ pair }) {
  const rows = historyOf(pair);
  if (!rows.length) return null;
  return html`<h3>Past operations</h3><div class="scroll"><table class="stack"><thead><tr><th scope="col">Operation</th><th scope="col">Start</th><th scope="col">Operator</th><th scope="col" class="num">Writes closed for</th><th scope="col">Outcome</th></tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${row.key}><td class="name">${row.text}</td><td data-label="Start"><${Ago} ms=${row.atMs} /></td><td data-label="Operator">${row.operator}</td>
      <td class="num" data-label="Writes closed for">${row.closed}</td><td data-label="Outcome"><span>${row.outcome}${row.notes.map((text) => html`<span class="sub" key=${text}>${text}</span>`)}</span></td></tr>`)}</tbody></table></div>`;
}
