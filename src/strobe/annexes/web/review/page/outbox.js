// Decisions on their way to the server. Each stays in this browser until the server confirms that it is saved. A closed
// tab, a restarted server or a lost network therefore loses nothing. Each decision has its own key, so tabs never
// overwrite each other. Sending a decision twice is harmless, because the server knows its id.

import { newId, post } from "./api.js";
import { forget, inMemoryOnly, keep, keysWith, kept } from "./storage.js";

// Status codes for which a retry is useless: the decision is invalid, or contradicts a stored decision. Any other
// rejection may come from a proxy, a host name or another server at this address, so the decision stays in the outbox.
const FINAL = [409, 422];

export class Outbox {
  constructor(store, who, changed) {
    [this.store, this.who, this.changed] = [store, who, changed];
    this.prefix = `strobe:${store}:out:${who}:`;
    this.refusedPrefix = `strobe:${store}:refused:${who}:`;
    this.sending = null; // the promise of the current transfer
    this.delay = 500;
    this.state = "saved";
    this.why = ""; // why the server did not take the waiting decisions
    this.timer = 0;
    window.addEventListener("online", () => this.send());
    // Another tab of the same person may have added or sent decisions.
    window.addEventListener("storage", () => this.tell(this.state));
    window.addEventListener("beforeunload", (event) => this.fragile && event.preventDefault());
  }

  add(path, body) {
    // A new decision sorts after all waiting ones, even if the clock jumps, because the last decision on a pair counts.
    const last = Number(this.waiting().at(-1)?.slice(this.prefix.length).split("-")[0] || 0);
    const order = String(Math.max(Date.now(), last + 1)).padStart(15, "0");
    keep(`${this.prefix}${order}-${newId().slice(0, 12)}`, JSON.stringify({ path, body }));
    this.tell("saving");
    this.send();
  }

  waiting() {
    return keysWith(this.prefix);
  }

  // The waiting decisions, as they will be sent.
  bodies() {
    return this.waiting().map((key) => JSON.parse(kept(key) || '{"body": {}}').body);
  }

  refused() {
    return keysWith(this.refusedPrefix).map((key) => JSON.parse(kept(key)));
  }

  forgetRefused() {
    keysWith(this.refusedPrefix).forEach(forget);
    this.tell(this.state);
  }

  tryRefusedAgain() {
    for (const key of keysWith(this.refusedPrefix)) {
      const { path, body } = JSON.parse(kept(key));
      keep(this.prefix + key.slice(this.refusedPrefix.length), JSON.stringify({ path, body }));
      forget(key);
    }
    this.tell("saving");
    return this.send();
  }

  // Whether closing this tab would lose something.
  get fragile() {
    return !this.stopped && inMemoryOnly(this.prefix);
  }

  // The next person in this tab gets another outbox. The waiting decisions stay in the browser.
  stop() {
    this.stopped = true;
    clearTimeout(this.timer);
  }

  // Resolves when no decision is waiting, or when the server cannot take more now.
  send() {
    if (this.stopped) return Promise.resolve();
    this.sending ||= this.sendAll().finally(() => (this.sending = null));
    return this.sending;
  }

  async sendAll() {
    clearTimeout(this.timer);
    const held = new Set();
    const next = () => this.waiting().find((key) => !held.has(key));
    for (let key = next(); key && !this.stopped; key = next()) {
      const text = kept(key);
      if (text === null) continue; // another tab was quicker
      const { path, body } = JSON.parse(text);
      try {
        await post(path, body);
      } catch (error) {
        if (error.mayPass || error.status === 401) return this.later(error.status === 401 ? "login" : "offline");
        if (!FINAL.includes(error.status)) {
          this.why = error.message;
          held.add(key);
          continue;
        }
        // The server rejected the decision for good. It is stored separately and shown to the person. Sending
        // continues.
        keep(this.refusedPrefix + key.slice(this.prefix.length), JSON.stringify({ path, body, why: error.message }));
      }
      forget(key);
      this.delay = 500;
      this.tell("saving");
    }
    return held.size ? this.later("held") : this.tell("saved");
  }

  later(state) {
    if (this.stopped) return;
    this.tell(state);
    this.timer = setTimeout(() => this.send(), this.delay);
    this.delay = Math.min(this.delay * 2, 8000);
  }

  tell(state) {
    if (this.stopped) return;
    this.state = state;
    this.changed(this);
  }
}

// The number of unsent decisions of other people in this browser, by name.
export function othersWaiting(store, who) {
  const start = `strobe:${store}:out:`;
  const names = new Map();
  for (const key of keysWith(start)) {
    const name = key.slice(start.length, key.lastIndexOf(":"));
    if (name !== who) names.set(name, (names.get(name) || 0) + 1);
  }
  return names;
}
