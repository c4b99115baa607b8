// Where is it? The person draws one box on an image, or discards the image with a reason.

import { $, element } from "./api.js";
import { BoxPad } from "./box_pad.js";
import { actionOf } from "./keys.js";
import { fetchPicture } from "./media.js";

const ARROWS = { left: [-1, 0], right: [1, 0], up: [0, -1], down: [0, 1] };
const REASONS = {
  absent: "it is not there",
  several: "there are several",
  whole: "it fills the image",
  unclear: "its edges are unclear",
  other: "another reason",
};

export default class Box {
  static keys = {
    keep: ["Enter", "Keep the image with this box (drawn or suggested)"],
    absent: ["1", "Discard: it is not there"],
    several: ["2", "Discard: there are several"],
    whole: ["3", "Discard: it fills the image"],
    unclear: ["4", "Discard: its edges are unclear"],
    other: ["5", "Discard: another reason"],
    left: ["ArrowLeft", "Move the box one pixel left; with Shift: narrower"],
    right: ["ArrowRight", "Move the box one pixel right; with Shift: wider"],
    up: ["ArrowUp", "Move the box one pixel up; with Shift: shorter"],
    down: ["ArrowDown", "Move the box one pixel down; with Shift: taller"],
    sizing: ["r", "Switch the arrow keys between moving and resizing"],
    back: ["u", "Undo the last change of the box"],
    remove: ["Delete", "Remove the box"],
    "zoom-in": ["+", "Zoom in"],
    "zoom-out": ["-", "Zoom out"],
    "zoom-box": ["b", "Zoom to the box"],
    "zoom-reset": ["0", "Fit"],
    class: ["c", "Next class, if the image has several"],
    note: ["n", "Write a note"],
    undo: ["z", "Undo: back to the previous decision"],
    forward: ["y", "Keep and continue"],
    help: ["?", "This list"],
  };

  static touch = [
    "Drag on the image to draw a box. Drag a side or a corner to change it.",
    "The arrow buttons move the box by one pixel. With “Resize”, they move a corner.",
    "Pinch to zoom. “Fit” shows the whole image.",
    "Undo goes back to your last decision. Tap your name to see all your decisions.",
  ];

  many = "images";
  id = "answer_id";
  unreadable = "This image cannot be read. Discard it (other) and add a note.";

  // `host` is the page, which all questions share.
  constructor(host) {
    this.host = host;
    this.pad = new BoxPad($("pad"), () => this.drawTools());
    this.label = "";
    this.sizing = false;
  }

  enter() {}

  pictures(card) {
    return [card.picture];
  }

  // -- one card -----------------------------------------------------------------------------------------------------

  // `step` is the earlier decision, if the person went back to this card.
  async show(card, step) {
    const earlier = step?.decision || null;
    this.card = card;
    this.label = earlier?.label || card.mine?.label || card.labels[0].id;
    $("review").className = card.stage;
    $("note").value = earlier?.note || "";
    this.drawClasses();
    this.drawVotes(card.votes);
    const mark = earlier && (earlier.reason || "keep");
    for (const button of document.querySelectorAll("#decide button")) button.classList.toggle("said", button.dataset.action === mark);
    const entry = fetchPicture(card.picture);
    if (!entry.there) this.pad.clear(); // the previous image must not be shown for a new question
    $("pad").classList.toggle("loading", !entry.there);
    this.drawTools();
    try {
      await entry.ready;
    } catch {
      if (this.card !== card) return false;
      this.pad.clear();
      $("pad").classList.remove("loading");
      return "unreadable";
    }
    if (this.card !== card) return false;
    $("pad").classList.remove("loading");
    const said = earlier || card.mine;
    const others = card.votes.map((vote) => vote.xyxy).filter(Boolean);
    const suggestion = said ? null : card.suggestion;
    this.pad.show(entry.image, { box: said?.xyxy || null, suggestion, others, label: this.className() });
    this.drawTools();
    return true;
  }

  className() {
    return this.card.labels.find((label) => label.id === this.label)?.name || this.label;
  }

  said(step) {
    return `Your decision: ${this.brief(step)}. Decide again or keep it.`;
  }

  brief({ decision }) {
    return describe(decision);
  }

  drawClasses() {
    const { card } = this;
    const again = card.stage === "verify" ? "Second look: where" : "Where";
    $("question").textContent = `${again} is the ${this.className()}?`;
    $("hint").textContent = "Draw a tight box around all visible parts of it.";
    $("classes-of").hidden = card.labels.length < 2;
    $("classes-of").replaceChildren(
      ...card.labels.map((label) => {
        const chosen = String(label.id === this.label);
        const button = element("button", label.name, { type: "button", "aria-pressed": chosen });
        button.addEventListener("click", () => this.choose(label.id));
        return button;
      }),
    );
  }

  choose(label) {
    this.label = label;
    this.drawClasses();
  }

  drawVotes(votes) {
    $("votes").hidden = !votes.length;
    $("votes").replaceChildren(...votes.map((vote) => element("li", `${vote.name}: ${describe(vote)}`, { class: vote.decision })));
  }

  drawTools() {
    const { box, before } = this.pad;
    for (const action of ["keep", "remove", "zoom-box"]) document.querySelector(`[data-action=${action}]`).disabled = !box;
    document.querySelector("[data-action=back]").disabled = !before.length;
    const keep = document.querySelector("[data-action=keep]");
    keep.firstChild.textContent = this.pad.suggested ? "Keep suggested box" : "Keep this box";
    $("sizing-button").setAttribute("aria-pressed", String(this.sizing));
  }

  // -- deciding -----------------------------------------------------------------------------------------------------

  decide(fields) {
    const { host, pad, label } = this;
    if (!host.ready || pad.gesture) return undefined;
    if (fields.decision === "keep" && !pad.box) return host.say("There is no box yet. Draw one, or press an arrow key to start with one.");
    const xyxy = fields.decision === "keep" ? pad.box : null;
    return host.decide({ label, xyxy, reason: "", note: host.note(), ...fields });
  }

  act(action) {
    const { pad } = this;
    if (action === "keep") return this.decide({ decision: "keep" });
    if (action in REASONS) return this.decide({ decision: "discard", reason: action });
    if (action in ARROWS) return pad.nudge(...ARROWS[action], { resize: this.sizing });
    if (action === "sizing") this.sizing = !this.sizing;
    if (action === "back") pad.undo();
    if (action === "remove") pad.remove();
    if (action === "zoom-in") pad.zoom(1.5);
    if (action === "zoom-out") pad.zoom(1 / 1.5);
    if (action === "zoom-reset") pad.fit();
    if (action === "zoom-box") pad.zoomToBox();
    if (action === "class") this.choose(this.nextClass());
    return this.drawTools();
  }

  nextClass() {
    const ids = this.card.labels.map((label) => label.id);
    return ids[(ids.indexOf(this.label) + 1) % ids.length];
  }

  // Handle arrow keys, including Shift and keys held down. Return whether the key was an arrow key.
  key(event) {
    const arrow = event.target.matches("input, textarea, select") ? null : ARROWS[actionOf(event)];
    if (!arrow) return false;
    event.preventDefault();
    if (this.host.ready) this.pad.press(arrow, { resize: this.sizing !== event.shiftKey, again: event.repeat });
    return true;
  }
}

export function describe({ decision, reason, xyxy }) {
  if (decision === "discard") return `discard, ${REASONS[reason] || reason}`;
  const [x0, y0, x1, y1] = xyxy;
  return `a box of ${x1 - x0} × ${y1 - y0} at ${x0}, ${y0}`;
}
