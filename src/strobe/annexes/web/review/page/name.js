// What is this? The person sees one image and chooses a class from a searchable list, "none of these" or "cannot tell".

import { $, element } from "./api.js";
import { Feedback } from "./feedback.js";
import { actionOf } from "./keys.js";
import { fetchPicture } from "./media.js";
import { Picker } from "./picker.js";
import { forget, keep, kept } from "./storage.js";

const RECENT = 8; // classes chosen last, which come first in the list
const LEFT = "strobe:looked"; // seconds spent on the current image, in case the page is reloaded

export default class Name {
  static keys = {
    none: ["-", "None of these"],
    unsure: ["?", "Cannot tell"],
    undo: ["Backspace", "Undo: back to the previous answer (if nothing is typed)"],
    forward: ["ArrowRight", "Keep and continue (if nothing is typed)"],
    late: ["Enter", "Too late, continue (if nothing is chosen)"],
    help: ["F1", "This list"],
  };

  static touch = [
    "Tap a class in the list. Type to search it.",
    "“None of these” and “Cannot tell” are answers, too.",
    "Undo goes back to your last answer. Tap your name to see all your answers.",
  ];

  many = "images";
  id = "answer_id";
  unreadable = "This image cannot be read. Choose “cannot tell” and add a note.";

  // `host` is the page, which all questions share.
  constructor(host) {
    this.host = host;
    this.recent = [];
    this.timer = 0;
    this.picker = new Picker({ choose: (id) => this.answer("class", id), first: () => this.recent, start: -1 });
    this.feedback = new Feedback((fields) => this.host.decide(fields));
  }

  enter(session) {
    this.picker.all = session.classes;
    this.limit = session.limit_s;
    this.recentKey = `strobe:${session.store}:recent:${session.person.name}`;
    this.recent = JSON.parse(kept(this.recentKey) || "[]");
  }

  pictures(card) {
    return [card.picture];
  }

  // The number of images that this person can still get. Nobody sees all images.
  left(progress) {
    return { left: progress.open_for_me, total: progress.mine + progress.open_for_me };
  }

  // -- one card -----------------------------------------------------------------------------------------------------

  async show(card, step) {
    this.leave();
    this.card = card;
    this.draw(card, step?.decision);
    const frame = document.querySelector("#pane-a .zoom");
    const entry = fetchPicture(card.picture);
    frame.replaceChildren(); // the previous image must not be shown for the next card
    $("panes").classList.toggle("loading", !entry.there);
    let done = true;
    try {
      await entry.ready;
    } catch {
      done = "unreadable";
    }
    if (this.card !== card) return false;
    $("panes").classList.remove("loading");
    if (done === true && !this.isOver(this.spent(card, step))) {
      entry.image.alt = "The image in question";
      frame.replaceChildren(entry.image);
    }
    $("panes").style.setProperty("--ratio", `${entry.image.naturalWidth || 4} / ${entry.image.naturalHeight || 3}`);
    // On a touch screen the keyboard would cover the image.
    if (!matchMedia("(pointer: coarse)").matches) $("search").focus({ preventScroll: true });
    return done;
  }

  draw(card, earlier) {
    $("review").className = "anchor-stage name";
    $("question").textContent = card.stage === "practice" ? "Practice: what is this?" : "What is this?";
    $("hint").textContent = "Type to search, Enter to choose.";
    if (this.limit) $("hint").textContent += ` You have ${this.limit} seconds for each image.`;
    $("note").value = earlier?.note || "";
    this.feedback.hide();
    $("mask").hidden = $("late-button").hidden = true;
    $("time").textContent = "";
    $("search").disabled = false;
    for (const button of document.querySelectorAll("#decide button")) button.classList.toggle("said", earlier?.said === button.dataset.action);
    this.picker.isMarked = (id) => earlier?.label === id;
    this.picker.reset();
  }

  said(step) {
    return `Your answer: ${this.brief(step)}. Answer again or keep it.`;
  }

  brief({ decision }) {
    const words = { none: "none of these", unsure: "cannot tell", late: "too late" };
    const name = decision.label && this.picker.nameOf(decision.label);
    return [words[decision.said], name].filter(Boolean).join(", ");
  }

  // -- the time limit: it continues when a person returns to an image ----------------------------------------------

  // Seconds already spent on this image, before an undo or a reload of the page.
  spent(card, step) {
    if (!this.limit) return 0;
    const left = JSON.parse(kept(LEFT) || "{}");
    return Math.max(step?.decision.seconds || 0, left.task === card.task ? left.seconds : 0);
  }

  isOver(seconds) {
    return Boolean(this.limit) && seconds > this.limit;
  }

  seen(card, step) {
    const before = this.spent(card, step);
    if (this.limit) {
      if (this.isOver(before)) this.cover();
      else this.timer = setInterval(() => this.tick(), 50);
    }
    return before;
  }

  tick() {
    const seconds = this.host.seconds;
    keep(LEFT, JSON.stringify({ task: this.card.task, seconds }));
    $("time").textContent = `${Math.max(0, Math.ceil(this.limit - seconds))} s`;
    if (this.isOver(seconds)) this.cover();
  }

  // Cover the image with noise, so that no afterimage remains.
  cover() {
    clearInterval(this.timer);
    document.querySelector("#pane-a .zoom").replaceChildren();
    const sheet = $("mask").getContext("2d");
    [$("mask").width, $("mask").height] = [160, 120];
    const noise = sheet.createImageData(160, 120);
    for (let place = 0; place < noise.data.length; place += 4) {
      for (let part = 0; part < 3; part += 1) noise.data[place + part] = Math.random() * 256;
      noise.data[place + 3] = 255;
    }
    sheet.putImageData(noise, 0, 0);
    $("mask").hidden = $("late-button").hidden = false;
    $("time").textContent = "Time is up";
  }

  // This card is no longer shown.
  leave() {
    clearInterval(this.timer);
    this.feedback.hide();
    this.card = null;
  }

  // -- answering ----------------------------------------------------------------------------------------------------

  answer(said, label = "") {
    if (!this.host.ready || this.feedback.about) return;
    const { seconds, card } = this.host;
    // After the time limit no answer counts. The server applies the same rule.
    const fields = { said: this.isOver(seconds) ? "late" : said, label, note: this.host.note(), seconds };
    if (label) this.recent = [label, ...this.recent.filter((one) => one !== label)].slice(0, RECENT);
    keep(this.recentKey, JSON.stringify(this.recent));
    clearInterval(this.timer);
    forget(LEFT);
    if (card.right) this.teach(card, fields);
    else this.host.decide(fields);
  }

  // After a practice image, show the right answer before the next card.
  teach(card, fields) {
    const right = fields.said === "class" && card.right.some((one) => one.id === fields.label);
    const names = card.right.map((one) => one.name).join(" or ") || "none of these";
    const text = fields.said === "late" ? "Too late. This is: " : right ? "Right: " : "Not quite. This is: ";
    $("search").disabled = true;
    this.feedback.tell(fields, right, text, element("b", names));
  }

  act(action) {
    if (action === "none" || action === "unsure") this.answer(action);
    // Only after the time is up: before that, Enter chooses the selected class in the list.
    if (action === "late" && !$("late-button").hidden) this.answer("late");
  }

  // If nothing is typed, keys with an action go to the page and letters go to the search field.
  key(event, act) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.id === "note") return false;
    const inSearch = event.target === $("search");
    const action = actionOf(event);
    if (inSearch && event.key === "Escape") this.picker.reset();
    else if (inSearch && action && !$("search").value) {
      event.preventDefault();
      if (!event.repeat) act(action);
    } else if (inSearch) return false;
    else if (!action && event.key.length === 1 && event.key !== " " && !this.feedback.about) $("search").focus();
    else return false;
    return true;
  }
}
