// Page of a datastream: latency, placement, events and actions.

import { html, useEffect, useMemo, useState } from "../vendor/htm/standalone.module.js";
import { get, part } from "../lib/api.js";
import { COUNT, DURATION, Lines, RATE } from "../lib/chart.js";
import { duration, many, percent, rate } from "../lib/format.js";
import { columns, remember, remembered, sampleOf, withSample } from "../lib/history.js";
import { Act, Ago, Card, Facts, Sign, Trouble, Troubles, to, useAnswers, usePage, useRefusal } from "../lib/parts.js";
import { auditOf, eventsOf, factsOf, gapsOf, incidentsOf, lagText, lateText, measuredBy, measuredOf, placementOf, throughputText, standing, statesOf } from "../views/datastream.js";

import { Groups } from "./groups.js";
import { Definition, Partitions, Paused } from "./partitions.js";

export const title = ({ argument }) => argument;

export default function Datastream({ argument: name }) {
  const path = `/v1/datastreams/${part(name)}`;
  const query = `datastream=${part(name)}`;
  const { values, errors, isFirst, atMs } = useAnswers({
    all: `/v1/overview?${query}`, definition: path, loads: `${path}/loads?limit=500`, plan: `/v1/plan?${query}&tasks=false`,
    incidents: `/v1/incidents?${query}&limit=10`, events: `/v1/events?${query}&limit=40`, audits: `/v1/audits?${query}`,
  });
  const one = values.all?.value.datastreams[0];
  const usable = one?.usable_bytes_per_second;
  const definition = values.definition?.value;
  return html`
    <p class="crumb"><a href="#/">Datastreams</a> ›</p>
    <div class="head"><h1>${name}</h1>${one && html`<${Sign} ...${standing(one)} /><span class="quiet">${one.owner ? `owner ${one.owner}` : "no owner"}</span>`}</div>
    <${Troubles} errors=${errors} />
    ${isFirst && html`<p class="quiet loading">Loading …</p>`}
    ${one && html`<${Head} one=${one} usable=${usable} loads=${values.loads?.value} />
      <${Latency} one=${one} atMs=${atMs} />`}
    ${definition && html`<${Definition} name=${name} definition=${definition} />`}
    ${values.loads && html`<${Placement} name=${name} loads=${values.loads.value} usable=${usable} />`}
    ${definition && html`<${Partitions} name=${name} />`}
    ${definition?.groups?.include && html`<${Groups} name=${name} />`}
    <div class="grid">
      ${values.plan && html`<${Plan} name=${name} groups=${values.plan.value.groups} />`}
      ${one && definition && html`<${Acts} name=${name} one=${one} definition=${definition} />`}
    </div>
    ${values.audits?.value.topics.length > 0 && html`<${Audit} of=${values.audits.value} />`}
    ${values.incidents && html`<${Incidents} of=${values.incidents.value} />`}
    <div class="grid">
      ${values.events && html`<${Events} of=${values.events.value} />`}
      <${Ledger} name=${name} />
    </div>`;
}

function Head({ one, usable, loads }) {
  const why = standing(one);
  const states = statesOf(one);
  return html`
    ${why.why && why.tone !== "good" && html`<div class=${`alert ${why.tone === "bad" ? "" : why.tone}`}><p><span class="strong">${why.word}:</span> ${why.why}</p></div>`}
    <section class="card" aria-label="Key figures"><${Facts} of=${factsOf(one, usable, loads)} />
      ${states.length > 0 && html`<p class="small">Partitions with a problem: ${states.map((state) => `${state.number} ${state.word}`).join(", ")}.
        ${one.worst && ` The oldest problem: ${one.worst}.`}</p>`}
      ${one.hot > 0 && html`<p><a href=${to("offending", { datastream: one.name })}>Show hot partitions</a></p>`}
    </section>`;
}

const STAGES = [["source", "waiting at the source", "--note"], ["fetch", "fetch", "--bar-strong"], ["queue", "worker queue", "--warn"], ["produce", "produce", "--bad"]];

const RANGES = [[1, "Last hour"], [6, "6 hours"], [24, "24 hours"], [168, "7 days"]];
const POINTS = 240;

function Latency({ one, atMs }) {
  const [hours, setHours] = useState(1);
  const path = `/v1/datastreams/${part(one.name)}/latency/history?hours=${hours}&points=${POINTS}`;
  const { values, errors } = useAnswers({ history: path }, 30000);
  const found = values.history?.value;
  const history = useMemo(() => found && measuredOf(found), [found]);
  if (!history) return html`<${SinceOpened} one=${one} atMs=${atMs} why=${errors.history} />`;
  return html`<p class="acts" role="group" aria-label="Time range">${RANGES.map(([length, word]) => html`
      <button type="button" key=${length} aria-pressed=${length === hours} onClick=${() => setHours(length)}>${word}</button>`)}</p>
    <${Kept} one=${one} history=${history} />`;
}

/** History stored in Pinot. */
function Kept({ one, history }) {
  const times = useMemo(() => history.times_ms.map((ms) => ms / 1000), [history]);
  const late = useMemo(() => [{ name: "p99", ink: "--bad", width: 2, values: history.p99_ms }, { name: "p50", ink: "--note", values: history.p50_ms }], [history]);
  const stages = useMemo(() => STAGES.map(([key, word, ink]) => ({ name: word, ink, values: history[key] })), [history]);
  const waits = useMemo(() => [{ name: "oldest waiting record", ink: "--bad", width: 2, values: history.oldest_ms }], [history]);
  const rates = useMemo(() => [{ name: "copied", ink: "--bar-strong", width: 2, values: history.bytes_per_second }], [history]);
  const lags = useMemo(() => [{ name: "waiting records", ink: "--warn", width: 2, values: history.lag_records }], [history]);
  const note = `interval: ${duration(history.step_ms)}`;
  return html`<div class="grid">
    <${Card} id="late" title="Record latency" note=${note}><${Lines} times=${times} series=${late} measure=${DURATION} text=${lateText(history)} />
      <p class="small quiet">${lateText(history)}</p><//>
    <${Card} id="latency" title="Latency by phase" note=${`mean per batch, ${note}`}><${Lines} times=${times} series=${stages} measure=${DURATION} text=${latencyText(one)} />
      <p class="small quiet">${latencyText(one)}</p><//>
    <${Card} id="oldest" title="Age of the oldest waiting record" note=${note}><${Lines} times=${times} series=${waits} measure=${DURATION} text="Age of the oldest waiting record over time" /><//>
    <${Card} id="lag" title="Waiting records" note=${note}><${Lines} times=${times} series=${lags} measure=${COUNT} text=${lagText(history)} />
      <p class="small quiet">${lagText(history)}</p><//>
    <${Card} id="throughput" title="Throughput" note=${note}><${Lines} times=${times} series=${rates} measure=${RATE} text=${throughputText(history)} />
      <p class="small quiet">${throughputText(history)}</p><//></div>`;
}

/** Data collected by this tab, if there is no older history. */
function SinceOpened({ one, atMs, why }) {
  const [samples, setSamples] = useState(() => remembered(one.name));
  useEffect(() => {
    setSamples((before) => {
      const after = withSample(before, sampleOf(one, atMs));
      remember(one.name, after);
      return after;
    });
  }, [atMs]);
  const drawn = useMemo(() => columns(samples, ["oldest", "rate", "lag", ...STAGES.map(([key]) => key)]), [samples]);
  const [oldest, copied, waiting, ...stages] = drawn.values;
  const series = useMemo(() => STAGES.map(([key, word, ink], at) => ({ name: word, ink, values: stages[at] })), [drawn]);
  const waits = useMemo(() => [{ name: "oldest waiting record", ink: "--bad", width: 2, values: oldest }], [drawn]);
  const rates = useMemo(() => [{ name: "copied", ink: "--bar-strong", width: 2, values: copied }], [drawn]);
  const lags = useMemo(() => [{ name: "waiting records", ink: "--warn", width: 2, values: waiting }], [drawn]);
  return html`<div class="grid">
    <${Card} id="latency" title="Latency by phase" note="mean per batch">
      <${Lines} times=${drawn.times} series=${series} measure=${DURATION} text=${latencyText(one)} />
      <p class="small quiet">${latencyText(one)}</p>
    <//>
    <${Card} id="oldest" title="Age of the oldest waiting record" note="since this page was opened">
      <${Lines} times=${drawn.times} series=${waits} measure=${DURATION} text="Age of the oldest waiting record over time" />
      ${why && html`<p class="small quiet">Older data is unavailable: ${why.message}${why.advice && ` (${why.advice})`}.</p>`}
    <//>
    <${Card} id="lag" title="Waiting records" note="since this page was opened">
      <${Lines} times=${drawn.times} series=${lags} measure=${COUNT} text="Waiting records over time" /><//>
    <${Card} id="throughput" title="Throughput" note="since this page was opened">
      <${Lines} times=${drawn.times} series=${rates} measure=${RATE} text="Bytes copied per second over time" /><//></div>`;
}

const latencyText = (one) => one.latency
  ? `Now: ${STAGES.map(([key, word]) => `${duration(one.latency[key])} ${word}`).join(", ")}.`
  : "Latency is unknown because no records are being copied.";

function Placement({ name, loads, usable }) {
  const found = placementOf(loads, usable);
  const [shown, more] = usePage(found.tasks, 30);
  const by = measuredBy(loads);
  return html`<${Card} id="placement" title="Task load and usable capacity" note=${html`${by.text}${by.ms && html`, measured <${Ago} ms=${by.ms} />`}`}>
    ${!found.tasks.length && html`<p>No task has partitions of this datastream.</p>`}
    <div class="tasks">${shown.map((task) => html`<${Task} key=${task.task} task=${task} usableAt=${found.usableAt} />`)}</div>${more}
    <p class="legend"><span>partition (width: load)</span><span class="hot">hot: at least half of the usable capacity of a task</span>
      ${found.usableAt !== null && html`<span class="limit">dashed line: usable capacity</span>`}</p>
    ${found.isPart && html`<p class="small quiet">Showing the heaviest of ${many(loads.partitions.length + found.leftOut, "partition")}; ${found.leftOut} are omitted.</p>`}
    ${found.idle.length > 0 && html`<p class="small">Partitions without a task: ${found.idle.slice(0, 20).join(", ")}${found.idle.length > 20 ? " …" : ""}</p>`}
    <p class="small"><a href=${to("offending", { datastream: name })}>All partitions by load</a></p>
  <//>`;
}

const Task = ({ task, usableAt }) => html`<div class="task">
  <span><span class="strong">${task.task}</span> <span class="small quiet">${task.instance}</span></span>
  <div class="lanes" role="img" aria-label=${task.text}>
    ${task.parts.map((one) => one.width !== null && html`<i key=${one.name} class=${one.isHot ? "hot" : ""} style=${{ width: `${one.width * 100}%` }} title=${one.text}></i>`)}
    ${usableAt !== null && html`<b style=${{ left: `${usableAt * 100}%` }}></b>`}
  </div>
  <span class="num">${task.load}${task.share && html` <span class=${task.isOver ? "strong" : "quiet"}>${task.isOver ? "▲ " : ""}${task.share}</span>`}</span>
</div>`;

const capacityText = (one) => `A task can copy ${rate(one.bytes_per_second)}; plans use up to ${percent(one.utilisation_percent / 100)} of this capacity. Source of the capacity: ${one.why}.`;

function Plan({ name, groups }) {
  const [group] = groups;
  return html`<${Card} id="plan" title="Plan" note=${group ? html`planned <${Ago} ms=${group.planned_ms} />` : ""}>
    ${group ? html`<ul>${group.reasons.map((reason) => html`<li key=${reason}>${reason}</li>`)}${group.capacity && html`<li>${capacityText(group.capacity)}</li>`}</ul>
      ${group.unplaced > 0 && html`<p class="strong">Partitions without a task: ${group.unplaced_partitions.join(", ")}${group.unplaced > group.unplaced_partitions.length ? " …" : ""}</p>`}`
      : html`<p>No plan yet.</p>`}
    <p class="acts"><a class="button" href=${to(`plans/${encodeURIComponent(name)}`)}>Preview a plan</a>
      <a class="button" href=${to(`whatif/${encodeURIComponent(name)}`)}>What if …</a></p>
  <//>`;
}

function Acts({ name, one, definition }) {
  const refusal = useRefusal(one.owner);
  const path = `/v1/datastreams/${part(name)}`;
  const body = { reason: "requested on the web page" };
  const isHalted = ["PAUSED", "STOPPED"].includes(definition.status);
  return html`<${Card} id="acts" title="Pauses and actions">
    <${Paused} name=${name} definition=${definition} />
    <div class="acts">
      ${isHalted
        ? html`<${Act} key="resume" label="Resume" main refusal=${refusal} call=${{ method: "POST", path: `${path}/resume`, body }} says=${() => "Resumed."} />`
        : html`<${Act} key="hour" label="Pause for 1 hour" refusal=${refusal} question=${`Pause ${name} for 1 hour? No records are copied during the pause. You can resume the datastream earlier.`}
            call=${{ method: "POST", path: `${path}/pause`, body: { ...body, for_seconds: 3600 } }} says=${() => "Paused for 1 hour."} />
          <${Act} key="restart" label="Restart from the beginning" refusal=${refusal} typed=${name}
            question=${`Discard the progress of ${name} and copy all records again, from the earliest one? The service rejects the request if the destination topics contain records.`}
            call=${{ method: "POST", path: `${path}/restart-from`, body: { ...body, start: "earliest" } }} says=${() => "Restarted."} />
          <${Act} key="pause" label="Pause" refusal=${refusal} question=${`Pause ${name} until you resume it?`}
            call=${{ method: "POST", path: `${path}/pause`, body }} says=${() => "Paused."} />`}
      <${Act} key="delete" label="Delete" refusal=${refusal} typed=${name} question=${`Delete ${name}? Copying stops. The destination topics and their records are kept.`}
        call=${{ method: "DELETE", path: `${path}?reason=${encodeURIComponent(body.reason)}`, headers: { "If-Match": "*" } }} says=${() => "Deleting. The datastream disappears after the instances have stopped copying it."} />
    </div>
  <//>`;
}

function Audit({ of }) {
  const { through, faults, late, more, problems } = auditOf(of);
  return html`<${Card} id="audit" title="Audit">
    <p>${through === null ? "The time up to which all records are at the destination is unknown." : html`Complete through <${Ago} ms=${through} />: all older records are at the destination.`}</p>
    ${faults.length > 0 && html`<ul>${faults.map((one) => html`<li key=${one.text} class="strong">${one.text} (records of <${Ago} ms=${one.ms} />)</li>`)}</ul>`}
    ${more > 0 && html`<p class="small quiet">${many(more, "more difference")} not shown.</p>`}
    ${late > 0 && html`<p>${many(late, "offset")} overdue: the records have waited at the source for longer than the audit allows.</p>`}
    ${problems.map((text) => html`<p key=${text} class="small">A partition cannot be audited: ${text}</p>`)}
  <//>`;
}

export function Incidents({ of, withName = false }) {
  const found = incidentsOf(of);
  return html`<${Card} id="incidents" title="Incidents" note=${found.length ? "" : "no incidents"}>
    ${found.map((one) => html`<details key=${one.id} open=${one.isOpen}>
      <summary><${Sign} ...${one.state} />
        ${withName && html` <a href=${to(`datastreams/${encodeURIComponent(one.name)}`)}>${one.name}</a>`} ${one.cause} · <${Ago} ms=${one.openedMs} />
        ${one.lasted && ` · lasted ${one.lasted}`} ${one.worst && ` · ${one.worst}`}</summary>
      ${one.spent.map((text) => html`<p key=${text} class="small">Effect on objectives: ${text}.</p>`)}
      ${one.evidence.length > 0 && html`<p class="small quiet">${one.evidence.join(" · ")}</p>`}
      <ol class="line">${one.timeline.map((entry) => html`<li key=${entry.key}><span class="when"><${Ago} ms=${entry.ms} /></span><span class="strong">${entry.phase}</span> ${entry.text}</li>`)}</ol>
      ${one.leftOut > 0 && html`<p class="small quiet">${many(one.leftOut, "intermediate entry", "intermediate entries")} omitted.</p>`}
    </details>`)}
  <//>`;
}

export function Events({ of }) {
  const [shown, more] = usePage(eventsOf(of), 12);
  return html`<${Card} id="events" title="Events" note=${of.length ? "" : "no events"}>
    <ol class="line">${shown.map((one) => html`<li key=${one.key}><span class="when"><${Ago} ms=${one.ms} /></span><span class="small quiet">${one.kind}</span>
      ${one.moves.length > 1 ? html` <span class="strong">${one.what}: ${one.why}</span><details><summary>Show moves</summary><ul>${one.moves.map((move) => html`<li key=${move} class="mono">${move}</li>`)}</ul></details>`
      : html`${one.what && html` <span class="mono">${one.what}</span>${one.load && ` (${one.load})`}<br />`} ${one.why}`}</li>`)}</ol>${more}
  <//>`;
}

function Ledger({ name }) {
  const [state, setState] = useState({});
  const look = async () => {
    setState({ isAsking: true });
    try {
      setState({ found: gapsOf((await get(`/v1/datastreams/${part(name)}/gaps`)).value) });
    } catch (error) {
      setState({ error });
    }
  };
  return html`<${Card} id="ledger" title="Missing records" note="according to the stored progress">
    <button type="button" disabled=${state.isAsking} onClick=${look}>${state.isAsking ? "Checking …" : "Check for missing records"}</button>
    <div role="status">${state.found && html`<p class="strong">${state.found.line}.</p>`}</div>
    <${Trouble} error=${state.error} />
    ${state.found?.rows.length > 0 && html`<div class="scroll"><table class="stack"><thead><tr><th scope="col">Partition</th><th scope="col">Records not at the destination</th><th scope="col">Problem</th></tr></thead>
      <tbody>${state.found.rows.slice(0, 100).map((row) => html`<tr key=${row.name}><td class="name">${row.name}</td>
        <td data-label="Not at the destination"><span>${row.missing}${row.events.map((event) => html`<span class="sub" key=${event}>${event}</span>`)}</span></td>
        <td data-label="Problem">${row.waits || "none"}</td></tr>`)}</tbody></table></div>`}
  <//>`;
}
