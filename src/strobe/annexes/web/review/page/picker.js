// A searchable list of classes for keyboard, mouse and touch. The best matches come first. Other names of a class also
// match.

import { $, element } from "./api.js";

const MOST = 300; // the most lines shown; a search covers all classes

export class Picker {
  // `choose` is called with an id. `isMarked` returns whether a line is ticked. While nothing is typed, the ids from
  // `first` come first, and Enter chooses the line `start` (−1: no line until the person selects one).
  constructor({ choose, isMarked = () => false, first = () => [], start = 0 }) {
    Object.assign(this, { choose, isMarked, first, start });
    this.classes = [];
    this.active = start;
    $("search").addEventListener("input", () => this.list($("search").value.trim() ? 0 : start));
    $("search").addEventListener("keydown", (event) => this.key(event));
  }

  set all(classes) {
    this.classes = classes.map((one) => ({ ...one, words: [one.name, ...(one.also || [])].map((word) => word.toLowerCase()) }));
    this.classes.sort((a, b) => a.name.localeCompare(b.name));
  }

  nameOf(id) {
    return this.classes.find((one) => one.id === id)?.name || id;
  }

  // How well a class matches the typed text, from best to worst: full name, start of the name, start of a word,
  // anywhere, not at all.
  static fit(one, wanted) {
    if (one.words.includes(wanted)) return 0;
    if (one.words.some((word) => word.startsWith(wanted))) return 1;
    if (one.words.some((word) => word.split(/[\s,/-]+/).some((part) => part.startsWith(wanted)))) return 2;
    return one.words.some((word) => word.includes(wanted)) || one.id.toLowerCase().includes(wanted) ? 3 : 4;
  }

  matches() {
    const wanted = $("search").value.trim().toLowerCase();
    if (!wanted) {
      const top = this.first().map((id) => this.classes.find((one) => one.id === id)).filter(Boolean);
      return [...top, ...this.classes.filter((one) => !top.includes(one))].slice(0, MOST);
    }
    const found = this.classes.map((one) => [Picker.fit(one, wanted), one]).filter(([fit]) => fit < 4);
    return found.sort(([a], [b]) => a - b).slice(0, MOST).map(([, one]) => one);
  }

  reset() {
    $("search").value = "";
    this.list(this.start);
    $("classes").scrollTop = 0;
  }

  list(active) {
    const found = this.matches();
    this.active = Math.max(this.start < 0 ? -1 : 0, Math.min(active, found.length - 1));
    const wanted = $("search").value.trim().toLowerCase();
    $("classes").replaceChildren(
      ...found.map((one, place) => {
        const line = element("li", one.name, { role: "option", id: `class-${place}`, "aria-selected": String(this.isMarked(one.id)) });
        // Show the other name that matches, if the first name does not.
        const also = wanted && !one.words[0].includes(wanted) && (one.also || []).find((name) => name.toLowerCase().includes(wanted));
        if (also) line.append(element("span", ` ${also}`, { class: "also" }));
        line.classList.toggle("active", place === this.active);
        line.addEventListener("click", () => this.choose(one.id));
        return line;
      }),
    );
    if (!found.length) $("classes").append(element("li", "No matching class", { class: "empty", role: "option", "aria-disabled": "true" }));
    $("search").setAttribute("aria-activedescendant", this.active >= 0 && found.length ? `class-${this.active}` : "");
    if (this.active >= 0) $("classes").children[this.active]?.scrollIntoView({ block: "nearest" });
  }

  key(event) {
    const found = this.matches();
    if (event.key === "ArrowDown" || event.key === "ArrowUp") this.list(this.active + (event.key === "ArrowDown" ? 1 : -1));
    else if (event.key === "Enter" && found.length && this.active >= 0) {
      if (!event.repeat) this.choose(found[this.active].id);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }
}
