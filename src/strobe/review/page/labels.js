// The label stage: one anchor alone; classes are added or removed from a searchable list by keyboard.

import { $, element } from "./api.js";

export class LabelPanel {
  constructor() {
    this.classes = [];
    this.chosen = [];
    this.active = 0;
    $("search").addEventListener("input", () => this.list(0));
    $("search").addEventListener("keydown", (event) => this.key(event));
  }

  show(ids) {
    this.chosen = [...ids];
    $("search").value = "";
    this.list(0);
    this.chips();
  }

  matches() {
    const wanted = $("search").value.trim().toLowerCase();
    const fits = (one) => one.name.toLowerCase().includes(wanted) || one.id.toLowerCase().includes(wanted);
    const found = this.classes.filter(fits);
    // What starts with the words comes first.
    return found.sort((a, b) => b.name.toLowerCase().startsWith(wanted) - a.name.toLowerCase().startsWith(wanted)).slice(0, 60);
  }

  list(active) {
    const found = this.matches();
    this.active = Math.max(0, Math.min(active, found.length - 1));
    $("classes").replaceChildren(
      ...found.map((one, place) => {
        const line = element("li", one.name, {
          role: "option",
          id: `class-${place}`,
          "aria-selected": String(this.chosen.includes(one.id)),
        });
        line.classList.toggle("active", place === this.active);
        line.addEventListener("click", () => this.toggle(one.id));
        return line;
      }),
    );
    $("search").setAttribute("aria-activedescendant", found.length ? `class-${this.active}` : "");
    $("classes").children[this.active]?.scrollIntoView({ block: "nearest" });
  }

  chips() {
    const nameOf = (id) => this.classes.find((one) => one.id === id)?.name || id;
    $("chips").replaceChildren(
      ...this.chosen.map((id) => {
        const line = element("li");
        const chip = element("button", nameOf(id), { type: "button", "aria-label": `Remove ${nameOf(id)}` });
        chip.addEventListener("click", () => this.toggle(id));
        line.append(chip);
        return line;
      }),
    );
    if (!this.chosen.length) $("chips").append(element("li", "no label: a good anchor needs at least one", { class: "empty" }));
  }

  toggle(id) {
    this.chosen = this.chosen.includes(id) ? this.chosen.filter((one) => one !== id) : [...this.chosen, id];
    this.list(this.active);
    this.chips();
  }

  key(event) {
    const found = this.matches();
    if (event.key === "ArrowDown" || event.key === "ArrowUp") this.list(this.active + (event.key === "ArrowDown" ? 1 : -1));
    else if (event.key === "Enter" && found.length) {
      this.toggle(found[this.active].id);
      $("search").value = "";
      this.list(0);
    } else if (event.key === "Backspace" && !$("search").value && this.chosen.length) this.toggle(this.chosen.at(-1));
    else if (event.key === "Escape") $("search").blur();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
