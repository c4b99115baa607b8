// A bad anchor drops its whole set, so the page asks for confirmation first.

import { $ } from "./api.js";
import { actionOf } from "./keys.js";

export class Drop {
  constructor(host, say) {
    this.host = host;
    this.asked = null; // the card that the dialog is about
    $("confirm-no").addEventListener("click", () => $("confirm").close());
    $("confirm-yes").addEventListener("click", () => {
      if (!$("confirm").open) return;
      $("confirm").close();
      if (host.card === this.asked) say();
    });
    $("confirm").addEventListener("keydown", (event) => {
      // After Escape, the focus stays inside the closed dialog for a moment. Keys pressed then are ignored.
      if (!$("confirm").open || actionOf(event) !== "bad" || event.repeat) return;
      event.preventDefault();
      event.stopPropagation(); // otherwise the same key press would open the dialog for the next pair
      $("confirm-yes").click();
    });
  }

  ask() {
    if (!this.host.ready || this.host.card.stage === "practice") return;
    this.asked = this.host.card;
    $("confirm").showModal();
  }

  // The second key press may come before the dialog has the focus.
  keyBehind(event, open) {
    if (open.id === "confirm" && !open.contains(event.target) && actionOf(event) === "bad" && !event.repeat) $("confirm-yes").click();
  }
}
