// The next cards. They are claimed in advance, so that the next card appears at once after a decision.

import { newId, post } from "./api.js";
import { fetchPicture } from "./media.js";
import { dayBegan } from "./pace.js";
import { nameOf, partsOf } from "./past.js";

const AHEAD = 6; // cards claimed in advance, if a card is one task

export class Queue {
  // `page`: { session, question, outbox, card, say, loggedOut, refilled }, with their current values.
  constructor(page) {
    this.page = page;
    this.tab = newId(); // leases belong to a tab; closing or reloading it returns them
    this.claiming = null; // the promise of the current claim
    this.overtaken = false; // a decision was made after the last claim was sent, so its response may be outdated
    this.claimedAt = 0;
    this.unreachable = false;
    this.startAfresh([]);
  }

  // Tasks with a decision in the outbox, perhaps from a closed tab, are not shown again.
  startAfresh(waiting) {
    this.cards = [];
    this.progress = null;
    this.since = 0; // decisions made after the server's count
    this.paused = false;
    const votes = waiting.flatMap((body) => body.votes || [body]).filter((one) => one.task && !one.member);
    this.decided = new Set(votes.map(nameOf)); // a claim may still list them
  }

  get ahead() {
    return this.page.question.ahead || AHEAD;
  }

  get isShort() {
    return this.cards.length < this.ahead - Math.ceil(this.ahead / 3);
  }

  // Whether the leases of this tab may have expired.
  get isLate() {
    const { question, session } = this.page;
    return !question.past && this.claimedAt > 0 && performance.now() - this.claimedAt > session.lease_s * 500;
  }

  // Put these cards before all others.
  putBack(cards) {
    const have = new Set(this.cards.map(nameOf));
    this.cards.unshift(...cards.filter((one) => !have.has(nameOf(one))));
  }

  isWanted(card) {
    return this.page.question.isWanted?.(card) ?? true;
  }

  // These tasks are decided. Other cards may therefore no longer need an answer.
  done(parts) {
    this.overtaken = true;
    for (const one of parts) this.decided.add(nameOf(one));
    this.cards = this.cards.filter((one) => this.isWanted(one));
  }

  refill() {
    // Send decisions first, because they change which tasks are open.
    this.claiming ||= Promise.resolve()
      .then(() => this.page.outbox.send())
      .then(() => this.claim())
      .finally(() => {
        this.claiming = null;
        this.page.refilled();
      });
    return this.claiming;
  }

  async claim() {
    const { session, question, outbox } = this.page;
    const late = this.isLate;
    this.overtaken = false;
    try {
      const own = () => post("/api/claim", { tab: this.tab, want: this.ahead, who: session.person.name, since: dayBegan() });
      const answer = await (question.claim?.(this.ahead) || own());
      this.paused = Boolean(answer.paused);
      this.unreachable = false;
      if (answer.progress) [this.progress, this.since] = [answer.progress, outbox.bodies().reduce((sum, body) => sum + (body.votes?.length || 1), 0)];
      // After a long break, other people may have these tasks. A paused person has no tasks.
      if (this.paused || late) this.cards = this.cards.filter((one) => one.stage === "practice");
      const have = new Set([...this.cards, this.page.card].filter(Boolean).flatMap(partsOf).map(nameOf));
      const isNew = (one) => !have.has(nameOf(one)) && !this.decided.has(nameOf(one)) && this.isWanted(one);
      const fresh = answer.tasks.map((one) => (one.members ? { ...one, members: one.members.filter(isNew) } : one));
      this.cards.push(...fresh.filter((one) => partsOf(one).some(isNew)));
      for (const one of this.cards) question.pictures(one).forEach(fetchPicture);
      if (answer.page_version && answer.page_version !== session.page_version) this.page.say("A newer version of this page is available. Reload it when you like.");
    } catch (error) {
      if (error.status === 401) await this.page.loggedOut();
      else if (!error.mayPass) this.page.say(error.message);
      else this.unreachable = true;
    } finally {
      this.claimedAt = performance.now();
    }
  }
}
