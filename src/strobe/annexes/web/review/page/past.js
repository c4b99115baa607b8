// Earlier decisions, oldest first, and the current position among them. At the end, a new card is shown.

import { get } from "./api.js";

export const nameOf = (card) => card.task + card.stage;

// The tasks on a card: the card itself, or the pairs of a set. With a decision, only the pairs that it covers.
export const partsOf = (card, decision) => card.members?.filter((one) => !decision?.votes || one.task in decision.votes) || [card];

export class Past {
  // `complete`: nothing was decided before this page was opened.
  constructor({ complete = false } = {}) {
    this.steps = [];
    this.at = 0;
    this.before = null; // the oldest row that the server has sent
    this.complete = complete;
    this.jumped = false; // whether the person chose the current position from the list
  }

  get atEnd() {
    return this.at === this.steps.length;
  }

  get here() {
    return this.steps[this.at];
  }

  // Add a new decision, or replace the decision at the current position. Return whether it was new.
  put(step) {
    const fresh = this.atEnd;
    if (fresh) this.steps.push(step);
    else this.steps[this.at] = { ...this.steps[this.at], ...step };
    return fresh;
  }

  toEnd() {
    this.jumped = false;
    this.at = this.steps.length;
  }

  // Load older decisions until there is one before the current position, if there is any.
  async fetchOlder() {
    while (!this.complete && this.at === 0) await this.fetchPage();
  }

  // Load older decisions, made before this page was opened or on another device. One response may contain nothing new,
  // because it also lists decisions made here, and because a corrected decision is one step, not two.
  async fetchPage() {
    const known = new Set(this.steps.map((one) => nameOf(one.card)));
    const { decisions, before } = await get(`/api/history${this.before ? `?before=${this.before}` : ""}`);
    for (const one of decisions) {
      if (known.has(nameOf(one.card))) continue;
      known.add(nameOf(one.card));
      this.steps.unshift(one);
      this.at += 1;
    }
    this.before = before;
    this.complete = before === null;
  }
}
