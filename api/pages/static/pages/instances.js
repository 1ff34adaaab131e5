// Page of the live instances.

import { html } from "../vendor/htm/standalone.module.js";
import { many } from "../lib/format.js";
import { Card, Sign, Troubles, Value, useAnswers } from "../lib/parts.js";
import { rowsOf, sentenceOf } from "../views/instances.js";

export const title = () => "Instances";

export default function Instances() {
  const { values, errors, isFirst } = useAnswers({ all: "/v1/instances" });
  const instances = values.all?.value;
  return html`<div class="head"><h1>Instances</h1></div>
    <${Troubles} errors=${errors} />
    ${isFirst && html`<p class="quiet loading">Loading …</p>`}
    ${instances && sentenceOf(instances) && html`<div class="alert warn"><p>${sentenceOf(instances)}</p></div>`}
    ${instances && rowsOf(instances).map((row, at) => html`<${One} key=${row.name} row=${row} id=${`instance-${at}`} />`)}`;
}

const One = ({ row, id }) => html`<${Card} id=${id} title=${row.name} note=${`${row.host}, PID ${row.processId}, ${row.address}`}>
  <p><${Sign} ...${row.standing} /> ${row.isLeading && html`<${Sign} tone="note" sign="★" word="leader" />`}
    <span class="small quiet"> plan </span><${Value} text=${row.epoch} /><span class="small quiet"> · data plane </span><${Value} text=${row.dataPlane} /><span class="small quiet"> · </span><${Value} text=${row.usage} />
    ${row.weight !== 1 && html`<span class="small quiet"> · weight ${row.weight}</span>`}</p>
  ${row.reason && html`<p>${row.reason}</p>`}
  ${row.unwell.map((part) => html`<p key=${part.name}><span class="strong">▲ ${part.name}:</span> ${part.sentence}</p>`)}
  ${row.well.length > 0 && html`<details><summary>${many(row.well.length, "healthy component")}</summary><ul>${row.well.map((part) => html`<li key=${part.name}><span class="strong">${part.name}</span> ${part.sentence}</li>`)}</ul></details>`}
<//>`;
