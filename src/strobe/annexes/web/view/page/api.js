// Requests to the server, elements, and the state of the page, which is the address.

export async function call(path, body) {
  const options = body === undefined ? {} : { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  let answer;
  try {
    answer = await fetch(path, { credentials: "same-origin", cache: "no-store", ...options });
  } catch {
    throw new Error("the server cannot be reached; is strobe view still running?");
  }
  const data = await answer.json().catch(() => ({}));
  if (!answer.ok) {
    const error = new Error(data.error || `error ${answer.status}`);
    error.status = answer.status;
    throw error;
  }
  return data;
}

export const $ = (id) => document.getElementById(id);

// An element with a class, children (texts or elements) and attributes. Texts are never parsed as HTML.
export function make(tag, { cls, on, ...attributes } = {}, ...children) {
  const node = document.createElement(tag);
  if (cls) node.className = cls;
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== undefined && value !== null) node.setAttribute(name, value);
  }
  for (const [event, act] of Object.entries(on ?? {})) node.addEventListener(event, act);
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export function shape(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

// -- the state --------------------------------------------------------------------------------------------------

export const state = () => new URLSearchParams(location.search);

export const FILTERS = ["m", "c", "a", "v", "d", "k", "r", "h", "p", "t", "q", "x"];
const KEPT = ["data", "f", "s", ...FILTERS];

// The filters of the current address as a query for the server.
export function query(more = {}, from = state()) {
  const out = new URLSearchParams();
  for (const key of KEPT) for (const value of from.getAll(key)) out.append(key, value);
  for (const [key, value] of Object.entries(more)) out.set(key, value);
  return out.toString();
}

// An address with the current filters and these changes; null removes a key.
export function address(changes, from = state()) {
  const out = new URLSearchParams(from);
  for (const [key, value] of Object.entries(changes)) {
    out.delete(key);
    for (const one of Array.isArray(value) ? value : [value]) if (one !== null && one !== undefined && one !== "") out.append(key, one);
  }
  return `${location.pathname}?${out}`;
}

let draw = async () => {};
export const onState = (act) => { draw = act; };

export async function go(to, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", to);
  await draw();
}

// A link that changes the state without loading the page again.
export function link(changes, attributes, ...children) {
  const to = typeof changes === "string" ? changes : address(changes);
  const { on, ...rest } = attributes;
  return make("a", { href: to, ...rest, on: { ...on, click: (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    go(to);
  } } }, ...children);
}

export const number = (value) => Number(value).toLocaleString("en-US");
export const plural = (n, noun) => `${number(n)} ${noun}${n === 1 ? "" : "s"}`;
export const say = (text) => { $("status").textContent = text; };
export function warn(text) {
  $("alert").textContent = text;
  $("alert").hidden = !text;
}

// A set that is named by its frame alone is shown with its video.
export const fullName = (name, video) => (name.includes(video) ? name : `${video}·${name}`);

export const STATUS = ["unscored", "holds", "breaks", "wrong"];
export const SIGN = { unscored: "·", holds: "✓", breaks: "✕", wrong: "○" };
export const short = (kind, labelled) => ({ unscored: "not scored", holds: labelled ? "right" : "one answer", breaks: "flickers", wrong: "wrong on the anchor" })[kind] ?? kind;
export const words = (labelled) => (labelled
  ? { unscored: "not scored", holds: "right on all frames", breaks: "flickers: right, then wrong", wrong: "wrong on the anchor" }
  : { unscored: "not scored", holds: "one answer on all frames", breaks: "flickers: the answer changes", wrong: "" });
