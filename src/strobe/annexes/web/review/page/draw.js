// The parts of the page that all questions share: alerts, saving state, progress.

import { $, element } from "./api.js";

const idle = (many) => ({
  paused: ["Paused", "The lead of this review has paused you. All your decisions are stored."],
  offline: ["Offline", `Your decisions are stored in this browser. New ${many} load when the server can be reached.`],
  fetching: ["One moment", `Loading the next ${many}.`],
  waiting: ["Nothing for you right now", `Other people have the last ${many}. You get those that they return.`],
  resting: ["All done for now", `Unclear ${many} come back for a second look an hour after you answered them.`],
  others: ["All done for you", `The remaining ${many} need another person.`],
  done: ["All done", `You have answered all ${many} that need you. A second look at unclear cases may still follow.`],
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
    offline: `Offline: ${waiting} stored in this browser`,
    login: `Log in again: ${waiting} stored in this browser`,
    held: `${waiting} stored in this browser: ${why}`,
  };
  $("saved").textContent = waiting ? text[state] : refused ? `${refused} rejected` : "All saved";
  if (waiting && fragile) $("saved").textContent = `${waiting} not saved yet: keep this tab open`;
  $("saved").className = waiting ? state : refused ? "refused" : "saved";
}

const whole = (progress) => ({
  left: progress.open_for_me, // with several votes per task, others may still need tasks that this person has answered
  total: progress.tasks + progress.anchors + progress.verify,
});

// `since`: decisions made after the server's count. `pace`: seconds per decision. `goal`: decisions per day. `own`:
// open and total tasks, if the question counts them itself.
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

// Show the earlier decision on this card if the person went back to it. `said` is null for a new card.
export function drawPast(said) {
  $("past").hidden = $("forward-button").hidden = said === null;
  if (said !== null) $("past").textContent = said;
}
