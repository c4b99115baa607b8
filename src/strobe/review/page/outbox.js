// Decisions on their way to the server. Each is kept in this browser until the server has said that it is saved, so
// that a closed tab, a server that restarts or a lost network lose nothing. One key per decision: tabs never overwrite
// each other, and sending one twice is harmless because the server knows it by its id.

import { post } from "./api.js";

export class Outbox {
  constructor(store, who, changed) {
    this.who = who;
    this.prefix = `strobe:${store}:out:${who}:`;
    this.refusedPrefix = `strobe:${store}:refused:${who}:`;
    this.changed = changed;
    this.count = 0;
    this.sending = null; // the promise of what is under way
    this.delay = 500;
    this.state = "saved";
    window.addEventListener("online", () => this.send());
    // Another tab of the same person may have left something, or may have sent what we see.
    window.addEventListener("storage", () => this.tell(this.state));
    this.timer = 0;
  }

  add(path, body) {
    this.count += 1;
    const order = String(Date.now()).padStart(15, "0") + String(this.count).padStart(6, "0");
    localStorage.setItem(this.prefix + order, JSON.stringify({ path, body }));
    this.tell("saving");
    this.send();
  }

  waiting() {
    return keysWith(this.prefix);
  }

  refused() {
    return keysWith(this.refusedPrefix).map((key) => JSON.parse(localStorage.getItem(key)));
  }

  forgetRefused() {
    for (const key of keysWith(this.refusedPrefix)) localStorage.removeItem(key);
  }

  // Whoever comes next in this tab has an outbox of their own; what waits here stays in the browser.
  stop() {
    this.stopped = true;
    clearTimeout(this.timer);
  }

  // Done when nothing waits any more, or when the server cannot be reached.
  send() {
    if (this.stopped) return Promise.resolve();
    this.sending ||= this.sendAll().finally(() => (this.sending = null));
    return this.sending;
  }

  async sendAll() {
    clearTimeout(this.timer);
    for (let keys = this.waiting(); keys.length; keys = this.waiting()) {
      const text = localStorage.getItem(keys[0]);
      if (text === null) continue; // another tab was quicker
      const { path, body } = JSON.parse(text);
      try {
        await post(path, body);
      } catch (error) {
        if (error.mayPass || error.status === 401) {
          this.tell(error.status === 401 ? "login" : "offline");
          this.timer = setTimeout(() => this.send(), this.delay);
          this.delay = Math.min(this.delay * 2, 8000);
          return;
        }
        // The server understood and said no. Kept apart and shown; the rest goes on.
        localStorage.setItem(this.refusedPrefix + keys[0].slice(this.prefix.length), JSON.stringify({ body, why: error.message }));
      }
      localStorage.removeItem(keys[0]);
      this.delay = 500;
      this.tell("saving");
    }
    this.tell("saved");
  }

  tell(state) {
    if (this.stopped) return;
    this.state = state;
    this.changed(state, this.waiting().length, this.refused());
  }
}

function keysWith(prefix) {
  const found = [];
  for (let place = 0; place < localStorage.length; place += 1) {
    const key = localStorage.key(place);
    if (key.startsWith(prefix)) found.push(key);
  }
  return found.sort();
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
