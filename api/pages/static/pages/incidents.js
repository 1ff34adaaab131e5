// What was the matter, with what and why; and what the monitor may do.

import { html } from "../vendor/htm/standalone.module.js";
import { Act, Ago, Card, Sign, Troubles, useAnswers, useRefusal } from "../lib/parts.js";
import { Events, Incidents } from "./datastream.js";

export const title = () => "Incidents";

export default function AllIncidents() {
  const { values, errors, isFirst } = useAnswers({ incidents: "/v1/incidents?limit=100", monitor: "/v1/monitor", events: "/v1/events?limit=100" });
  return html`<div class="head"><h1>Incidents and changes</h1></div>
    <${Troubles} errors=${errors} />
    ${isFirst && html`<p class="quiet">Asking the service …</p>`}
    ${values.incidents && html`<${Incidents} of=${values.incidents.value} withName />`}
    <div class="grid">
      ${values.monitor && html`<${Monitor} of=${values.monitor.value} />`}
      ${values.events && html`<${Events} of=${values.events.value} />`}
    </div>`;
}

function Monitor({ of }) {
  const refusal = useRefusal("");
  const isOn = of.acting.is_on;
  return html`<${Card} id="monitor" title="The monitor" note=${of.holder ? `judged by ${of.holder}` : "nobody judges"}>
    <p>${isOn ? html`<${Sign} tone="good" sign="✓" word="may act" />` : html`<${Sign} tone="warn" sign="❚❚" word="may not act" />`} ${of.acting.reason}
      ${of.acting.changed_ms && html` <span class="quiet small"><${Ago} ms=${of.acting.changed_ms} />${of.acting.requested_by && `, ${of.acting.requested_by}`}</span>`}</p>
    ${of.acts.length > 0 && html`<p class="small">Rebalances that it asked for within a day: ${of.acts.map((act) => html`<span key=${act.asked_ms}>${act.datastream} <${Ago} ms=${act.asked_ms} />; </span>`)}</p>`}
    <${Act} key=${isOn} label=${isOn ? "Forbid it to act" : "Let it act"} refusal=${refusal}
      question=${isOn ? "It still judges and calls people, but asks for no rebalance." : "Let it ask for rebalances that can help?"}
      call=${{ method: "PATCH", path: "/v1/monitor", body: { acting: !isOn, reason: "asked for on the web page" } }} />
  <//>`;
}
