// Requests to the server: JSON in, JSON out, and an error that tells whether a retry can help.

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
  // The server could not be reached, is overloaded or failed: a retry may work.
  get mayPass() {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

async function call(path, options) {
  let answer;
  try {
    answer = await fetch(path, { credentials: "same-origin", cache: "no-store", signal: AbortSignal.timeout(15000), ...options });
  } catch {
    throw new Refused(0, "the server cannot be reached");
  }
  let data = {};
  try {
    data = await answer.json();
  } catch {
    if (answer.ok) throw new Refused(0, "the server's response was cut off");
  }
  if (!answer.ok) throw new Refused(answer.status, data.error || `error ${answer.status}`);
  return data;
}

export const get = (path) => call(path, {});

export const post = (path, body) =>
  call(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });

export function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

export const $ = (id) => document.getElementById(id);

export function element(tag, text, attributes = {}) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}
