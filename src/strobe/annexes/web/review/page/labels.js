// The label stage shows one anchor alone. The person adds or removes its classes from a searchable list.

import { $, element } from "./api.js";
import { Picker } from "./picker.js";

export class LabelPanel {
  constructor() {
    this.chosen = [];
    this.picker = new Picker({ choose: (id) => this.choose(id), isMarked: (id) => this.chosen.includes(id) });
    $("search").addEventListener("keydown", (event) => this.key(event));
  }

  set classes(classes) {
    this.picker.all = classes;
  }

  show(ids) {
    this.chosen = [...ids];
    this.picker.reset();
    this.chips();
  }

  chips() {
    $("chips").replaceChildren(
      ...this.chosen.map((id) => {
        const line = element("li");
        const name = this.picker.nameOf(id);
        const chip = element("button", name, { type: "button", "aria-label": `Remove ${name}` });
        chip.addEventListener("click", () => this.toggle(id));
        line.append(chip);
        return line;
      }),
    );
    if (!this.chosen.length) $("chips").append(element("li", "no label: a good anchor needs at least one", { class: "empty" }));
  }

  toggle(id) {
    this.chosen = this.chosen.includes(id) ? this.chosen.filter((one) => one !== id) : [...this.chosen, id];
    this.picker.list(this.picker.active);
    this.chips();
  }

  choose(id) {
    this.toggle(id);
    if ($("search").value) this.picker.reset();
  }

  key(event) {
    if (event.key === "Backspace" && !$("search").value && this.chosen.length) this.toggle(this.chosen.at(-1));
    else if (event.key === "Escape") $("search").blur();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
