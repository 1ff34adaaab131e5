// Page of the sizing advice: required tasks and instances, now and ahead, and the savings.

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
    ${isFirst && html`<p class="quiet loading">Loading …</p>`}
    ${advice && html`<${Whole} advice=${advice} /><${Forecast} advice=${advice} />
      ${advice.groups.length > 0 && html`<${Groups} advice=${advice} />`}`}`;
}

function Whole({ advice }) {
  const savings = savingsOf(advice);
  return html`
    <div class="alert note sentences"><p class="strong">${advice.sentence}</p>${advice.why && html`<p>${advice.why}</p>`}</div>
    <section class="card" aria-label="Key figures"><${Facts} of=${factsOf(advice)} />
      <ul class="moments">${momentsOf(advice).map((one) => html`<li key=${one.name}>${one.name} <${Ago} ms=${one.ms} /></li>`)}</ul></section>
    <${Card} id="saving" title="Savings" note="an estimate">
      <p>${savings || "Savings in the next hours are unknown: no forecast yet."}</p>
      ${pastOf(advice).map((said) => html`<p key=${said}>${said}</p>`)}
      <p class="small quiet">Headrace does not start or stop instances. To scale it automatically, configure your autoscaler with the metrics${" "}
        <code>headrace_required_tasks</code> and <code>headrace_required_instances</code>.</p><//>`;
}

function Forecast({ advice }) {
  const drawn = useMemo(() => forecastOf(advice), [advice]);
  const series = useMemo(() => [
    { name: "current tasks", ink: "--quiet", values: drawn.there },
    { name: "required, median forecast", ink: "--bar-strong", width: 2, values: drawn.tasks },
    { name: "required, upper bound of the forecast", ink: "--over", values: drawn.most },
  ], [drawn]);
  if (!drawn.times.length) return null;
  return html`<${Card} id="forecast" title="Task forecast" note="sum of all datastream groups">
    <${Lines} times=${drawn.times} series=${series} measure=${COUNT} text="Tasks required in each of the next hours: median and upper bound of the forecast" /><//>`;
}

function Groups({ advice }) {
  const [shown, more] = usePage(groupsOf(advice));
  return html`<${Card} id="groups" title="Datastream groups" note="the datastreams of a group share tasks">
    <div class="scroll"><table class="stack"><thead><tr><th scope="col">Group</th><th scope="col" class="num">Tasks</th><th scope="col" class="num">Required</th>
      <th scope="col" class="num">Next hour</th><th scope="col" class="num">Peak</th><th scope="col">Forecast accuracy</th></tr></thead>
      <tbody>${shown.map((row) => html`<tr key=${row.name}><td class="name">${row.name}</td>
        <td class="num" data-label="Tasks">${row.tasks}</td>
        <td class="num" data-label="Required"><${Value} text=${row.now} /></td>
        <td class="num" data-label="Next hour"><${Value} text=${row.next} /></td>
        <td class="num" data-label="Peak"><${Value} text=${row.most} /></td>
        <td data-label="Forecast accuracy"><span>${row.grade}${row.why && html`<span class="sub">${row.why}</span>`}</span></td></tr>`)}</tbody></table></div>${more}<//>`;
}
