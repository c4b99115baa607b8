// Turns key presses, clicks and touches into actions of the page (main.js) or of the question.

import { $ } from "./api.js";
import { actionOf } from "./keys.js";

function onKey(event, question, act) {
  const open = document.querySelector("dialog[open]");
  if (open) return question?.keyBehindDialog?.(event, open);
  if (!$("review").hidden && question.key?.(event, act)) return undefined;
  const typing = event.target.matches("input, textarea, select");
  if (typing && (event.key === "Escape" || (event.key === "Enter" && event.target.id === "note"))) return event.target.blur();
  if (typing) return undefined;
  // Space and Enter press the button that has the focus, unless it is in a closed dialog.
  const focused = event.target.matches("button, a") && !event.target.closest("dialog");
  if (focused && (event.key === " " || event.key === "Enter")) return undefined;
  const action = actionOf(event);
  if (!action) return undefined;
  event.preventDefault();
  // A key that is held down moves the view, but never decides twice.
  if (event.repeat && !question?.repeats?.(action)) return undefined;
  return act(action);
}

export function wire(question, act) {
  document.addEventListener("keydown", (event) => onKey(event, question(), act));
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-action]");
    if (!button) return;
    // After a click the focus would stay on the button, and Space would press it again.
    if (event.detail) button.blur();
    act(button.dataset.action);
  });
}
