// Frame of all pages: routing, authentication, and live updates.

import { html, render, useEffect, useRef, useState } from "./vendor/htm/standalone.module.js";
import { isToken, token } from "./lib/api.js";
import { listen } from "./lib/live.js";
import { Sign, Trouble, announce, useAnswers } from "./lib/parts.js";

const PAGES = {
  "": () => import("./pages/overview.js"),
  datastreams: () => import("./pages/datastream.js"),
  offending: () => import("./pages/hot.js"),
  edit: () => import("./pages/edit.js"),
  plans: () => import("./pages/preview.js"),
  whatif: () => import("./pages/whatif.js"),
  advice: () => import("./pages/advice.js"),
  usage: () => import("./pages/usage.js"),
  incidents: () => import("./pages/incidents.js"),
  dr: () => import("./pages/dr.js"),
  instances: () => import("./pages/instances.js"),
};
const MENU = [["", "Overview"], ["offending", "Hot partitions"], ["advice", "Advice"], ["usage", "Usage"], ["incidents", "Incidents"], ["dr", "Recovery"], ["instances", "Instances"]];

/** Parse a location hash: #/name/argument?query. Pure. */
export function routeOf(hash) {
  const [path, words] = (hash.startsWith("#/") ? hash.slice(2) : "").split("?");
  const [name, ...rest] = path.split("/");
  let argument = "";
  try {
    argument = decodeURIComponent(rest.join("/"));
  } catch {
    argument = rest.join("/");
  }
  return { name, argument, query: Object.fromEntries(new URLSearchParams(words || "")) };
}

function useRoute() {
  const [route, setRoute] = useState(routeOf(location.hash));
  useEffect(() => {
    const changed = () => setRoute(routeOf(location.hash));
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return route;
}

function App() {
  const route = useRoute();
  const [page, setPage] = useState(null);
  const [trouble, setTrouble] = useState(null);
  const [login, setLogin] = useState(0);
  useEffect(() => {
    let isGone = false;
    const load = Object.hasOwn(PAGES, route.name) && PAGES[route.name];
    if (!load) {
      setTrouble({ message: "page not found", advice: "choose a page from the menu" });
      setPage(null);
      return undefined;
    }
    load().then((module) => {
      if (isGone) return;
      setTrouble(null);
      setPage({ name: route.name, module });
      document.title = `${module.title(route)} · Headrace`;
    }, () => isGone || setTrouble({ message: "cannot load this page", advice: "check that the instance is running, then reload" }));
    return () => {
      isGone = true;
    };
  }, [route.name, route.argument]);
  useFocus(`${route.name}/${route.argument}`);
  const isCurrent = page && page.name === route.name;
  return html`<${Top} route=${route} key=${login} changed=${() => setLogin(login + 1)} />
    <main id="main" tabindex="-1"><${Trouble} error=${trouble} />
    ${isCurrent && html`<${page.module.default} key=${`${login}/${route.name}/${route.argument}/${JSON.stringify(route.query)}`} argument=${route.argument} query=${route.query} />`}</main>`;
}

/** Focus the content after navigation, as after a load. */
function useFocus(place) {
  const isFirst = useRef(true);
  useEffect(() => {
    if (!isFirst.current) {
      document.getElementById("main").focus();
      scrollTo(0, 0);
    }
    isFirst.current = false;
  }, [place]);
}

function Top({ route, changed }) {
  const [isLive, setLive] = useState(false);
  const { values, errors } = useAnswers({ caller: "/v1/caller" }, 60000);
  useEffect(() => listen(() => announce(), setLive), []);
  const caller = values.caller?.value;
  const needsToken = errors.caller?.status === 401;
  return html`<header class="top"><div>
    <a class="brand" href="#/"><img src="icon.svg" alt="" />Headrace</a>
    <nav aria-label="Pages">${MENU.map(([name, word]) => html`<a key=${name} href=${`#/${name}`} aria-current=${route.name === name ? "page" : null}>${word}</a>`)}</nav>
    <div class="who">
      ${isLive ? html`<${Sign} tone="good" sign="●" word="live" title="The page is updated by events of the service." />`
               : html`<${Sign} tone="idle" sign="○" word="polling" title="The event stream is disconnected. The page polls the service every 5 seconds." />`}
      ${caller && html`<span title="user and role of the current token">${caller.name === "everybody" ? "authentication off" : `${caller.name} (${caller.role})`}</span>`}
      ${(needsToken || token.get()) && html`<${Token} isNeeded=${needsToken} changed=${changed} />`}
    </div></div></header>`;
}

function Token({ isNeeded, changed }) {
  const dialog = useRef(null);
  const [text, setText] = useState("");
  const [wrong, setWrong] = useState("");
  useEffect(() => {
    if (isNeeded && !dialog.current.open) dialog.current.showModal();
  }, [isNeeded]);
  const take = (event) => {
    event.preventDefault();
    if (!isToken(text.trim())) {
      setWrong("Invalid token: tokens contain no spaces and only ASCII characters.");
      return;
    }
    setWrong("");
    token.set(text.trim());
    dialog.current.close();
    changed();
  };
  const leave = () => {
    token.set("");
    changed();
  };
  return html`<button type="button" onClick=${() => (isNeeded ? dialog.current.showModal() : leave())}>${isNeeded ? "Sign in" : "Sign out"}</button>
    <dialog ref=${dialog} aria-labelledby="token-title"><form class="ask" onSubmit=${take}>
      <h2 id="token-title">Sign in</h2>
      <p>This service requires a token. To create one, run <code>headrace token add</code>. The token is kept until this tab is closed.</p>
      ${isNeeded && token.get() && html`<p class="alert">The previous token was rejected.</p>`}
      ${wrong && html`<p class="alert" role="alert">${wrong}</p>`}
      <label for="token">Token</label>
      <input id="token" type="password" autocomplete="off" spellcheck="false" value=${text} onInput=${(event) => setText(event.target.value)} />
      <div class="acts"><button class="main">Sign in</button><button type="button" onClick=${() => dialog.current.close()}>Cancel</button></div>
    </form></dialog>`;
}

/** The URL selects the page, so following the skip link must not change it. */
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  document.getElementById("main").focus();
});

render(html`<${App} />`, document.getElementById("app"));
