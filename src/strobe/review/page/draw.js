// What stands on the page, drawn from what it is told; nothing here knows where that comes from.

import { $, element } from "./api.js";

const IDLE = {
  paused: ["Paused", "Who runs this review has paused you. Everything you decided is kept."],
  offline: ["Offline", "What you decided is kept in this browser. New pairs come when the server can be reached."],
  fetching: ["One moment", "Fetching the next pairs."],
  waiting: ["Nothing for you right now", "The last pairs are with other people; they come here if they are given back."],
  others: ["All done for you", "The pairs that are left need a vote of somebody else."],
  done: ["All done", "Every pair that needs you has your vote. Doubtful pairs of others may still come for a second look."],
};

export function say(text) {
  $("alert-text").textContent = text;
  $("alert").hidden = false;
}

export function hush() {
  $("alert").hidden = true;
}

export function drawIdle(why) {
  [$("idle-title").textContent, $("idle-text").textContent] = IDLE[why];
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

// `since`: decisions made after the counts came; `gaps`: seconds between the latest decisions.
export function drawProgress(progress, since, gaps) {
  const total = progress.pairs + progress.anchors + progress.verify;
  const left = Math.max(0, progress.pairs_open + progress.anchors_open + (progress.verify - progress.verify_mine) - since);
  const share = total ? Math.round(100 * (1 - left / total)) : 0;
  $("fill").style.width = `${share}%`;
  $("bar").setAttribute("aria-valuenow", String(share));
  const sorted = [...gaps].sort((a, b) => a - b);
  const pace = sorted[Math.floor(sorted.length / 2)];
  const minutes = Math.ceil((left * pace) / 60);
  const time = !pace || !left ? "" : minutes < 90 ? ` · about ${minutes} min` : ` · about ${Math.round(minutes / 60)} h`;
  const each = element("span", pace ? ` · ${pace.toFixed(1)} s each` : "", { class: "pace" });
  $("counts").replaceChildren(`${progress.mine + since} by you · ${left} left`, each, time);
}

function question(card, together) {
  if (card.stage === "anchor") return "Which of these classes are in the picture?";
  if (together) return "Together: do these two look the same?";
  return card.stage === "verify" ? "Second look: do these two look the same?" : "Do these two look the same?";
}

// A card without its pictures; `earlier` is what was said of it before, where we are walking back.
export function drawCard(card, earlier, together) {
  const anchorStage = card.stage === "anchor";
  $("review").className = anchorStage ? "anchor-stage" : card.stage;
  $("question").textContent = question(card, together);
  $("hint").textContent = anchorStage
    ? "Add what is missing, remove what is not there."
    : "If something distinctive is visible in one frame only, choose dissimilar.";
  const text = (list) => list.map((label) => label.name).join(", ") || "no label";
  const [a, b] = document.querySelectorAll("#panes .labels");
  a.textContent = text(card.labels);
  b.textContent = text(card.neighbour_labels);
  $("note").value = earlier?.note || "";
  $("past").hidden = $("forward-button").hidden = !earlier;
  if (earlier) $("past").textContent = `You said: ${describe(earlier)}. Decide again, or keep it.`;
  if (earlier && together) $("past").textContent = "Decided together. Change a vote and save all again, or keep it.";
  $("label-panel").hidden = !anchorStage;
  $("joint-panel").hidden = $("joint-save").hidden = !together;
  $("reasons").hidden = $("wrong-button").hidden = anchorStage;
  document.querySelector("[data-action=similar]").firstChild.textContent = anchorStage ? "Good anchor" : "Similar";
  const mark = earlier && !earlier.bad_anchor && (earlier.reason || earlier.decision);
  for (const button of document.querySelectorAll("#decide button")) button.classList.toggle("said", button.dataset.action === mark);
  drawVotes(card.votes);
}

export function describe(earlier) {
  let text = earlier.bad_anchor ? "bad anchor" : earlier.decision;
  if (earlier.reason) text += ` (${earlier.reason})`;
  return earlier.label_right === false ? `${text}, label wrong` : text;
}

function drawVotes(votes) {
  $("votes").hidden = !votes.length;
  $("votes").replaceChildren(
    ...votes.map((vote) => {
      const line = element("li", `${vote.name}: ${describe(vote)}`, { class: vote.decision });
      if (vote.note) line.append(element("q", vote.note));
      return line;
    }),
  );
}
