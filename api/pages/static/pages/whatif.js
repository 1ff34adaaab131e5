// Sliders for the limits of a datastream, with the effect of each position by dry run.

import { html, useEffect, useState } from "../vendor/htm/standalone.module.js";
import { ask, part } from "../lib/api.js";
import { Act, Call, Card, Facts, Trouble, Troubles, to, useAnswers, useRefusal } from "../lib/parts.js";
import { effectOf, limitsCall, slidersOf } from "../views/preview.js";
import { Moves } from "./preview.js";

const PAUSE_MS = 400;
export const title = ({ argument }) => `What if: ${argument}`;

export default function WhatIf({ argument: name }) {
  const { values, errors } = useAnswers({ all: `/v1/overview?datastream=${part(name)}`, definition: `/v1/datastreams/${part(name)}` }, 60000);
  const one = values.all?.value.datastreams[0];
  return html`
    <p class="crumb"><a href="#/">Datastreams</a> › <a href=${to(`datastreams/${encodeURIComponent(name)}`)}>${name}</a> ›</p>
    <div class="head"><h1>What if …</h1><span class="quiet">change the limits of ${name}</span></div>
    <${Troubles} errors=${errors} />
    ${one && values.definition && html`<${Sliders} name=${name} one=${one} definition=${values.definition} usable=${one.usable_bytes_per_second} />`}`;
}

function Sliders({ name, one, definition, usable }) {
  const found = slidersOf(definition.value, one, usable);
  const [wanted, setWanted] = useState({});
  const [answer, setAnswer] = useState({});
  const refusal = useRefusal(one.owner);
  const call = limitsCall(name, wanted, definition.etag, false);
  const isAsked = Object.keys(wanted).length > 0;
  useEffect(() => {
    if (!isAsked || refusal) return undefined;
    const ending = new AbortController();
    const timer = setTimeout(() => ask(call, ending.signal).then(
      (said) => setAnswer({ effect: effectOf(said.value) }),
      (error) => error.name !== "AbortError" && setAnswer({ error })), PAUSE_MS);
    return () => {
      clearTimeout(timer);
      ending.abort();
    };
  }, [JSON.stringify(wanted), refusal]);
  return html`
    <${Card} id="sliders" title="Limits" note=${found.note}>
      ${found.sliders.map((slider) => html`<${Slider} key=${slider.key} of=${slider} value=${slider.key in wanted ? wanted[slider.key] : slider.value}
        set=${(value) => setWanted({ ...wanted, [slider.key]: value })} />`)}
      ${refusal && html`<p class="small quiet">${refusal}</p>`}
      <p class="small quiet">Headrace computes the effect of each value. Nothing changes until you apply the limits.</p>
    <//>
    ${!isAsked && html`<p class="quiet">Move a slider to see its effect.</p>`}
    <${Trouble} error=${answer.error} />
    ${isAsked && answer.effect && html`<${Card} id="effect" title="Effect">
      <div role="status"><${Facts} of=${answer.effect.facts} /></div>
      <ul>${answer.effect.reasons.map((reason) => html`<li key=${reason}>${reason}</li>`)}</ul>
      <${Moves} rows=${answer.effect.rows} />
      <${Call} call=${call} />
      <${Act} label="Apply limits" refusal=${refusal} question=${`Change the limits of ${name}?`} call=${limitsCall(name, wanted, definition.etag, true)} says=${() => "Limits saved. The next plan uses them."} />
    <//>`}`;
}

const Slider = ({ of, value, set }) => html`<div class="slider">
  <label for=${of.key}>${of.label}</label>
  <input type="range" id=${of.key} min=${of.least} max=${of.off ? of.most + 1 : of.most} step="1" value=${value === null ? of.most + 1 : value}
    aria-valuetext=${value === null ? of.off : String(value)}
    onInput=${(event) => set(of.off && Number(event.target.value) > of.most ? null : Number(event.target.value))} />
  <output for=${of.key} class="num">${value === null ? of.off : value}</output></div>`;
