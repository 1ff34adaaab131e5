// Card of the consumer groups that follow a datastream.

import { html, useState } from "../vendor/htm/standalone.module.js";
import { part } from "../lib/api.js";
import { many } from "../lib/format.js";
import { Ago, Card, Sign, Troubles, Value, useAnswers, usePage } from "../lib/parts.js";
import { groupsOf, positionsOf } from "../views/groups.js";

const EVERY_MS = 30000;

export function Groups({ name }) {
  const { values, errors } = useAnswers({ groups: `/v1/datastreams/${part(name)}/consumer-groups` }, EVERY_MS);
  const [chosen, setChosen] = useState("");
  const found = values.groups?.value;
  const rows = found ? groupsOf(found) : [];
  const [shown, more] = usePage(rows, 20);
  return html`<${Card} id="groups" title="Consumer groups" note=${found && (found.round_ms === null ? "not synchronised yet" : html`synchronised <${Ago} ms=${found.round_ms} />`)}>
    <${Troubles} errors=${errors} />
    ${found && !rows.length && html`<p>No consumer group has stored positions yet.</p>`}
    ${found?.unreadable > 0 && html`<p class="strong">${many(found.unreadable, "damaged record")} in the progress topic at the destination.</p>`}
    ${rows.length > 0 && html`<div class="scroll"><table class="stack"><thead><tr><th scope="col">Group</th><th scope="col">Type</th><th scope="col">State</th>
      <th scope="col" class="num">Positions</th><th scope="col">Changed</th><th scope="col">Reason</th></tr></thead>
      <tbody>${shown.map((row) => html`<tr key=${row.name}><td class="name"><button type="button" aria-expanded=${chosen === row.name} onClick=${() => setChosen(chosen === row.name ? "" : row.name)}>${row.name}</button></td>
        <td data-label="Type">${row.kind}</td><td data-label="State">${row.follows ? html`<${Sign} tone="good" sign="●" word="follows" />` : html`<${Sign} tone="bad" sign="■" word="does not follow" />`}</td>
        <td class="num" data-label="Positions">${row.positions}</td><td data-label="Changed"><${Ago} ms=${row.changedMs} /></td><td data-label="Reason">${row.why}</td></tr>`)}</tbody></table></div>${more}`}
    ${chosen && found && html`<${Positions} key=${chosen} name=${name} group=${chosen} found=${found} />`}
  <//>`;
}

function Positions({ name, group, found }) {
  const { values, errors } = useAnswers({ lag: `/v1/datastreams/${part(name)}/lag` }, EVERY_MS);
  const [shown, more] = usePage(positionsOf(found, group, values.lag?.value), 50);
  return html`<h3>Positions of ${group}</h3><${Troubles} errors=${errors} />
    <div class="scroll"><table class="stack"><thead><tr><th scope="col">Partition</th><th scope="col" class="num">Source offset</th><th scope="col" class="num">Lag</th>
      <th scope="col">Mirrored to</th><th scope="col" class="num">Destination offset</th><th scope="col">Reason</th></tr></thead>
      <tbody>${shown.map((row) => html`<tr key=${row.name}><td class="name">${row.name}</td><td class="num" data-label="Source offset">${row.offset}</td><td class="num" data-label="Lag"><${Value} text=${row.lag} /></td>
        <td data-label="Mirrored to">${row.to}</td><td class="num" data-label="Destination offset">${row.toOffset}</td><td data-label="Reason">${row.reason}</td></tr>`)}</tbody></table></div>${more}`;
}
