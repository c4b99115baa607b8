// Decisions on their way to the server. Each is kept in this browser until the server has said that it is saved, so
// that a closed tab, a server that restarts or a lost network lose nothing. One key per decision: tabs never overwrite
// each other, and sending one twice is harmless because the server knows it by its id.

import { newId, post } from "./api.js";
import { forget, inMemoryOnly, keep, keysWith, kept } from "./storage.js";

// What the server says of one decision and will say again: its content is wrong, or it contradicts one already there.
// Any other refusal may be the fault of the way (another server at this address, a proxy, a host name): it waits.
const FINAL = [409, 422];

export class Outbox {
  constructor(store, who, changed) {
    [this.store, this.who, this.changed] = [store, who, changed];
    this.prefix = `strobe:${store}:out:${who}:`;
    this.refusedPrefix = `strobe:${store}:refused:${who}:`;
    this.sending = null; // the promise of what is under way
    this.delay = 500;
    this.state = "saved";
    this.why = ""; // why what waits was not taken
    this.timer = 0;
    window.addEventListener("online", () => this.send());
    // Another tab of the same person may have left something, or may have sent what we see.
    window.addEventListener("storage", () => this.tell(this.state));
    window.addEventListener("beforeunload", (event) => this.fragile && event.preventDefault());
  }

  add(path, body) {
    // Never before what already waits, whatever the clock does: the later decision on a pair is the one that counts.
    const last = Number(this.waiting().at(-1)?.slice(this.prefix.length).split("-")[0] || 0);
    const order = String(Math.max(Date.now(), last + 1)).padStart(15, "0");
    keep(`${this.prefix}${order}-${newId().slice(0, 12)}`, JSON.stringify({ path, body }));
    this.tell("saving");
    this.send();
  }

  waiting() {
    return keysWith(this.prefix);
  }

  // What waits, as it will be sent.
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

  // Whoever comes next in this tab has an outbox of their own; what waits here stays in the browser.
  stop() {
    this.stopped = true;
    clearTimeout(this.timer);
  }

  // Done when nothing waits any more, or when the server does not take it now.
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
        // The server understood and said no. Kept apart and shown; the rest goes on.
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

// Decisions of other people that still wait in this browser, by name.
export function othersWaiting(store, who) {
  const start = `strobe:${store}:out:`;
  const names = new Map();
  for (const key of keysWith(start)) {
    const name = key.slice(start.length, key.lastIndexOf(":"));
    if (name !== who) names.set(name, (names.get(name) || 0) + 1);
  }
  return names;
}
