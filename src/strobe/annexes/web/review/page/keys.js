// Keyboard shortcuts: shown on every button and in a list. Changed keys are stored in this browser.

import { $, element } from "./api.js";
import { keep, kept } from "./storage.js";

const NAMES = { " ": "Space", ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓" };
const STORED = "strobe:keys";

let defaults = {}; // action → [key, description], from the question module
let own = {};
try {
  own = JSON.parse(kept(STORED)) || {};
} catch {
  own = {};
}
let waitingFor = null;

export const keyOf = (action) => own[action] || defaults[action]?.[0];
const nameOf = (key) => NAMES[key] || (key.length === 1 ? key.toUpperCase() : key);

export function actionOf(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return null;
  const pressed = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const actionFor = (key) => Object.keys(defaults).find((action) => keyOf(action) === key);
  // "=" is "+" without Shift on most keyboards, unless it was assigned to another action.
  return actionFor(pressed) || (pressed === "=" && actionFor("+")) || null;
}

export function showKeys() {
  for (const button of document.querySelectorAll("button[data-action]")) {
    const key = keyOf(button.dataset.action);
    let hint = button.querySelector("kbd");
    if (!hint) button.append(" ", (hint = element("kbd")));
    hint.textContent = nameOf(key);
    button.setAttribute("aria-keyshortcuts", key === " " ? "Space" : key);
  }
  for (const hint of document.querySelectorAll("kbd[data-key-of]")) hint.textContent = nameOf(keyOf(hint.dataset.keyOf));
  const list = $("key-list");
  list.replaceChildren(
    ...Object.entries(defaults).map(([action, [, text]]) => {
      const line = element("li");
      const change = element("button", nameOf(keyOf(action)), { type: "button", "aria-label": `${text}: ${nameOf(keyOf(action))}. Change` });
      change.addEventListener("click", () => {
        waitingFor = action;
        change.textContent = "press a key";
      });
      line.append(element("span", text), change);
      return line;
    }),
  );
}

export function openKeys() {
  waitingFor = null;
  showKeys();
  $("keys").showModal();
}

export function setUpKeys(keys, touch) {
  defaults = keys;
  $("touch-list").replaceChildren(...touch.map((text) => element("li", text)));
  $("keys-close").addEventListener("click", () => $("keys").close());
  $("keys-button").addEventListener("click", openKeys);
  $("keys-reset").addEventListener("click", () => change({}));
  $("keys").addEventListener("keydown", (event) => {
    if (!$("keys").open || !waitingFor || ["Shift", "Control", "Alt", "Meta", "Tab"].includes(event.key)) return;
    event.preventDefault();
    event.stopPropagation();
    const done = waitingFor;
    if (event.key !== "Escape") {
      const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
      // If another action had this key, it gets the old key of this action, so that every action keeps a key.
      const other = Object.keys(defaults).find((action) => action !== waitingFor && keyOf(action) === key);
      const next = { ...own, [waitingFor]: key };
      if (other) next[other] = keyOf(waitingFor);
      change(next);
    }
    waitingFor = null;
    showKeys();
    [...$("key-list").querySelectorAll("button")][Object.keys(defaults).indexOf(done)].focus();
  });
  showKeys();
}

function change(next) {
  own = next;
  keep(STORED, JSON.stringify(own));
  waitingFor = null;
  showKeys();
}
