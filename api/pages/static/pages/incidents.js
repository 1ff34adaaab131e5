// Page of incidents, events, and the permission of the monitor to act.

import { html } from "../vendor/htm/standalone.module.js";
import { Act, Ago, Card, Sign, Troubles, useAnswers, useRefusal } from "../lib/parts.js";
import { Events, Incidents } from "./datastream.js";

export const title = () => "Incidents";

export default function AllIncidents() {
  const { values, errors, isFirst } = useAnswers({ incidents: "/v1/incidents?limit=100", monitor: "/v1/monitor", events: "/v1/events?limit=100" });
  return html`<div class="head"><h1>Incidents and events</h1></div>
    <${Troubles} errors=${errors} />
    ${isFirst && html`<p class="quiet loading">Loading …</p>`}
    ${values.incidents && html`<${Incidents} of=${values.incidents.value} withName />`}
    <div class="grid">
      ${values.monitor && html`<${Monitor} of=${values.monitor.value} />`}
      ${values.events && html`<${Events} of=${values.events.value} />`}
    </div>`;
}

function Monitor({ of }) {
  const refusal = useRefusal("");
  const isOn = of.acting.is_on;
  return html`<${Card} id="monitor" title="Monitor" note=${of.holder ? `active monitor: ${of.holder}` : "no active monitor"}>
    <p>${isOn ? html`<${Sign} tone="good" sign="✓" word="automatic rebalances on" />` : html`<${Sign} tone="warn" sign="❚❚" word="automatic rebalances off" />`} ${of.acting.reason}
      ${of.acting.changed_ms && html` <span class="quiet small"><${Ago} ms=${of.acting.changed_ms} />${of.acting.requested_by && `, ${of.acting.requested_by}`}</span>`}</p>
    ${of.acts.length > 0 && html`<p class="small">Rebalances requested in the last 24 h: ${of.acts.map((act) => html`<span key=${act.asked_ms}>${act.datastream} <${Ago} ms=${act.asked_ms} />; </span>`)}</p>`}
    <${Act} key=${isOn} label=${isOn ? "Disable automatic rebalances" : "Enable automatic rebalances"} refusal=${refusal}
      question=${isOn ? "Disable automatic rebalances? The monitor still checks objectives and sends alerts." : "Allow the monitor to request rebalances when an objective is breached?"}
      call=${{ method: "PATCH", path: "/v1/monitor", body: { acting: !isOn, reason: "requested on the web page" } }} />
  <//>`;
}
