// Event stream of the service, read with fetch because EventSource cannot send a token.

import { headersOf } from "./api.js";

const AGAIN_MS = 3000;
/** Time without an event or a heartbeat after which the stream is broken. The service sends a heartbeat every 15 s. */
const SILENT_MS = 40_000;

/** Parse a chunk of an event stream; return its events and the incomplete remainder. Pure. */
export function eventsOf(text) {
  const blocks = text.replaceAll("\r\n", "\n").split("\n\n");
  const rest = blocks.pop();
  const events = [];
  for (const block of blocks) {
    const event = { id: "", kind: "message", data: "" };
    for (const line of block.split("\n")) {
      const at = line.indexOf(":");
      if (at <= 0) continue;
      const value = line.slice(at + 1).replace(/^ /, "");
      if (line.startsWith("id:")) event.id = value;
      else if (line.startsWith("event:")) event.kind = value;
      else if (line.startsWith("data:")) event.data += value;
    }
    if (event.id || event.data) events.push(event);
  }
  return { events, rest };
}

/** Call `heard(event)` for each event and `changed(isOpen)` when the stream opens or breaks. Returns a function that stops it. */
export function listen(heard, changed, silentMs = SILENT_MS) {
  const ending = new AbortController();
  let last = "";
  const read = async () => {
    const silence = new AbortController();
    let timer = setTimeout(() => silence.abort(), silentMs);
    try {
      return await readUntil(silence, () => {
        clearTimeout(timer);
        timer = setTimeout(() => silence.abort(), silentMs);
      });
    } finally {
      clearTimeout(timer);
    }
  };
  const readUntil = async (silence, received) => {
    const headers = headersOf({ headers: { Accept: "text/event-stream" } });
    if (last) headers["Last-Event-ID"] = last;
    const answer = await fetch("/v1/events", { headers, signal: AbortSignal.any([ending.signal, silence.signal]), cache: "no-store" });
    if (!answer.ok) return answer.status;
    changed(true);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return 200;
      received();
      const found = eventsOf(rest + value);
      rest = found.rest;
      for (const event of found.events) {
        last = event.id || last;
        if (event.data) heard(event.kind === "gap" ? { kind: "gap" } : JSON.parse(event.data));
      }
    }
  };
  (async () => {
    while (!ending.signal.aborted) {
      let status = 0;
      try {
        status = await read();
      } catch {
        status = 0;
      }
      changed(false);
      if (status === 401 || status === 403) return;
      await new Promise((done) => setTimeout(done, AGAIN_MS));
    }
  })();
  return () => ending.abort();
}
