// Does this set show one thing throughout? The person sees frames of the set in order and chooses one of four answers.

import { $, element } from "./api.js";
import { fetchPicture } from "./media.js";

const WORDS = { one: "the same thing, one right answer", changed: "it changes", several: "several right answers", unsure: "cannot tell" };

export default class Check {
  static keys = {
    one: ["1", "The same thing throughout, with one right answer"],
    changed: ["2", "What the frames show changes"],
    several: ["3", "The same thing, but several answers are right"],
    unsure: ["?", "Cannot tell"],
    undo: ["Backspace", "Undo: back to the previous answer"],
    forward: ["ArrowRight", "Keep and continue"],
    help: ["F1", "This list"],
  };

  static touch = ["Tap an answer. The next set appears at once.", "Undo goes back to your last answer. Tap your name to see all your answers."];

  many = "sets";
  id = "answer_id";
  unreadable = "A frame of this set cannot be read. Choose “cannot tell” and add a note.";

  // `host` is the page, which all questions share.
  constructor(host) {
    this.host = host;
  }

  enter() {}

  pictures(card) {
    return card.frames;
  }

  left(progress) {
    return { left: progress.open_for_me, total: progress.mine + progress.open_for_me };
  }

  async show(card, step) {
    this.card = card;
    $("review").className = "check";
    $("question").textContent = "Do these frames show one thing throughout, with one right answer?";
    $("hint").textContent = "The frames are in order. Small changes of view, light or sharpness do not count.";
    $("note").value = step?.decision.note || "";
    for (const button of document.querySelectorAll("#decide button")) button.classList.toggle("said", step?.decision.said === button.dataset.action);
    const entries = card.frames.map(fetchPicture);
    $("panes").replaceChildren();
    let done = true;
    try {
      await Promise.all(entries.map((entry) => entry.ready));
    } catch {
      done = "unreadable";
    }
    if (this.card !== card) return false;
    const images = entries.filter((entry) => entry.there).map((entry) => entry.image);
    images.forEach((image, place) => (image.alt = `Frame ${place + 1} of ${card.frames.length}`));
    $("panes").replaceChildren(...images.map((image) => {
      const frame = element("figure");
      frame.append(image);
      return frame;
    }));
    return done;
  }

  said(step) {
    return `Your answer: ${this.brief(step)}. Answer again or keep it.`;
  }

  brief({ decision }) {
    return WORDS[decision.said];
  }

  seen() {
    return 0;
  }

  leave() {
    this.card = null;
  }

  act(action) {
    if (!(action in WORDS) || !this.host.ready) return;
    this.host.decide({ said: action, note: this.host.note(), seconds: this.host.seconds });
  }
}
