// A set at a time: all its images in a strip, one of them large beside the anchor. What is not marked is similar.

import { $, element, newId } from "./api.js";
import { fetchPicture } from "./media.js";
import { forget, keep, kept } from "./storage.js";

const DRAFT = "strobe:draft"; // marks that are not saved yet, should the page be loaded anew
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
      if (event.detail) button.blur(); // or Enter would press it again
      this.goTo([...$("film").children].indexOf(button.parentElement));
    });
  }

  leave() {
    this.members = [];
    this.at = 0;
    this.along = 1; // where the next image is: forwards, or backwards from the end
    this.marks = new Map(); // task → what was said of it; what is not in it is similar
    this.before = null; // the same as it was saved, where we are walking back
    this.taken = []; // marks in the order they were made: [task, what it was before]
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

  // `votes`: what was saved of this set, by task; `who` and `card` name the draft. Done when every image is there.
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
    image.alt = `Picture ${place + 1} of ${this.members.length}`;
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
    $("save-set").firstChild.textContent = this.before ? "Save what changed" : rest;
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

  // The first or the last image; from there on towards the others.
  end(place) {
    this.along = place ? -1 : 1;
    return this.goTo(place);
  }

  // Say something of this image; a decision goes on to the next.
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

  // Take back the mark made last; whether there was one.
  takeBack() {
    const last = this.taken.pop();
    if (!last) return false;
    this.put(last[0], last[1]);
    this.goTo(last[2]);
    return true;
  }

  // What is to be saved: of a new set all its images, of one that was saved before what changed.
  votes(version, seconds) {
    const n = this.members.length;
    const page = { page_version: `${version}.set${n}`, seconds: Math.round((1000 * seconds) / n) / 1000 };
    const isNew = (member) => !this.before || !same(this.said(member), this.before.get(member.task) || PLAIN);
    return this.members.filter(isNew).map((member) => ({ verdict_id: newId(), task: member.task, stage: member.stage, ...this.said(member), ...page }));
  }

  // Its anchor is bad: said of two images, since one may be a hidden control that decides nothing.
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

// What was said of a set, in words.
export function describeSet({ votes }) {
  const said = Object.values(votes);
  if (said.some((one) => one.bad_anchor)) return "bad anchor";
  const except = said.filter((one) => one.decision !== "similar").length;
  return except ? `all similar except ${except} of ${said.length}` : `all ${said.length} similar`;
}
