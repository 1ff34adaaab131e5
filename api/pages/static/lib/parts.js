// Components and hooks shared by all pages.

import { html, useEffect, useRef, useState } from "../vendor/htm/standalone.module.js";
import { ask, curlOf, get } from "./api.js";
import { ago, moment, UNKNOWN } from "./format.js";

const NEWS_MS = 600;
const NEWS = new EventTarget();

/** Refresh all displayed data after an event of the service. */
export const announce = () => NEWS.dispatchEvent(new Event("news"));

/** Responses of several paths, fetched now, after events, and periodically while the page is visible.
 *  `paths`: by name; null paths are not fetched. Returns { values, errors, atMs, isFirst }. */
export function useAnswers(paths, everyMs = 5000) {
  const [state, setState] = useState({ values: {}, errors: {}, atMs: 0 });
  const key = JSON.stringify(paths);
  useEffect(() => {
    setState({ values: {}, errors: {}, atMs: 0 });
    const ending = new AbortController();
    let isAsking = false;
    let isNewer = false;  // an event came after the requests in progress were sent
    let timer = 0;
    const look = async () => {
      if (isAsking) return;
      isAsking = true;
      isNewer = false;
      const wanted = Object.entries(JSON.parse(key)).filter(([, path]) => path);
      const found = await Promise.all(wanted.map(([name, path]) =>
        get(path, ending.signal).then((answer) => ({ name, answer }), (error) => ({ name, error }))));
      isAsking = false;
      if (ending.signal.aborted) return;
      setState((before) => {
        const values = { ...before.values };
        const errors = {};
        for (const { name, answer, error } of found) {
          if (error) errors[name] = error;
          else values[name] = answer;
        }
        return { values, errors, atMs: Date.now() };
      });
      if (isNewer) news();
    };
    const hear = () => {
      isNewer = isAsking;
      look();
    };
    const beat = setInterval(() => document.visibilityState === "visible" && look(), everyMs);
    const news = () => {
      clearTimeout(timer);
      timer = setTimeout(hear, NEWS_MS);
    };
    look();
    NEWS.addEventListener("news", news);
    return () => {
      ending.abort();
      clearInterval(beat);
      clearTimeout(timer);
      NEWS.removeEventListener("news", news);
    };
  }, [key, everyMs]);
  return { ...state, isFirst: !state.atMs };
}

/** The current time, updated every second or every `everyMs`. */
export function useNow(everyMs = 1000) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}

/** A relative time, with the absolute time on hover and in the datetime attribute. */
export function Ago({ ms, nothing = UNKNOWN }) {
  const now = useNow();
  if (ms === null || ms === undefined) return html`<span class="unknown">${nothing}</span>`;
  return html`<time datetime=${new Date(ms).toISOString()} title=${moment(ms)}>${ago(ms, now)}</time>`;
}

/** A state, shown by colour, sign and word. */
export const Sign = ({ tone, sign, word, title }) =>
  html`<span class=${`sign ${tone}`} data-sign=${sign} title=${title || null}>${word}</span>`;

/** A value; "unknown" is styled differently. */
export const Value = ({ text }) =>
  text === UNKNOWN ? html`<span class="unknown">${UNKNOWN}</span>` : html`<span>${text}</span>`;

/** An error of a request, with advice. */
export function Trouble({ error }) {
  if (!error) return null;
  return html`<div class="alert" role="alert"><p class="strong">${error.message}</p>
    ${error.advice && html`<p>${error.advice}</p>`}
    ${error.requestId && html`<p class="small quiet">To find this error in the log of the instance, search for request id <code>${error.requestId}</code>.</p>`}</div>`;
}

/** All errors of some requests, without duplicates. */
export function Troubles({ errors }) {
  const found = [...new Map(Object.values(errors).map((one) => [one.message, one])).values()];
  return found.map((error) => html`<${Trouble} key=${error.message} error=${error} />`);
}

export const Card = ({ title, note, children, id }) => html`
  <section class="card" aria-labelledby=${id}>
    <header><h2 id=${id}>${title}</h2>${note && html`<span class="quiet">${note}</span>`}</header>
    ${children}
  </section>`;

export const Facts = ({ of }) => html`<dl class="facts">${of.map((one) => html`
  <div key=${one.name}><dt>${one.name}</dt><dd title=${one.title || null}><${Value} text=${one.text} />
  ${one.note && html`<small>${one.note}</small>`}${one.asOfMs && html`<small>planned <${Ago} ms=${one.asOfMs} /></small>`}</dd></div>`)}</dl>`;

/** An API call that can be copied. */
export function Call({ call }) {
  const [word, setWord] = useState("Copy");
  const text = curlOf(call, location.origin);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setWord("Copied");
    } catch {
      setWord("Cannot copy; select the text");
    }
  };
  return html`<details class="small"><summary>API call</summary>
    <pre class="call" tabindex="0">${text}</pre><button type="button" onClick=${copy}>${word}</button></details>`;
}

/** A button that executes one API call, and shows it. `refusal`: why this caller may not. `typed`: name to type as a
 *  confirmation of destructive actions. */
export function Act({ label, call, refusal, question, main, done, says, typed }) {
  const [state, setState] = useState({ phase: "idle" });
  const [text, setText] = useState("");
  const dialog = useRef(null);
  const id = `why-${label.replaceAll(/\W+/g, "-").toLowerCase()}`;
  const open = () => {
    setText("");
    dialog.current.showModal();
  };
  const make = async () => {
    dialog.current?.close();
    setState({ phase: "asking" });
    try {
      const answer = await ask(call);
      setState({ phase: "done", text: says ? says(answer.value) : "Done." });
      announce();
      done?.(answer);
    } catch (error) {
      setState({ phase: "failed", error });
    }
  };
  return html`<div class="act">
    <div><button type="button" class=${main ? "main" : ""} disabled=${!!refusal || state.phase === "asking"}
      aria-describedby=${refusal ? id : null}
      onClick=${() => (question ? open() : make())}>${label}</button></div>
    ${refusal && html`<p id=${id} class="small quiet">${refusal}</p>`}
    <div role="status" class="small">${state.phase === "done" && state.text}</div>
    <${Trouble} error=${state.phase === "failed" ? state.error : null} />
    <${Call} call=${call} />
    ${question && html`<dialog ref=${dialog} aria-label=${label}><p>${question}</p>
      <pre class="call">${curlOf(call, location.origin)}</pre>
      ${typed && html`<p><label for=${`type-${id}`}>Type <code>${typed}</code> to confirm</label><br />
        <input id=${`type-${id}`} value=${text} autocomplete="off" spellcheck="false" onInput=${(event) => setText(event.target.value)} /></p>`}
      <div class="acts"><button type="button" class="main" disabled=${!!typed && text !== typed} onClick=${make}>${label}</button>
      <button type="button" autofocus onClick=${() => dialog.current.close()}>Cancel</button></div></dialog>`}
  </div>`;
}

/** Why the caller may not change the datastreams of these owners; "" if it may. */
export function useRefusal(owner) {
  const query = owner ? `?owner=${encodeURIComponent(owner)}` : "";
  const { values } = useAnswers({ caller: owner === undefined ? null : `/v1/caller${query}` }, 60000);
  return values.caller ? values.caller.value.refusal : "Checking permissions …";
}

/** Link to another of these pages. */
export const to = (path, query = {}) => {
  const words = new URLSearchParams(Object.entries(query).filter(([, value]) => value)).toString();
  return `#/${path}${words ? `?${words}` : ""}`;
};

/** The first rows, and a button that shows more. */
export function usePage(rows, size = 50) {
  const [shown, setShown] = useState(size);
  const more = rows.length - shown;
  const button = more > 0
    ? html`<p><button type="button" onClick=${() => setShown(shown + size)}>Show ${Math.min(size, more)} more of ${more}</button></p>`
    : null;
  return [rows.slice(0, shown), button];
}
