/* api.js - what the page asks the server: the key, one JSON answer, one stream of events. The key lives as long as the tab. */

const STORED = "wane-key";

function stored() {
  try { return sessionStorage.getItem(STORED) || ""; } catch { return ""; }
}

let key = stored();

export function hasKey() {
  return key !== "";
}

export function setKey(text) {
  key = text.trim();
  try {
    if (key) sessionStorage.setItem(STORED, key);
    else sessionStorage.removeItem(STORED);
  } catch { /* then for this page only */ }
}

/** A refusal of the server's, in its own words. */
export class Refusal extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

export async function ask(path, { body, headers = {}, signal } = {}) {
  const all = { ...headers };
  if (key) all.authorization = "Bearer " + key;
  if (body) all["content-type"] = "application/json";
  const answer = await fetch(path, { method: body ? "POST" : "GET", headers: all, body: body && JSON.stringify(body), signal, cache: "no-store" });
  if (answer.ok) return answer;
  let text = `The server answered ${answer.status}.`;
  try { text = (await answer.json()).error.message || text; } catch { /* no JSON: the status must do */ }
  throw new Refusal(answer.status, text);
}

/** The events of a stream: {event, data}, data still text. Comments are left out. */
export async function* events(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      rest += value;
      for (let end; (end = rest.indexOf("\n\n")) >= 0; rest = rest.slice(end + 2)) {
        let event = "message", data = "";
        for (const line of rest.slice(0, end).split("\n")) {
          if (line.startsWith("event: ")) event = line.slice(7);
          else if (line.startsWith("data: ")) data += line.slice(6);
        }
        if (data) yield { event, data };
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/**
 * One reply as it comes. Calls onToken(token, text) for each piece; `token` is the trace's, or null. Returns what is known at the end.
 */
export async function reply(request, { signal, onToken }) {
  const began = performance.now();
  const result = { finish: null, tokens: 0, firstMs: 0, wholeMs: 0, wane: null };
  const answer = await ask("/v1/chat/completions", {
    body: { model: "default", stream: true, stream_options: { include_usage: true }, ...request },
    headers: { "wane-trace": "1" },
    signal,
  });
  for await (const { data } of events(answer)) {
    if (data === "[DONE]") break;
    const chunk = JSON.parse(data);
    if (chunk.error) throw new Refusal(500, chunk.error.message);
    if (chunk.usage) result.usage = chunk.usage;
    const choice = chunk.choices[0];
    if (!choice) continue;
    if (choice.finish_reason) {
      result.finish = choice.finish_reason;
      result.wane = chunk.wane || null;
      continue;
    }
    const token = chunk.wane?.token ?? null;
    const text = choice.delta.content || "";
    if (!token && !text) continue;
    if (token && result.tokens++ === 0) result.firstMs = performance.now() - began;
    result.wholeMs = performance.now() - began;
    onToken(token, text);
  }
  return result;
}
