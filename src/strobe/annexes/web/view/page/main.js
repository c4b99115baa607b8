// Start, log-in by link, navigation, and news from runs that are going on.

import { $, address, call, go, link, make, onState, state, warn } from "./api.js";
import { drawRuns } from "./runs.js";
import { drawSets, stopSets, toggle } from "./sets.js";
import { drawSet, keyInSet } from "./set.js";
import { drawVideo, drawVideos } from "./videos.js";

const PAGES = { runs: ["Runs", drawRuns], sets: ["Sets", drawSets], videos: ["Videos", drawVideos], set: ["Set", drawSet], video: ["Video", drawVideo] };
const shared = { session: null, runs: null, page: "" };
let versions = "";

async function enter() {
  const key = new URLSearchParams(location.hash.slice(1)).get("key");
  if (key) {
    // The key never stays in the address bar, where it could be copied or photographed.
    history.replaceState(null, "", location.pathname + location.search);
    try {
      await call("/api/login", { key });
    } catch (error) {
      warn(`This link does not work: ${error.message}`);
    }
  }
  shared.session = await call("/api/session");
  return shared.session.person !== null;
}

function drawHead(page) {
  const at = page === "set" ? "sets" : page === "video" ? "videos" : page;
  $("pages").replaceChildren(...["runs", "sets", "videos"].map((name) =>
    link(address({ page: name, row: null, vrow: null }), { "aria-current": name === at ? "page" : null }, PAGES[name][0])));
  const data = state().get("data");
  $("data-label").hidden = shared.runs.datasets.length < 2 || page === "runs";
  $("data").replaceChildren(...shared.runs.datasets.map((one) => {
    const option = make("option", { value: one.id }, one.runs ? `${one.name} (${one.runs} ${one.runs === 1 ? "run" : "runs"})` : one.name);
    option.selected = one.id === data;
    return option;
  }));
  const name = shared.runs.datasets.find((one) => one.id === data)?.name;
  document.title = `${PAGES[page][0]}${page !== "runs" && name ? ` · ${name}` : ""} · strobe view`;
}

async function draw() {
  const now = state();
  const page = now.get("page") in PAGES ? now.get("page") : "runs";
  const known = shared.runs.datasets.map((one) => one.id);
  if (page !== "runs" && !known.includes(now.get("data"))) {
    if (!known.length) { warn("no dataset of these runs can be opened; pass its folder to strobe view, too"); return; }
    history.replaceState(null, "", address({ data: known[0] }));
  }
  if (page !== "sets") stopSets();
  drawHead(page);
  const moved = shared.page !== page;
  shared.page = page;
  try {
    warn("");
    await PAGES[page][1]($("main"), shared, moved);
    document.body.dataset.state = "ready";
  } catch (error) {
    warn(error.message);
    document.body.dataset.state = "failed";
    if (error.status === 401) $("main").replaceChildren();
  }
  if (moved) scrollTo(0, 0);
}

// While a run is going on, ask for news often; otherwise now and then, because a new run may begin.
async function follow() {
  try {
    shared.runs = await call("/api/runs");
    if (shared.page === "sets") await call(`/api/sets?data=${state().get("data")}&limit=1`).then((found) => {
      const known = shared.runs.datasets.find((one) => one.id === state().get("data"));
      if (known) known.version = found.version;
    });
    const now = JSON.stringify(shared.page === "runs" ? shared.runs : shared.runs.datasets);
    if (now !== versions && versions && (shared.page === "runs" || shared.page === "sets")) await draw();
    versions = now;
  } catch (error) {
    warn(error.message);
  }
  setTimeout(follow, shared.runs?.live ? 2500 : 10000);
}

function keys(event) {
  const typing = event.target.closest("input, textarea, select, dialog");
  if (event.ctrlKey || event.metaKey || event.altKey || typing) {
    if (event.key === "Escape" && typing && !event.target.closest("dialog")) event.target.blur();
    return;
  }
  const page = { 1: "runs", 2: "sets", 3: "videos" }[event.key];
  if (page) go(address({ page, row: null, vrow: null }));
  else if (event.key === "?") $("keys").showModal();
  else if (event.key === "/" && $("search")) { $("search").focus(); event.preventDefault(); }
  else if (shared.page === "set") keyInSet(event);
}

async function start() {
  $("help").addEventListener("click", () => $("keys").showModal());
  $("data").addEventListener("change", () => go(`${location.pathname}?page=${["sets", "set"].includes(shared.page) ? "sets" : "videos"}&data=${$("data").value}`));
  $("brand").addEventListener("click", (event) => { event.preventDefault(); go("/?page=runs"); });
  addEventListener("keydown", keys);
  addEventListener("popstate", draw);
  onState(draw);
  try {
    if (!await enter()) {
      $("main").replaceChildren(make("section", { cls: "empty" }, make("h1", {}, "Open your link"),
        make("p", {}, "strobe view prints a personal link in the terminal. Open that link, or ask the person who runs the viewer for yours.")));
      document.body.dataset.state = "login";
      return;
    }
    shared.runs = await call("/api/runs");
  } catch (error) {
    warn(error.message);
    document.body.dataset.state = "failed";
    return;
  }
  await draw();
  setTimeout(follow, 2500);
}

window.strobeView = { toggle };
start();
