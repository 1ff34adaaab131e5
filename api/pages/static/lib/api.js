// REST calls with the user's token, which is kept until the tab is closed.

const TOKEN = "headrace.token";
/** Longest time for a response. A frozen instance accepts connections, but never responds. */
const LONGEST_MS = 60_000;

/** Error response, with the text of its problem document. */
export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || `the service responded with status ${status}`);
    this.status = status;
    this.advice = problem.advice || "";
    this.requestId = problem.request_id || "";
  }
}

/** Return whether a header can carry the token; otherwise fetch would fail as if the server were down. Pure. */
export const isToken = (text) => /^[\x21-\x7e]*$/.test(text);

export const token = {
  get: () => {
    const kept = sessionStorage.getItem(TOKEN) || "";
    return isToken(kept) ? kept : "";
  },
  set: (value) => (value ? sessionStorage.setItem(TOKEN, value) : sessionStorage.removeItem(TOKEN)),
};

/** Return the headers of a call. */
export function headersOf(call) {
  const headers = { Accept: "application/json", ...call.headers };
  if (call.body !== undefined) headers["Content-Type"] = call.type || "application/json";
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  return headers;
}

/** Send a call. Throws Refused, also if the server does not respond in time (status 0). */
export async function ask(call, signal, longestMs = LONGEST_MS) {
  const { method = "GET", path, body } = call;
  let answer;
  let text;
  try {
    answer = await fetch(path, {
      method, headers: headersOf(call), cache: "no-store", credentials: "same-origin",
      signal: AbortSignal.any([AbortSignal.timeout(longestMs), signal].filter(Boolean)),
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    text = await answer.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, { detail: "this instance does not respond", advice: "check that the instance is running, or open the pages of another instance" });
  }
  let found = null;
  try {
    found = text ? JSON.parse(text) : null;
  } catch {
    throw new Refused(answer.status, { detail: "the response is not JSON; check whether a proxy responds instead of the service" });
  }
  if (!answer.ok && !(call.also || []).includes(answer.status)) throw new Refused(answer.status, found || {});
  return { value: found, etag: answer.headers.get("ETag"), asOfMs: Number(answer.headers.get("As-Of-Ms")) || null,
           link: answer.headers.get("Link") || "" };
}

export const get = (path, signal) => ask({ path }, signal);

/** Encode a path segment. */
export const part = (text) => encodeURIComponent(text);

/** Return the call as a curl command. The token is a shell variable, so it is never shown. */
export function curlOf(call, origin) {
  const { method = "GET", path, body, headers = {} } = call;
  const words = ["curl", "-sS"];
  if (method !== "GET") words.push("-X", method);
  words.push(quoted(origin + path), '-H "Authorization: Bearer $HEADRACE_TOKEN"');
  for (const [name, value] of Object.entries(headers)) words.push("-H", quoted(`${name}: ${value}`));
  if (body !== undefined) {
    words.push("-H", quoted(`Content-Type: ${call.type || "application/json"}`));
    words.push("-d", quoted(JSON.stringify(body)));
  }
  return words.join(" ");
}

function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
