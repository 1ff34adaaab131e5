// Page that computes a plan, shows it as a diff, and applies it on approval.

import { html, useState } from "../vendor/htm/standalone.module.js";
import { part } from "../lib/api.js";
import { Act, Ago, Card, Facts, Sign, Troubles, to, useAnswers, usePage, useRefusal } from "../lib/parts.js";
import { diffOf, refusalOf } from "../views/preview.js";

const COMPUTED = () => "Computed. The changes are listed below.";
export const title = ({ argument }) => `Plan of ${argument}`;

export default function Preview({ argument: name }) {
  const { values, errors } = useAnswers({ all: `/v1/overview?datastream=${part(name)}`, plan: `/v1/plan?datastream=${part(name)}&tasks=false` }, 15000);
  const [identity, setIdentity] = useState("");
  const one = values.all?.value.datastreams[0];
  const refusal = useRefusal(one?.owner);
  const compute = (full) => ({ method: "POST", path: `/v1/datastreams/${part(name)}/plan`, body: { full, reason: "previewed on the web page" } });
  const took = (answer) => setIdentity(answer.value.id);
  return html`
    <p class="crumb"><a href="#/">Datastreams</a> › <a href=${to(`datastreams/${encodeURIComponent(name)}`)}>${name}</a> ›</p>
    <div class="head"><h1>New plan for ${name}</h1>${values.plan && html`<span class="quiet">current: epoch ${values.plan.value.epoch}</span>`}</div>
    <${Troubles} errors=${errors} />
    <${Card} id="compute" title="Compute a plan" note="nothing changes until you approve the plan; a plan expires after 1 hour">
      <div class="acts">
        <${Act} key="small" label="Move few partitions" main refusal=${refusal} call=${compute(false)} done=${took} says=${COMPUTED} />
        <${Act} key="full" label="Place all partitions again" refusal=${refusal} call=${compute(true)} done=${took} says=${COMPUTED} />
      </div>
    <//>
    ${identity && html`<${Diff} key=${identity} identity=${identity} before=${one?.tasks} refusal=${refusal} />`}`;
}

function Diff({ identity, before, refusal }) {
  const { values, errors } = useAnswers({ plan: `/v1/plans/${part(identity)}` }, 5000);
  const [operation, setOperation] = useState("");
  if (!values.plan) return html`<${Troubles} errors=${errors} />`;
  const diff = diffOf(values.plan.value, before);
  return html`<${Troubles} errors=${errors} />
    <${Card} id="diff" title="Changes" note=${html`expires <${Ago} ms=${diff.expiresMs} />`}>
      <p class="strong">${diff.sentence}</p>
      <${Facts} of=${diff.facts} />
      ${diff.reasons.length > 0 && html`<ul>${diff.reasons.map((reason) => html`<li key=${reason}>${reason}</li>`)}</ul>`}
      <${Moves} rows=${diff.rows} />
      ${!operation && html`<${Act} label="Approve and apply" main refusal=${refusalOf(diff, refusal)}
        question=${`Apply exactly this plan? ${diff.sentence}.`} call=${{ method: "POST", path: `/v1/plans/${part(identity)}/apply`, body: {} }}
        done=${(answer) => setOperation(answer.value.operation.id)} says=${(answer) => answer.sentence} />`}
      ${operation && html`<${Progress} operation=${operation} />`}
    <//>`;
}

export function Moves({ rows }) {
  const [shown, more] = usePage(rows, 50);
  if (!rows.length) return html`<p class="quiet">No partition is moved.</p>`;
  return html`<div class="scroll"><table class="diff stack"><thead><tr><th scope="col">Partition</th><th scope="col">From</th><th scope="col">To</th><th scope="col">Why</th></tr></thead>
    <tbody>${shown.map((row) => html`<tr key=${row.key}><td class="name">${row.word && html`<span class="sub">${row.word}</span>`}${row.partition}</td>
      <td class="from" data-label="From"><span>− ${row.from}</span></td><td class="to" data-label="To"><span>+ ${row.to}</span></td>
      <td data-label="Why"><span>${row.why}${row.load && html`<span class="sub">${row.load}</span>`}</span></td></tr>`)}</tbody></table></div>${more}`;
}

const STATES = { queued: ["note", "…"], running: ["note", "…"], done: ["good", "✓"], failed: ["bad", "✖"] };

function Progress({ operation }) {
  const { values, errors } = useAnswers({ operation: `/v1/operations/${part(operation)}` }, 1000);
  const one = values.operation?.value;
  return html`<${Troubles} errors=${errors} /><div role="status">${one && html`<p><${Sign} tone=${STATES[one.state][0]} sign=${STATES[one.state][1]} word=${one.state} /> ${one.sentence}</p>`}</div>`;
}
