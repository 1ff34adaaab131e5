// How the service should be sized, now and in the hours ahead, and what that would save.

import { html, useMemo } from "../vendor/htm/standalone.module.js";
import { COUNT, Lines } from "../lib/chart.js";
import { Ago, Card, Facts, Sign, Troubles, Value, useAnswers, usePage } from "../lib/parts.js";
import { factsOf, forecastOf, groupsOf, momentsOf, pastOf, savingsOf, standingOf } from "../views/advice.js";

export const title = () => "Advice";

export default function Advice() {
  const { values, errors, isFirst } = useAnswers({ advice: "/v1/advice" }, 15000);
  const advice = values.advice?.value;
  return html`
    <div class="head"><h1>Advice</h1>${advice && html`<${Sign} ...${standingOf(advice)} />`}</div>
    <${Troubles} errors=${errors} />
    ${isFirst && html`<p class="quiet">Asking the service …</p>`}
    ${advice && html`<${Whole} advice=${advice} /><${Forecast} advice=${advice} />
      ${advice.groups.length > 0 && html`<${Groups} advice=${advice} />`}`}`;
}

function Whole({ advice }) {
  const savings = savingsOf(advice);
  return html`
    <div class="alert note sentences"><p class="strong">${advice.sentence}</p>${advice.why && html`<p>${advice.why}</p>`}</div>
    <section class="card" aria-label="In numbers"><${Facts} of=${factsOf(advice)} />
      <ul class="moments">${momentsOf(advice).map((one) => html`<li key=${one.name}>${one.name} <${Ago} ms=${one.ms} /></li>`)}</ul></section>
    <${Card} id="saving" title="What it would save" note="computed also where the service may not act">
      <p>${savings || "Nothing is forecast yet, so that what the next hours would save is not known."}</p>
      ${pastOf(advice).map((said) => html`<p key=${said}>${said}</p>`)}
      <p class="small quiet">The service does not start or stop instances itself: whoever scales it follows the metrics${" "}
        <code>headrace_required_tasks</code> and <code>headrace_required_instances</code>.</p><//>`;
}

function Forecast({ advice }) {
  const drawn = useMemo(() => forecastOf(advice), [advice]);
  const series = useMemo(() => [
    { name: "there now", ink: "--quiet", values: drawn.there },
    { name: "needed, middle of the forecast", ink: "--bar-strong", width: 2, values: drawn.tasks },
    { name: "needed, its high end", ink: "--over", values: drawn.most },
  ], [drawn]);
  if (!drawn.times.length) return null;
  return html`<${Card} id="forecast" title="Tasks in the hours ahead" note="all groups together">
    <${Lines} times=${drawn.times} series=${series} measure=${COUNT} text="Tasks that are needed in each hour ahead, with the high end of the forecast" /><//>`;
}

function Groups({ advice }) {
  const [shown, more] = usePage(groupsOf(advice));
  return html`<${Card} id="groups" title="By group of datastreams" note=${html`a group shares its tasks; computed <${Ago} ms=${advice.computed_ms} />`}>
    <div class="scroll"><table class="stack"><thead><tr><th scope="col">Group</th><th scope="col" class="num">Tasks</th><th scope="col" class="num">Needed</th>
      <th scope="col" class="num">In the next hour</th><th scope="col" class="num">At most</th><th scope="col">How good such forecasts were</th></tr></thead>
      <tbody>${shown.map((row) => html`<tr key=${row.name}><td class="name">${row.name}</td>
        <td class="num" data-label="Tasks">${row.tasks}</td>
        <td class="num" data-label="Needed"><${Value} text=${row.now} /></td>
        <td class="num" data-label="In the next hour"><${Value} text=${row.next} /></td>
        <td class="num" data-label="At most"><${Value} text=${row.most} /></td>
        <td data-label="Forecasts"><span>${row.grade}${row.why && html`<span class="sub">${row.why}</span>`}</span></td></tr>`)}</tbody></table></div>${more}<//>`;
}
