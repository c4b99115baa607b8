// Deciding together: a group looks at one screen, each member's vote is recorded under their own name.

import { $, element, get, newId } from "./api.js";

export class JointPanel {
  constructor() {
    this.members = [];
    this.votes = new Map();
    this.past = [];
    this.current = -1; // −1: everyone
  }

  // The members are chosen on the admin page and come in the address, as ?joint=Ann&joint=Bo.
  static asked() {
    return new URLSearchParams(location.search).getAll("joint");
  }

  async start(names) {
    const { people } = await get("/api/watch");
    const known = new Set(people.filter((one) => one.role === "annotator").map((one) => one.name));
    this.members = names.filter((name) => known.has(name));
    return this.members.length > 0;
  }

  clear() {
    this.votes = new Map();
    this.current = -1;
    this.draw();
  }

  // A decision key sets the vote of the current member and goes on to the next, or of everyone.
  vote(fields) {
    if (this.current < 0) for (const name of this.members) this.votes.set(name, fields);
    else {
      this.votes.set(this.members[this.current], fields);
      this.current = this.current + 1 < this.members.length ? this.current + 1 : this.current;
    }
    this.draw();
  }

  step(by) {
    const n = this.members.length + 1;
    this.current = ((this.current + 1 + by + n) % n) - 1;
    this.draw();
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
      const said = place === 0 ? "" : vote ? vote.reason || vote.decision : "no vote yet";
      const line = element("li");
      const pick = element("button", name, { type: "button", "aria-pressed": String(this.current === place - 1) });
      if (said) pick.append(element("span", said, { class: `said ${vote ? vote.decision : ""}` }));
      pick.addEventListener("click", () => {
        this.current = place - 1;
        this.draw();
      });
      line.append(pick);
      return line;
    });
    $("members").replaceChildren(...lines);
    $("joint-save").disabled = !this.complete;
  }
}
