// The review page: one pair at a time, a key for everything, nothing lost.

import { $, get, newId, post } from "./api.js";
import { setUpConfirm, setUpPerson } from "./dialogs.js";
import { drawCard, drawIdle, drawProgress, drawSaved, hush, say } from "./draw.js";
import { JointPanel } from "./joint.js";
import { actionOf, openKeys, setUpKeys } from "./keys.js";
import { LabelPanel } from "./labels.js";
import { Outbox, othersWaiting } from "./outbox.js";
import { Past, nameOf } from "./past.js";
import { Viewer, fetchPicture } from "./viewer.js";

const REASONS = ["motion", "background", "blur", "occlusion", "deformation", "other"];
const AHEAD = 6; // pairs held ready, so that a decision shows the next one at once

let session = null;
let viewer = null;
let outbox = null;
let labels = null;
let joint = null;
let cards = []; // what comes next
let decided = new Set(); // tasks decided here: a claim may still list them
let dropped = new Set(); // anchors called bad here: a claim may still list their pairs
let past = new Past();
let card = null;
let asked = null; // the card that the question about its anchor is about
let seen = false; // the pictures of this card stand there: nobody decides what they have not seen
let shownAt = 0;
let hiddenFor = 0;
let hiddenSince = 0;
let wrong = false;
let progress = null;
let since = 0; // decisions since the counts came
let gaps = [];
let lastDecision = 0;
let claiming = null; // the promise of a claim under way
let claimedAt = 0;
let paused = false;
let unreachable = false;

const tab = newId(); // leases belong to a tab; one that is closed or loaded anew gives them back

// -- coming in ------------------------------------------------------------------------------------------------------

async function start() {
  setUpKeys();
  wire();
  const key = new URLSearchParams(location.hash.slice(1)).get("key");
  let problem = "";
  if (key) {
    // The key never stays in the address bar, where it could be copied or photographed.
    history.replaceState(null, "", location.pathname + location.search);
    try {
      await post("/api/login", { key });
    } catch (error) {
      problem = error.message;
    }
  }
  await enter(problem);
}

// `problem`: why the link did not let us in. Who was here before must not be taken for who holds the link.
async function enter(problem = "") {
  try {
    session = await get("/api/session");
  } catch {
    say("The server cannot be reached. Trying again; what you decided is kept in this browser.");
    setTimeout(() => enter(problem), 3000);
    return;
  }
  hush();
  if (!session.person || problem) {
    show("login");
    $("login-error").textContent = problem;
    if (problem) say(`This link did not let you in: ${problem}`);
    $("token-row").hidden = session.needs !== "token";
    $("login-form").hidden = session.needs === "key";
    if (session.needs === "key") $("login-hint").textContent = "Open the personal link you were sent.";
    $("name").focus();
    return;
  }
  if (session.person.role === "observer") {
    location.href = "/admin";
    return;
  }
  $("dataset").textContent = session.dataset;
  $("person-button").textContent = session.person.name;
  $("menu").hidden = $("meter").hidden = $("saved").hidden = false;
  $("admin-link").hidden = !session.is_admin;
  viewer ||= new Viewer();
  labels ||= new LabelPanel();
  labels.classes = session.classes;
  if (outbox?.who !== session.person.name || outbox.store !== session.store) {
    // Someone new, another review, or the first here: nothing of who was here before may go on.
    outbox?.stop();
    outbox = new Outbox(session.store, session.person.name, showSaved);
    [cards, past, card, gaps, lastDecision] = [[], new Past(), null, [], 0];
    // What still waits was decided, perhaps in a tab that is closed: it is not asked again.
    [decided, dropped] = [new Set(outbox.bodies().filter((body) => body.task).map(nameOf)), new Set()];
  }
  if (card && past.atEnd) cards.unshift(card);
  card = null;
  outbox.send();
  const others = othersWaiting(session.store, session.person.name);
  for (const [name, count] of others) say(`${count} decisions of ${name} wait in this browser: log in as ${name} to send them.`);
  await startJoint();
  $("meter").hidden = Boolean(joint);
  await refill();
  next();
}

async function startJoint() {
  const names = JointPanel.asked();
  if (!names.length || !session.is_admin) return;
  joint = new JointPanel(showTurn);
  if (!(await joint.start(names))) {
    joint = null;
    say("None of these names takes part in this review.");
  }
}

// -- the queue ------------------------------------------------------------------------------------------------------

function refill() {
  claiming ||= claim().finally(() => {
    claiming = null;
    if (!$("idle").hidden) showIdle();
  });
  return claiming;
}

async function claim() {
  const late = isLate();
  try {
    const answer = joint
      ? await post("/api/joint/claim", { members: joint.members, want: AHEAD })
      : await post("/api/claim", { tab, want: AHEAD, who: session.person.name });
    paused = Boolean(answer.paused);
    unreachable = false;
    if (answer.progress) [progress, since] = [answer.progress, outbox.waiting().length];
    // After a long break others may have got what we held; a paused person holds nothing.
    if (paused || late) cards = [];
    const have = new Set([...cards, card].filter(Boolean).map(nameOf));
    for (const one of answer.tasks) {
      const gone = decided.has(nameOf(one)) || (one.stage === "pair" && dropped.has(one.anchor));
      if (!gone && !have.has(nameOf(one))) cards.push(one);
    }
    for (const one of cards) {
      fetchPicture(one.anchor);
      if (one.neighbour) fetchPicture(one.neighbour);
    }
    if (answer.page_version && answer.page_version !== session.page_version) say("A newer page is out: reload when you like.");
  } catch (error) {
    if (error.status === 401) await loggedOut();
    else if (!error.mayPass) say(error.message);
    else unreachable = true;
  } finally {
    claimedAt = performance.now();
  }
  showProgress();
}

// Whether our leases may have run out meanwhile.
function isLate() {
  return !joint && claimedAt > 0 && performance.now() - claimedAt > session.lease_s * 500;
}

async function loggedOut() {
  if (!$("login").hidden) return;
  show("login");
  $("name").value = "";
  $("name").focus();
  say("You were logged out. What you decided is kept in this browser and goes out when you are back.");
}

function next() {
  past.toEnd();
  if (isLate()) return void idle(refill());
  card = cards.shift() || null;
  if (cards.length < AHEAD - 2) refill().then(() => card || !cards.length || !past.atEnd || next());
  if (!card) return idle();
  return showCard(card, null);
}

let idleTimer = 0;
function idle(soon) {
  clearTimeout(idleTimer);
  show("idle");
  showIdle();
  const look = () => {
    if (cards.length && !card && past.atEnd) next();
    else if (!card && !$("idle").hidden) idle();
  };
  if (soon) soon.then(look);
  else idleTimer = setTimeout(() => card || !session?.person || refill().then(look), 3000);
}

function showIdle() {
  const offline = unreachable || outbox.state === "offline";
  const left = progress ? progress.pairs_open + progress.anchors_open : 0;
  const mine = progress?.open_for_me ?? left;
  const why = mine ? "waiting" : left ? "others" : "done";
  drawIdle(paused ? "paused" : offline ? "offline" : claiming ? "fetching" : why);
  $("idle-undo").hidden = !past.steps.length && !progress?.mine;
}

// -- one card -------------------------------------------------------------------------------------------------------

async function showCard(one, earlier) {
  card = one;
  show("review");
  wrong = earlier ? earlier.label_right === false : false;
  drawCard(one, earlier, Boolean(joint));
  if (one.stage === "anchor") labels.show(earlier?.labels?.length ? earlier.labels : one.labels.map((label) => label.id));
  if (joint) joint.show(joint.past.atEnd ? [] : joint.past.here.votes);
  showWrong();
  hiddenFor = 0;
  shownAt = performance.now();
  seen = false;
  delete document.body.dataset.shown;
  let late = false;
  const patience = setTimeout(() => {
    late = true;
    say("The pictures have not come yet. Trying again; what you decided is kept.");
  }, 4000);
  const done = await viewer.show(one);
  clearTimeout(patience);
  if (late) hush();
  if (!done) return;
  seen = true;
  shownAt = performance.now();
  if (done === "unreadable") say("A picture of this pair cannot be read. Choose unsure, and say so in the note.");
  else document.body.dataset.shown = `${one.task}-${one.stage}`;
}

// Deciding together: what the member whose turn it is said, or nothing yet.
function showTurn(vote) {
  wrong = vote?.label_right === false;
  $("note").value = vote?.note || "";
  showWrong();
}

function showWrong() {
  $("wrong-button").setAttribute("aria-pressed", String(wrong));
}

// -- deciding -------------------------------------------------------------------------------------------------------

function decide(fields) {
  if (!card || !seen || stepping) return;
  const anchorStage = card.stage === "anchor";
  const body = {
    decision: fields.decision,
    reason: fields.reason || "",
    bad_anchor: Boolean(fields.bad_anchor),
    label_right: anchorStage ? null : !wrong,
    labels: anchorStage && fields.decision === "similar" ? labels.chosen : [],
    note: $("note").value.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g, " ").trim(),
  };
  if (anchorStage && body.decision === "similar" && !labels.chosen.length) return say("A good anchor needs at least one label.");
  if (joint) return joint.vote(body);
  // Who decided travels along: someone else may have logged in meanwhile in another tab of this browser.
  const id = { verdict_id: newId(), who: session.person.name, task: card.task, stage: card.stage };
  outbox.add("/api/decisions", { ...id, seconds: elapsed(), page_version: session.page_version, ...body });
  remember(body);
}

function saveJoint() {
  if (!joint?.complete || !card || !seen || stepping) return;
  outbox.add("/api/joint/decisions", { votes: joint.bodies(card, elapsed(), session.page_version) });
  decided.add(nameOf(card));
  joint.past.put({ card, votes: joint.votes });
  joint.past.toEnd();
  card = null;
  next();
}

function remember(body) {
  hush();
  decided.add(nameOf(card));
  if (past.put({ card, decision: body })) {
    since += 1;
    const now = performance.now();
    if (lastDecision) gaps = [...gaps, (now - lastDecision) / 1000].slice(-20);
    lastDecision = now;
  }
  // The other pairs of a dropped set need no answer any more.
  if (body.bad_anchor || (card.stage === "anchor" && body.decision !== "similar")) {
    dropped.add(card.anchor);
    cards = cards.filter((one) => one.anchor !== card.anchor || one.stage !== "pair");
  } else dropped.delete(card.anchor);
  card = null;
  $("note").blur();
  next();
  showProgress();
}

function elapsed() {
  const seconds = (performance.now() - shownAt - hiddenFor) / 1000;
  return Math.round(Math.max(0, Math.min(86400, seconds)) * 1000) / 1000;
}

// One step after the other: a second press waits for what the first one fetches, and nothing is decided meanwhile.
let steps = Promise.resolve();
let stepping = 0;
function undo() {
  stepping += 1;
  steps = steps.then(stepBack).finally(() => (stepping -= 1));
  return steps;
}

async function stepBack() {
  const walk = joint ? joint.past : past;
  if (walk.at === 0 && !joint) {
    try {
      await outbox.send();
      await past.fetchOlder();
    } catch (error) {
      return say(`Earlier decisions cannot be shown: ${error.message}`);
    }
  }
  if (walk.at === 0) return say(joint ? "This is the first decision made together here." : "There is no decision before this one.");
  if (walk.atEnd && card) cards.unshift(card);
  walk.at -= 1;
  return showStep(walk);
}

function forward() {
  const walk = joint ? joint.past : past;
  if (walk.atEnd || stepping) return;
  walk.at += 1;
  if (walk.atEnd) next();
  else showStep(walk);
}

// Not waited for: the pictures may take their time, and another step may come before they are there.
function showStep(walk) {
  const { card: one, decision } = walk.here;
  showCard(one, joint ? {} : decision);
}

// -- what is shown at the top ---------------------------------------------------------------------------------------

let wasHeld = false;
function showSaved(box) {
  const [waiting, refused] = [box.waiting().length, box.refused()];
  drawSaved(box, waiting, refused.length);
  if (refused.length) say(`${refused.length} decision(s) were not taken: ${refused[0].why}. They are kept: see under your name, above.`);
  if (box.state === "held") say(`The server does not take ${waiting} decision(s) now: ${box.why}. They are kept here and sent again.`);
  else if (wasHeld) hush();
  wasHeld = box.state === "held";
  if (box.state === "login" && !$("review").hidden) loggedOut();
  if ($("idle").hidden) return;
  // The counts came before the last decisions were in.
  if (box.state === "saved" && since) refill();
  showIdle();
}

function showProgress() {
  if (progress) drawProgress(progress, since, gaps);
}

function show(section) {
  for (const name of ["login", "idle", "review"]) $(name).hidden = name !== section;
  if (section !== "review") delete document.body.dataset.shown;
  if (section === "idle") card = null;
}

// -- keys, buttons, touch -------------------------------------------------------------------------------------------

const PAN = { left: [0.12, 0], right: [-0.12, 0], up: [0, 0.12], down: [0, -0.12] };

function act(action) {
  if (action === "help") return openKeys();
  if (action === "undo") return $("login").hidden ? undo() : undefined;
  if ($("review").hidden) return undefined;
  if (action === "similar" || action === "unsure") return decide({ decision: action });
  if (REASONS.includes(action)) return card?.stage === "anchor" ? undefined : decide({ decision: "dissimilar", reason: action });
  if (action === "wrong") {
    wrong = !wrong;
    return showWrong();
  }
  if (action === "bad") return askWhetherBad();
  if (action === "note") return $("note").focus();
  if (action === "search") return $("label-panel").hidden ? undefined : $("search").focus();
  if (action === "forward") return forward();
  if (action === "save-joint") return saveJoint();
  if (action === "member-next") return joint?.step(1);
  if (action === "member-before") return joint?.step(-1);
  if (action === "view") return viewer.switchView();
  if (action === "flip") return viewer.flip();
  if (action === "auto") return viewer.alternate();
  if (action === "diff") return viewer.toggleDifference();
  if (action === "zoom-in") return viewer.zoomAt(1.5);
  if (action === "zoom-out") return viewer.zoomAt(1 / 1.5);
  if (action === "zoom-reset") return viewer.reset();
  if (PAN[action]) return viewer.move(...PAN[action]);
  return undefined;
}

function askWhetherBad() {
  if (!seen || stepping) return;
  asked = card;
  $("confirm").showModal();
}

function wire() {
  document.addEventListener("keydown", (event) => {
    const open = document.querySelector("dialog[open]");
    if (open) {
      // A second press may come before the dialog has the focus.
      const again = open.id === "confirm" && !open.contains(event.target) && actionOf(event) === "bad" && !event.repeat;
      return again ? $("confirm-yes").click() : undefined;
    }
    const typing = event.target.matches("input, textarea, select");
    if (typing && (event.key === "Escape" || (event.key === "Enter" && event.target.id === "note"))) return event.target.blur();
    if (typing) return undefined;
    // Space and Enter belong to a button that has the focus (and that can be seen: not to one of a closed dialog).
    const focused = event.target.matches("button, a") && !event.target.closest("dialog");
    if (focused && (event.key === " " || event.key === "Enter")) return undefined;
    const action = actionOf(event);
    if (!action) return undefined;
    event.preventDefault();
    // A key that is held down moves the view, but never decides twice.
    if (event.repeat && !PAN[action]) return undefined;
    return act(action);
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-action]");
    if (!button) return;
    // By pointer the focus would stay, and Space would press the same button again.
    if (event.detail) button.blur();
    act(button.dataset.action);
  });
  setUpConfirm(() => card === asked && decide({ decision: "dissimilar", bad_anchor: true }));
  $("alert-close").addEventListener("click", hush);
  $("idle-undo").addEventListener("click", undo);
  $("login-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    $("login-error").textContent = "";
    try {
      await post("/api/login", { name: $("name").value, token: $("token").value });
      $("token").value = "";
      await enter();
    } catch (error) {
      $("login-error").textContent = error.message;
    }
  });
  setUpPerson(
    () => ({ name: session.person.name, decisions: progress ? progress.mine + since : 0 }),
    () => outbox,
    async () => {
      await post("/api/release", { tab }).catch(() => {});
      await post("/api/logout", {});
      location.reload();
    },
  );
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) hiddenSince = performance.now();
    else hiddenFor += performance.now() - hiddenSince;
  });
  window.addEventListener("pagehide", () => {
    if (session?.person) navigator.sendBeacon("/api/release", new Blob([JSON.stringify({ tab })], { type: "application/json" }));
  });
  window.addEventListener("online", () => $("idle").hidden || refill().then(() => !cards.length || card || next()));
  window.addEventListener("pageshow", (event) => event.persisted && location.reload());
}

start();
