// Decide together: a group looks at one screen, and each member's vote is recorded under their own name.

import { $, element, get, newId } from "./api.js";
import { Past } from "./past.js";

export class JointPanel {
  // `turn` is called with the vote of the current member, or undefined if there is none yet.
  constructor(turn) {
    this.turn = turn;
    this.members = [];
    this.votes = new Map();
    this.past = new Past({ complete: true });
    this.current = -1; // −1: everyone
  }

  // The admin page passes the chosen members in the address: ?joint=Ann&joint=Bo.
  static asked() {
    return new URLSearchParams(location.search).getAll("joint");
  }

  async start(names) {
    const { people } = await get("/api/watch");
    const known = new Set(people.filter((one) => one.role === "annotator").map((one) => one.name));
    this.members = names.filter((name) => known.has(name));
    return this.members.length > 0;
  }

  show(votes) {
    this.votes = new Map(votes);
    this.goTo(-1);
  }

  goTo(place) {
    this.current = place;
    this.turn(this.votes.get(this.members[place]));
    this.draw();
  }

  // A decision key sets everyone's vote, or it sets the current member's vote and moves to the next member.
  vote(fields) {
    if (this.current < 0) for (const name of this.members) this.votes.set(name, fields);
    else this.votes.set(this.members[this.current], fields);
    this.goTo(this.current < 0 ? -1 : Math.min(this.current + 1, this.members.length - 1));
  }

  step(by) {
    const n = this.members.length + 1;
    this.goTo(((this.current + 1 + by + n) % n) - 1);
  }

  get complete() {
    return this.members.every((name) => this.votes.has(name));
  }

  bodies(card, seconds, version) {
    return this.members.map((member) => ({
      member, verdict_id: newId(), task: card.task, stage: "verify", seconds, page_version: version, ...this.votes.get(member),
    }));
  }

  draw() {
    const lines = ["Everyone", ...this.members].map((name, place) => {
      const vote = this.votes.get(name);
      const said = place === 0 ? "" : vote ? describe(vote) : "no vote yet";
      const line = element("li");
      const pick = element("button", name, { type: "button", "aria-pressed": String(this.current === place - 1) });
      if (said) pick.append(element("span", said, { class: `said ${vote ? vote.decision : ""}` }));
      pick.addEventListener("click", () => this.goTo(place - 1));
      line.append(pick);
      return line;
    });
    $("members").replaceChildren(...lines);
    $("joint-save").disabled = !this.complete;
  }
}

// A vote in words.
export function describe(earlier) {
  let text = earlier.bad_anchor ? "bad anchor" : earlier.decision;
  if (earlier.reason) text += ` (${earlier.reason})`;
  return earlier.label_right === false ? `${text}, label wrong` : text;
}
