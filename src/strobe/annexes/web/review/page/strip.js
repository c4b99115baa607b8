// One set at a time: all its images are in a strip, and one of them is large next to the anchor. Unmarked images are
// similar.

import { $, element, newId } from "./api.js";
import { fetchPicture } from "./media.js";
import { forget, keep, kept } from "./storage.js";

const DRAFT = "strobe:draft"; // marks that are not saved yet, in case the page is reloaded
const PLAIN = { decision: "similar", reason: "", bad_anchor: false, label_right: true, labels: [], note: "" };
const same = (a, b) => Object.keys(PLAIN).every((name) => String(a[name] ?? PLAIN[name]) === String(b[name] ?? PLAIN[name]));

export class Strip {
  // `look(member)` shows one image large.
  constructor(look) {
    this.look = look;
    this.leave();
    $("film").addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (!button) return;
      if (event.detail) button.blur(); // otherwise Enter would press it again
      this.goTo([...$("film").children].indexOf(button.parentElement));
    });
  }

  leave() {
    this.members = [];
    this.at = 0;
    this.along = 1; // the direction of the next image: 1 forwards, −1 backwards
    this.marks = new Map(); // task → decision; tasks without an entry are similar
    this.before = null; // the saved marks, if the person went back to this set
    this.taken = []; // marks in the order they were made: [task, previous mark, position]
    $("strip").hidden = $("save-set").hidden = true;
  }

  get member() {
    return this.members[this.at];
  }

  get isOn() {
    return this.members.length > 0;
  }

  said(member = this.member) {
    return this.marks.get(member.task) || PLAIN;
  }

  // `votes`: the saved votes of this set, by task. `who` and `card` identify the draft. Resolves when all images are loaded.
  async show(card, votes, who) {
    this.leave();
    [this.card, this.who, this.members] = [card.task, who, card.members];
    if (votes) this.before = new Map(Object.entries(votes));
    const draft = JSON.parse(kept(DRAFT) || "{}");
    const isMine = !votes && draft.card === card.task && draft.who === who;
    this.marks = new Map(votes ? Object.entries(votes) : isMine ? draft.marks : []);
    $("strip").hidden = false;
    $("film").replaceChildren(...this.members.map(() => this.cell()));
    $("film").scrollTo(0, 0);
    this.draw();
    const names = [...card.members.map((member) => member.neighbour), card.anchor];
    const came = await Promise.allSettled(names.map((name) => fetchPicture(name).ready));
    if (this.members !== card.members) return false;
    this.members.forEach((_, place) => came[place].status === "fulfilled" && this.fill(place));
    return came.every(({ status }) => status === "fulfilled") || "unreadable";
  }

  cell() {
    const line = element("li");
    const button = element("button", undefined, { type: "button" });
    button.append(element("span", undefined, { class: "thumb" }), element("span", undefined, { class: "mark" }));
    line.append(button);
    return line;
  }

  fill(place) {
    const image = fetchPicture(this.members[place].neighbour).image.cloneNode();
    image.alt = `Image ${place + 1} of ${this.members.length}`;
    $("strip").style.setProperty("--ratio", `${image.naturalWidth || 4} / ${image.naturalHeight || 3}`);
    $("film").children[place].querySelector(".thumb").replaceChildren(image);
  }

  draw() {
    [...$("film").children].forEach((line, place) => {
      const button = line.firstChild;
      const said = this.said(this.members[place]);
      const text = said.reason || (said.decision === "similar" ? "" : said.decision);
      button.querySelector(".mark").textContent = [text, said.label_right === false && "label", said.note && "note"].filter(Boolean).join(", ");
      button.className = said.decision;
      button.tabIndex = place === this.at ? 0 : -1;
      button.setAttribute("aria-current", String(place === this.at));
    });
    const others = this.members.filter((member) => this.said(member).decision === "similar").length;
    const rest = others === this.members.length ? `All ${others} similar` : others ? `The other ${others} similar` : "Save this set";
    $("save-set").firstChild.textContent = this.before ? "Save changes" : rest;
    $("save-set").hidden = !this.isOn;
  }

  goTo(place) {
    const n = this.members.length;
    this.at = (place + n) % n;
    this.draw();
    $("film").children[this.at].scrollIntoView({ block: "nearest", inline: "nearest" });
    return this.look(this.member);
  }

  step(by) {
    this.along = by;
    return this.goTo(this.at + by);
  }

  // Go to the first or the last image. Later steps go from there towards the other images.
  end(place) {
    this.along = place ? -1 : 1;
    return this.goTo(place);
  }

  // Mark this image. A decision also moves to the next image.
  mark(fields, { stay = false } = {}) {
    this.taken.push([this.member.task, this.marks.get(this.member.task), this.at]);
    this.put(this.member.task, { ...this.said(), ...fields });
    if (stay) return this.draw();
    return this.step(this.along);
  }

  put(task, said) {
    if (said && !same(said, PLAIN)) this.marks.set(task, said);
    else this.marks.delete(task);
    if (!this.before) keep(DRAFT, JSON.stringify({ card: this.card, who: this.who, marks: [...this.marks] }));
  }

  // Undo the last mark. Return whether there was one.
  takeBack() {
    const last = this.taken.pop();
    if (!last) return false;
    this.put(last[0], last[1]);
    this.goTo(last[2]);
    return true;
  }

  // The votes to save: all votes of a new set, or the changed votes of a set that was saved before.
  votes(version, seconds) {
    const n = this.members.length;
    const page = { page_version: `${version}.set${n}`, seconds: Math.round((1000 * seconds) / n) / 1000 };
    const isNew = (member) => !this.before || !same(this.said(member), this.before.get(member.task) || PLAIN);
    return this.members.filter(isNew).map((member) => ({ verdict_id: newId(), task: member.task, stage: member.stage, ...this.said(member), ...page }));
  }

  // A bad anchor is recorded on two images, because one may be a hidden control, whose vote has no effect.
  bad(version, seconds) {
    const votes = this.members.slice(0, 2);
    const page = { page_version: `${version}.set${this.members.length}`, seconds: Math.round((1000 * seconds) / votes.length) / 1000 };
    return votes.map((member) => ({ verdict_id: newId(), task: member.task, stage: member.stage, ...PLAIN, decision: "dissimilar", bad_anchor: true, ...page }));
  }

  // What undo shows: the decision on every image of the set.
  outcome(votes) {
    const said = new Map([...(this.before || []), ...votes.map((vote) => [vote.task, Object.fromEntries(Object.keys(PLAIN).map((name) => [name, vote[name]]))])]);
    return { votes: Object.fromEntries(said) };
  }

  saved() {
    forget(DRAFT);
  }
}

// The decision on a set, in words.
export function describeSet({ votes }) {
  const said = Object.values(votes);
  if (said.some((one) => one.bad_anchor)) return "bad anchor";
  const except = said.filter((one) => one.decision !== "similar").length;
  return except ? `all similar except ${except} of ${said.length}` : `all ${said.length} similar`;
}
