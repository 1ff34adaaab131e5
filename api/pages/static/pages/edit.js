// Form that creates or changes a datastream, after a dry run.

import { html, useRef, useState } from "../vendor/htm/standalone.module.js";
import { ask, part } from "../lib/api.js";
import { Act, Card, Facts, Trouble, Troubles, to, useAnswers, useRefusal } from "../lib/parts.js";
import { FIELDS, callOf, isChange, missingOf, stopsOf, unreadableOf, valuesOf } from "../views/edit.js";
import { effectOf } from "../views/preview.js";
import { Moves } from "./preview.js";

export const title = ({ argument }) => (argument ? `Edit ${argument}` : "New datastream");

export default function Edit({ argument: name }) {
  const { values, errors } = useAnswers({ definition: name ? `/v1/datastreams/${part(name)}` : null }, 600000);
  const first = useRef(null);  // an event of the service must not replace the text of the fields
  first.current ??= values.definition;
  const known = first.current;
  const isOld = known && values.definition && values.definition.etag !== known.etag;
  return html`<p class="crumb"><a href="#/">Datastreams</a> ›${name && html` <a href=${to(`datastreams/${encodeURIComponent(name)}`)}>${name}</a> ›`}</p>
    <div class="head"><h1>${name ? `Edit ${name}` : "New datastream"}</h1></div>
    <${Troubles} errors=${errors} />
    ${isOld && html`<div class="alert warn" role="alert"><p>The datastream was changed after this form was opened. To edit its current definition, reload the page.</p></div>`}
    ${(!name || known) && html`<${Form} definition=${known?.value || null} etag=${known?.etag} />`}`;
}

function Form({ definition, etag }) {
  const [values, setValues] = useState(valuesOf(definition));
  const [preview, setPreview] = useState({});
  const refusal = useRefusal(definition ? definition.owner : values.owner);
  const call = callOf(values, definition, etag, false);
  const missing = missingOf(values);
  const show = async (event) => {
    event.preventDefault();
    setPreview({ isAsking: true });
    setPreview(await ask(call).then((answer) => ({ answer: answer.value }), (error) => ({ error })));
  };
  const set = (key, value) => {
    setValues({ ...values, [key]: value });
    setPreview({});
  };
  const [unreadable] = unreadableOf(values);
  const problem = missing.length ? `required fields are empty: ${missing.join(", ")}` : unreadable ? `invalid start position: ${unreadable}` : "";
  const why = problem || (isChange(call) ? "" : "no changes yet");
  return html`<${Card} id="form" title="Definition" note=${definition ? "disabled fields cannot be changed after the creation" : ""}>
      <form class="fields" onSubmit=${show}>${FIELDS.map((field) => html`<${Field} key=${field.key} of=${field} value=${values[field.key]} isFixed=${field.isFixed && definition} set=${(value) => set(field.key, value)} />`)}
        <div class="acts"><button class="main" disabled=${!!why || preview.isAsking}>Preview</button><span class="small quiet">${why || "Preview changes nothing."}</span></div></form><//>
    <${Trouble} error=${preview.error} />
    ${preview.answer && html`<${Outcome} answer=${preview.answer} values=${values} definition=${definition} call=${callOf(values, definition, etag, true)} refusal=${refusal} />`}`;
}

const LINES = ["positions", "objectives"];

function Field({ of, value, isFixed, set }) {
  const change = (event) => set(event.target.value);
  const common = { id: `field-${of.key}`, value, disabled: isFixed, "aria-describedby": of.hint ? `hint-${of.key}` : null };
  return html`<p class="field"><label for=${common.id}>${of.label}</label>
    ${Array.isArray(of.kind) ? html`<select ...${common} onChange=${change}>${of.kind.map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select>`
      : LINES.includes(of.kind) ? html`<textarea ...${common} rows="2" spellcheck="false" onInput=${change}></textarea>`
      : html`<input ...${common} type=${of.kind === "number" ? "number" : "text"} min=${of.kind === "number" ? "1" : null} spellcheck="false" autocomplete="off" onInput=${change} />`}
    ${of.hint && html`<span id=${`hint-${of.key}`} class="small quiet">${of.hint}</span>`}</p>`;
}

function Outcome({ answer, values, definition, call, refusal }) {
  const effect = effectOf(answer);
  const stops = stopsOf(answer);
  const done = () => {
    location.hash = to(`datastreams/${encodeURIComponent(values.name)}`);
  };
  return html`<${Card} id="outcome" title="Effect" note="preview; nothing has been changed yet">
    ${stops && html`<div class="alert" role="alert"><p class="strong">${stops}</p></div>`}
    <div role="status"><${Facts} of=${effect.facts} /></div>
    ${definition && html`<ul>${effect.changes.map((one) => html`<li key=${one.field}><code>${one.field}</code>: ${one.before} → ${one.after}</li>`)}</ul>`}
    <ul>${effect.reasons.map((reason) => html`<li key=${reason}>${reason}</li>`)}</ul>
    <${Moves} rows=${effect.rows} />
    <${Act} label=${definition ? "Save changes" : "Create datastream"} main refusal=${refusal} call=${call} typed=${stops ? values.name : null} done=${done}
      question=${definition ? `Save the changes to ${values.name}? ${stops}` : `Create ${values.name}?`} says=${() => "Saved. The next plan includes the change."} /><//>`;
}
