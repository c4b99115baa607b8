// The review page: one card at a time, with a key for every action. Each kind of question has its own module (pairs.js,
// name.js, box.js, check.js). Login, queue, outbox and undo are shared by all of them.

import { $, get, newId, post } from "./api.js";
import { Clock } from "./clock.js";
import { setUpGuide, setUpPerson, showGuide } from "./dialogs.js";
import { drawIdle, drawPast, drawProgress, drawSaved, hush, say } from "./draw.js";
import { openKeys, setUpKeys } from "./keys.js";
import { drawLogin, setUpLogin, useLink } from "./login.js";
import { setUpMine } from "./mine.js";
import { Outbox, othersWaiting } from "./outbox.js";
import { Pace } from "./pace.js";
import { Past, partsOf } from "./past.js";
import { Queue } from "./queue.js";
import { wire } from "./wiring.js";

let session = null;
let question = null;
let asked = ""; // the name of the question
let outbox = null;
let ownPast = new Past();
let card = null;
let seen = false; // whether the images of this card are visible; until then, no decision is possible
let pace = new Pace();

const clock = new Clock();
const past = () => question?.past || ownPast;

// The interface of the page for the question modules.
const host = {
  say,
  get session() { return session; },
  get card() { return card; },
  get question() { return question; },
  get outbox() { return outbox; },
  loggedOut,
  refilled() {
    if (!$("idle").hidden) look();
    showProgress();
  },
  // Whether a decision on this card is possible now.
  get ready() { return Boolean(card) && seen && !stepping; },
  get seconds() { return clock.seconds; },
  note: () => $("note").value.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g, " ").trim(),
  // Decide this card. `fields` are the fields that the question adds.
  decide(fields) {
    // The name is sent too, because someone else may have logged in from another tab of this browser.
    const id = { [question.id]: newId(), who: session.person.name, task: card.task, stage: card.stage };
    host.put("/api/decisions", { ...id, seconds: clock.seconds, page_version: session.page_version, ...fields }, { decision: fields });
  },
  // Send these decisions and continue. `step` is what undo shows.
  put(path, body, step) {
    outbox.add(path, body);
    remember(step);
  },
  next, // continue without a decision
  forward,
};
const queue = new Queue(host);

// -- log-in ---------------------------------------------------------------------------------------------------------

async function start() {
  setUp();
  await enter(await useLink());
}

// `problem`: why the personal link failed. The page must not mistake the previous person in this browser for its owner.
async function enter(problem = "") {
  try {
    session = await get("/api/session");
    if (session.ask && !question) await load(session.ask);
  } catch {
    say("The server cannot be reached. The page tries again. Your decisions are stored in this browser.");
    setTimeout(() => enter(problem), 3000);
    return;
  }
  hush();
  if (!session.person || problem) {
    show("login");
    return drawLogin(session.needs, problem);
  }
  if (session.person.role === "observer") return void (location.href = "/admin");
  if (session.ask !== asked) return location.reload(); // the server now asks another kind of question
  $("dataset").textContent = session.dataset;
  $("person-button").textContent = session.person.name;
  $("menu").hidden = $("meter").hidden = $("saved").hidden = false;
  $("admin-link").hidden = !session.is_admin;
  if (outbox?.who !== session.person.name || outbox.store !== session.store) {
    // The person or the review has changed. Nothing from before may be used.
    outbox?.stop();
    outbox = new Outbox(session.store, session.person.name, showSaved);
    [ownPast, card, pace] = [new Past(), null, new Pace()];
    question.forget?.();
    queue.startAfresh(outbox.bodies());
  }
  if (card && past().atEnd) queue.putBack([card]);
  card = null;
  queue.unreachable = false; // the log-in worked, so the server can be reached
  outbox.tell("saving");
  outbox.send();
  for (const [name, count] of othersWaiting(session.store, session.person.name)) say(`This browser holds ${count} unsent answers of ${name}. Log in as ${name} to send them.`);
  await question.enter(session);
  queue.putBack(question.practice?.() || []);
  showGuide(session.guidelines, session.store, session.person.name);
  $("meter").hidden = Boolean(question.past);
  queue.refill();
  return idle();
}

async function load(ask) {
  const { default: Question } = await import(`./${ask}.js`);
  setUpKeys(Question.keys, Question.touch);
  question = new Question(host);
  asked = ask;
}

async function loggedOut() {
  if (!$("login").hidden) return;
  show("login");
  $("name").value = "";
  $("name").focus();
  say("You were logged out. Your decisions are stored in this browser and are sent when you log in again.");
}

// -- the next card --------------------------------------------------------------------------------------------------

function next() {
  past().toEnd();
  const late = queue.isLate;
  card = (!late && queue.cards.shift()) || null;
  if (late || queue.isShort) queue.refill();
  return card ? showCard(card, null) : idle();
}

let idleTimer = 0;
function idle() {
  clearTimeout(idleTimer);
  show("idle");
  showIdle();
  idleTimer = setTimeout(() => $("idle").hidden || !session?.person || queue.refill(), 3000);
}

// New cards arrived while no card was shown.
function look() {
  if (queue.cards.length && past().atEnd) return next();
  if (queue.overtaken) queue.refill();
  return idle();
}

function showIdle() {
  const { progress, paused, unreachable, claiming } = queue;
  const offline = unreachable || outbox.state === "offline";
  const left = progress ? progress.tasks_open + progress.anchors_open : 0;
  const mine = progress?.open_for_me ?? left;
  const why = mine > (progress?.resting ?? 0) ? "waiting" : mine ? "resting" : left ? "others" : "done";
  drawIdle(paused ? "paused" : offline ? "offline" : claiming ? "fetching" : why, question.many);
  $("idle-undo").hidden = !past().steps.length && !progress?.mine;
}

// -- one card -------------------------------------------------------------------------------------------------------

// `step`: the earlier decision on this card, if the person went back to it.
async function showCard(one, step) {
  card = one;
  show("review");
  drawPast(step ? question.said(step) : null);
  clock.start();
  seen = false;
  delete document.body.dataset.shown;
  let late = false;
  const patience = setTimeout(() => {
    late = true;
    say("The images have not loaded yet. The page tries again. Your decisions are stored.");
  }, 4000);
  const done = await question.show(one, step);
  clearTimeout(patience);
  if (late) hush();
  if (!done) return;
  seen = true;
  clock.start(question.seen?.(one, step));
  if (done === "unreadable") say(question.unreadable);
  else document.body.dataset.shown = `${one.task}-${one.stage}`;
}

function remember(step) {
  hush();
  const parts = partsOf(card, step.decision);
  if (past().put({ card, ...step })) {
    queue.since += parts.length;
    pace.decided(parts.length);
  }
  if (step.decision) question.decided?.(card, step.decision);
  queue.done(parts);
  card = null;
  $("note").blur();
  next();
  showProgress();
}

// Steps run one after the other. A second key press waits until the first step is loaded. Until then, no decision is
// possible.
let steps = Promise.resolve();
let stepping = 0;
function undo() {
  if (!$("review").hidden && !stepping && question.takeBack?.()) return undefined;
  stepping += 1;
  steps = steps.then(stepBack).finally(() => (stepping -= 1));
  return steps;
}

async function stepBack() {
  const walk = past();
  if (walk.at === 0 && !walk.complete) {
    try {
      await outbox.send();
      await walk.fetchOlder();
    } catch (error) {
      return say(`Earlier decisions cannot be shown: ${error.message}`);
    }
  }
  if (walk.at === 0) return say("There is no earlier decision.");
  if (walk.atEnd && card) queue.putBack([card]);
  walk.at -= 1;
  walk.jumped = false;
  return showStep();
}

function forward() {
  const walk = past();
  if (walk.atEnd || stepping) return;
  walk.at += 1;
  if (walk.jumped || walk.atEnd) next();
  else showStep();
}

// Show an earlier decision that the person chose from the list.
function jump(place) {
  const walk = past();
  if (stepping) return;
  if (walk.atEnd && card) queue.putBack([card]);
  [walk.at, walk.jumped] = [place, true];
  showStep();
}

// Not awaited: another step may come before the images are loaded.
const showStep = () => void showCard(past().here.card, past().here);

// -- what is shown at the top ---------------------------------------------------------------------------------------

let wasHeld = false;
function showSaved(box) {
  const [waiting, refused] = [box.waiting().length, box.refused()];
  drawSaved(box, waiting, refused.length);
  if (refused.length) say(`The server rejected ${refused.length} decision(s): ${refused[0].why}. They are stored in this browser: click your name at the top.`);
  if (box.state === "held") say(`The server cannot take ${waiting} decision(s) now: ${box.why}. They are stored in this browser and sent again.`);
  else if (wasHeld) hush();
  wasHeld = box.state === "held";
  if (box.state === "login" && !$("review").hidden) loggedOut();
  if ($("idle").hidden) return;
  // The server's counts do not include the latest decisions.
  if (box.state === "saved" && queue.since) queue.refill();
  showIdle();
}

function showProgress() {
  if (queue.progress) drawProgress(queue.progress, queue.since, pace.each, session.goal, question.left?.(queue.progress));
}

function show(section) {
  for (const name of ["login", "idle", "review"]) $(name).hidden = name !== section;
  if (section === "review") return;
  document.querySelector("#review dialog[open]")?.close();
  delete document.body.dataset.shown;
  question?.leave?.();
  if (section === "idle") card = null;
}

// -- actions --------------------------------------------------------------------------------------------------------

function act(action) {
  if (action === "help") return openKeys();
  if (action === "undo") return $("login").hidden ? undo() : undefined;
  if ($("review").hidden) return undefined;
  if (action === "forward") return forward();
  if (action === "note") return $("note").focus();
  return question.act(action);
}

function setUp() {
  wire(() => question, act);
  $("alert-close").addEventListener("click", hush);
  $("idle-undo").addEventListener("click", undo);
  setUpLogin(enter);
  setUpGuide();
  setUpMine({ past, question: () => question, send: () => outbox.send(), jump });
  setUpPerson(
    () => ({ name: session.person.name, decisions: queue.progress ? queue.progress.mine + queue.since : 0 }),
    () => outbox,
    async () => {
      await post("/api/release", { tab: queue.tab }).catch(() => {});
      await post("/api/logout", {});
      location.reload();
    },
  );
  window.addEventListener("pagehide", () => {
    if (session?.person) navigator.sendBeacon("/api/release", new Blob([JSON.stringify({ tab: queue.tab })], { type: "application/json" }));
  });
  window.addEventListener("online", () => $("idle").hidden || queue.refill());
  window.addEventListener("pageshow", (event) => event.persisted && location.reload());
}

start();
