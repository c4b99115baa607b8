// What stands on the page whatever is asked, drawn from what it is told; nothing here knows where that comes from.

import { $, element } from "./api.js";

const idle = (many) => ({
  paused: ["Paused", "Who runs this review has paused you. Everything you decided is kept."],
  offline: ["Offline", `What you decided is kept in this browser. New ${many} come when the server can be reached.`],
  fetching: ["One moment", `Fetching the next ${many}.`],
  waiting: ["Nothing for you right now", `The last ${many} are with other people; they come here if they are given back.`],
  others: ["All done for you", `The ${many} that are left need somebody else.`],
  done: ["All done", `All ${many} that need you have your answer. What others are in doubt about may still come for a second look.`],
});

export function say(text) {
  $("alert-text").textContent = text;
  $("alert").hidden = false;
}

export function hush() {
  $("alert").hidden = true;
}

export function drawIdle(why, many) {
  [$("idle-title").textContent, $("idle-text").textContent] = idle(many)[why];
}

export function drawSaved({ state, why, fragile }, waiting, refused) {
  const text = {
    saved: `Saving ${waiting}…`,
    saving: `Saving ${waiting}…`,
    offline: `Offline: ${waiting} kept in this browser`,
    login: `Log in again: ${waiting} kept in this browser`,
    held: `${waiting} kept in this browser: ${why}`,
  };
  $("saved").textContent = waiting ? text[state] : refused ? `${refused} not taken` : "All saved";
  if (waiting && fragile) $("saved").textContent = `${waiting} not saved yet: keep this tab open`;
  $("saved").className = waiting ? state : refused ? "refused" : "saved";
}

const whole = (progress) => ({
  left: progress.tasks_open + progress.anchors_open + (progress.verify - progress.verify_mine),
  total: progress.tasks + progress.anchors + progress.verify,
});

// `since`: decisions made after the counts came; `pace`: seconds each takes; `goal`: how many a day; `own`: what is left,
// and of how many, where the question counts otherwise.
export function drawProgress(progress, since, pace, goal, own) {
  const { left: open, total } = own || whole(progress);
  const left = Math.max(0, open - since);
  const share = total ? Math.round(100 * (1 - left / total)) : 0;
  $("fill").style.width = `${share}%`;
  $("bar").setAttribute("aria-valuenow", String(share));
  const minutes = Math.ceil((left * pace) / 60);
  const time = !pace || !left ? "" : minutes < 90 ? ` · about ${minutes} min` : ` · about ${Math.round(minutes / 60)} h`;
  const each = element("span", pace ? ` · ${pace.toFixed(1)} s each` : "", { class: "pace" });
  const today = progress.today + since;
  const done = goal ? `${today} of ${goal} today${today < goal ? "" : ": goal reached"}` : `${progress.mine + since} by you`;
  $("counts").replaceChildren(`${done} · ${left} left`, each, time);
}

// What was said of this card before, where we are walking back; null where it is new.
export function drawPast(said) {
  $("past").hidden = $("forward-button").hidden = said === null;
  if (said !== null) $("past").textContent = said;
}
