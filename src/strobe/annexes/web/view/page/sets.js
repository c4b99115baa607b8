// Every set: filters with counts, and a grid of which only the visible part exists.

import { $, address, call, FILTERS, fullName, go, link, make, number, plural, query, say, short, SIGN, state, STATUS, words } from "./api.js";
import { doingBar } from "./doing.js";

const PAGE = 60;
const NAMES = { c: "Class", a: "Answer on the worst frame", d: "First wrong at distance", p: "Confidence of the worst answer", k: "Variant", v: "Video", r: "Review", h: "Hints", t: "Tags" };
const BINS = ["below 50 %", "50 to 70 %", "70 to 90 %", "90 to 99 %", "99 % and above"];
const SHOWN = 8;
const MANY = 14; // models with a sign of their own in a cell
const opened = new Set(["m", "c"]);
const unfolded = new Set();

const grid = { key: "", pages: new Map(), asked: new Map(), cells: new Map(), total: 0, columns: 1, width: 0, tall: 0, box: null, inner: null, current: 0, models: [], watcher: null };

// -- filters ------------------------------------------------------------------------------------------------------

export async function toggle(key, value) {
  const now = state();
  const had = now.getAll(key);
  await go(address({ [key]: had.includes(value) ? had.filter((one) => one !== value) : [...had, value] }));
}

const textOf = (key, value) => (key === "p" ? BINS[Number(value)] : key === "d" ? (value === "0" ? "anchor" : `±${value}`) : key === "t" && !value ? "without a tag" : value);

function choice(key, value, count, chosen) {
  const box = make("input", { type: "checkbox", on: { change: () => toggle(key, value) } });
  box.checked = chosen;
  return make("label", { cls: "choice" }, box, make("span", { cls: "text" }, textOf(key, value)), make("span", { cls: "count" }, number(count)));
}

function fold(key, title, n, ...content) {
  const part = make("details", { cls: "facet", "data-facet": key }, make("summary", {}, title, n ? make("span", { cls: "badge" }, n) : null), ...content);
  part.open = opened.has(key) || n > 0;
  part.addEventListener("toggle", () => (part.open ? opened.add(key) : opened.delete(key)));
  return part;
}

function facet(key, found) {
  const chosen = state().getAll(key);
  const known = new Map(found);
  for (const value of chosen) if (!known.has(value)) known.set(value, 0);
  if (!known.size || (known.size === 1 && !chosen.length && key === "r")) return null;
  const all = [...known].sort(([a], [b]) => (["d", "p"].includes(key) ? Number(a) - Number(b) : chosen.includes(b) - chosen.includes(a)));
  const most = unfolded.has(key) ? all.length : SHOWN;
  const rest = all.length - most;
  return fold(key, NAMES[key], chosen.length, ...all.slice(0, most).map(([value, count]) => choice(key, value, count, chosen.includes(value))),
    rest > 0 ? make("button", { type: "button", cls: "quiet", on: { click: () => { unfolded.add(key); refresh(); } } }, `${rest} more`) : null,
    key === "v" && found.length >= 200 ? make("p", { cls: "sub" }, "Search by name to find other videos.") : null);
}

function modelFacet(found, labelled) {
  const now = state();
  const chosen = now.getAll("m");
  const focus = now.get("f") ?? "";
  const text = words(labelled);
  const kinds = ["holds", "breaks", ...(labelled ? ["wrong"] : []), ...(Object.values(found).some((one) => one.unscored) ? ["unscored"] : [])];
  const isFirst = ([model]) => model === focus || chosen.some((one) => one.startsWith(`${model}:`));
  const all = Object.entries(found);
  const models = all.length <= MANY || unfolded.has("m") ? all : [...all.filter(isFirst), ...all.filter((one) => !isFirst(one))].slice(0, Math.max(SHOWN, all.filter(isFirst).length));
  const rows = models.map(([model, counts]) => make("div", { cls: "model", role: "group", "aria-label": model },
    make("button", { type: "button", cls: `name${model === focus ? " on" : ""}`, "aria-pressed": String(model === focus), title: "Order by this model; answer, distance and confidence refer to it", on: { click: () => go(address({ f: model === focus ? null : model })) } }, model),
    make("div", { cls: "kinds" }, ...kinds.map((kind) => make("button", { type: "button", cls: `kind ${kind}`, "aria-pressed": String(chosen.includes(`${model}:${kind}`)), "aria-label": `${model}: ${text[kind]}, ${counts[kind]} sets`, title: text[kind], on: { click: () => toggle("m", `${model}:${kind}`) } },
      make("span", { cls: "sign", "aria-hidden": "true" }, SIGN[kind]), number(counts[kind]))))));
  return fold("m", "Models", chosen.length, make("p", { cls: "legend" }, ...kinds.map((kind) => make("span", { cls: kind }, make("b", {}, SIGN[kind]), ` ${text[kind]}`))), ...rows,
    models.length < all.length ? make("button", { type: "button", cls: "quiet", on: { click: () => { unfolded.add("m"); refresh(); } } }, `${all.length - models.length} more models`) : null);
}

function chips(now, labelled) {
  const out = [];
  const chip = (text, changes) => out.push(make("button", { type: "button", cls: "chip", on: { click: () => go(address(changes)) } }, text, make("span", { "aria-hidden": "true" }, " ×"), make("span", { cls: "visually-hidden" }, " remove this filter")));
  for (const key of FILTERS) {
    const all = now.getAll(key);
    for (const value of all) {
      const text = key === "x" ? `${value.split("\t")[2] === "held" ? "newly held" : "newly broken"}: ${value.split("\t").slice(0, 2).join(" → ")}` : key === "q" ? `“${value}”` : key === "m" ? value.replace(/:(\w+)$/, (_, kind) => `: ${short(kind, labelled)}`) : `${NAMES[key].toLowerCase()}: ${textOf(key, value)}`;
      chip(text, { [key]: all.filter((one) => one !== value) });
    }
  }
  if (out.length > 1) out.push(link(address(Object.fromEntries(FILTERS.map((key) => [key, null]))), { cls: "clear" }, "Clear all"));
  return out;
}

// -- the grid -----------------------------------------------------------------------------------------------------

function cellOf(place, one) {
  const data = state().get("data");
  const seen = grid.models.map((model, at) => `${model}: ${STATUS[one.m[at]]}`);
  const name = fullName(one.name, one.video);
  const signs = one.m.length <= MANY ? one.m.map((code, at) => make("i", { cls: STATUS[code], title: seen[at] }, SIGN[STATUS[code]]))
    : [1, 2, 3, 0].map((code) => [code, one.m.filter((other) => other === code).length]).filter(([, n]) => n).map(([code, n]) => make("i", { cls: STATUS[code] }, `${SIGN[STATUS[code]]} ${n}`));
  return link(address({ page: "set", row: one.row }), { cls: "cell", "data-place": place, "data-row": one.row, tabindex: place === grid.current ? "0" : "-1" },
    one.i ? make("span", { cls: "shot" }, make("img", { src: `/media/${data}/${one.i}/small`, alt: "", decoding: "async" })) : null,
    make("span", { cls: "marks", "aria-hidden": "true" }, ...signs),
    make("span", { cls: "line" }, make("span", { cls: "set-name", title: name }, name), make("span", { cls: "label" }, one.label)),
    make("span", { cls: "visually-hidden" }, seen.join("; ")),
    one.t.length ? make("span", { cls: "tags" }, ...one.t.map((tag) => make("b", {}, tag))) : null);
}

function layOut() {
  const { box } = grid;
  const style = getComputedStyle(box);
  const width = box.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  grid.columns = Math.max(2, Math.floor((width + 10) / (width < 500 ? 160 : 182)));
  grid.width = (width + 10) / grid.columns;
  grid.tall = (grid.bare ? 16 : Math.round((grid.width - 10) * 0.75)) + 80;
  grid.inner.classList.toggle("bare", grid.bare);
  grid.inner.style.height = `${Math.ceil(grid.total / grid.columns) * grid.tall}px`;
}

async function fetchPage(page) {
  if (grid.pages.has(page) || grid.asked.has(page)) return;
  const key = grid.key;
  grid.asked.set(page, true);
  try {
    const found = await call(`/api/sets?${query({ offset: page * PAGE, limit: PAGE })}`);
    if (key === grid.key) { grid.pages.set(page, found.sets); show(); }
  } finally {
    if (key === grid.key) grid.asked.delete(page);
  }
}

function show() {
  const { box } = grid;
  if (!box?.isConnected) return;
  const first = Math.max(0, Math.floor(box.scrollTop / grid.tall) - 4) * grid.columns;
  const last = Math.min(grid.total, Math.ceil((box.scrollTop + box.clientHeight) / grid.tall + 6) * grid.columns);
  for (const [place, cell] of grid.cells) if (place < first || place >= last) { cell.remove(); grid.cells.delete(place); }
  for (let page = Math.floor(first / PAGE); page * PAGE < last; page += 1) {
    const sets = grid.pages.get(page);
    if (!sets) { fetchPage(page).catch(() => {}); continue; }
    for (let place = Math.max(first, page * PAGE); place < Math.min(last, page * PAGE + sets.length); place += 1) {
      if (grid.cells.has(place)) continue;
      const cell = cellOf(place, sets[place - page * PAGE]);
      cell.style.transform = `translate(${(place % grid.columns) * grid.width}px, ${Math.floor(place / grid.columns) * grid.tall}px)`;
      cell.style.width = `${grid.width - 10}px`;
      cell.style.height = `${grid.tall - 10}px`;
      grid.cells.set(place, cell);
      const after = [...grid.inner.children].find((node) => Number(node.dataset.place) > place);
      grid.inner.insertBefore(cell, after ?? null);
    }
  }
  if (grid.pages.size > 60) for (const page of grid.pages.keys()) if (Math.abs(page * PAGE - first) > 20 * PAGE) grid.pages.delete(page);
}

function clearCells() {
  for (const cell of grid.cells.values()) cell.remove();
  grid.cells.clear();
}

async function moveTo(place) {
  if (place < 0 || place >= grid.total) return;
  const top = Math.floor(place / grid.columns) * grid.tall;
  if (top < grid.box.scrollTop) grid.box.scrollTop = top;
  else if (top + grid.tall > grid.box.scrollTop + grid.box.clientHeight) grid.box.scrollTop = top + grid.tall - grid.box.clientHeight;
  await fetchPage(Math.floor(place / PAGE));
  show();
  grid.cells.get(grid.current)?.setAttribute("tabindex", "-1");
  grid.current = place;
  const cell = grid.cells.get(place);
  cell?.setAttribute("tabindex", "0");
  cell?.focus({ preventScroll: true });
}

function gridKeys(event) {
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -grid.columns, ArrowDown: grid.columns, PageDown: grid.columns * 4, PageUp: -grid.columns * 4 }[event.key];
  const to = event.key === "Home" ? 0 : event.key === "End" ? grid.total - 1 : step === undefined ? null : grid.current + step;
  if (to === null) return;
  event.preventDefault();
  moveTo(Math.max(0, Math.min(grid.total - 1, to)));
}

export function stopSets() {
  grid.watcher?.disconnect();
  grid.watcher = null;
  if (grid.box?.isConnected) grid.left = { key: grid.key, top: grid.box.scrollTop, current: grid.current };
}

// -- the page -----------------------------------------------------------------------------------------------------

function frame(main) {
  if ($("grid")) return;
  const inner = make("div", { cls: "inner" });
  const box = make("div", { id: "grid", role: "group", "aria-label": "Sets", on: { scroll: () => show(), keydown: gridKeys } }, inner);
  main.replaceChildren(make("div", { cls: "sets" },
    make("aside", { id: "facets", "aria-label": "Filters" }),
    make("section", { cls: "content" }, make("div", { id: "bar" }), box)));
  Object.assign(grid, { box, inner, key: "" });
  grid.watcher = new ResizeObserver(() => { clearCells(); layOut(); show(); });
  grid.watcher.observe(box);
}

let session = null;
let lastShared = null;
const refresh = () => drawSets($("main"), lastShared, false, true);

export async function drawSets(main, shared, moved, again = false) {
  session = shared.session;
  lastShared = shared;
  frame(main);
  const key = query();
  const found = await call(`/api/sets?${query({ facets: 1, limit: PAGE })}`);
  if (key !== query() || !$("grid")) return; // the state changed while the server answered
  const { facets, about } = found;
  const same = key === grid.key && found.version === grid.version;
  const stay = key === grid.key;
  Object.assign(grid, { key, version: found.version, total: found.total, models: found.models, bare: Boolean(about.no_images) });
  const now = state();
  const held = document.activeElement?.closest("#facets")
    ? document.activeElement.getAttribute("aria-label") ?? document.activeElement.textContent : null;
  $("facets").replaceChildren(...[
    found.models.length ? modelFacet(facets.m, about.labelled) : make("p", { cls: "sub" }, "No model has predictions on this dataset yet."),
    ...["c", "a", "d", "p", "k", "v", "r", "h", "t"].map((one) => facet(one, facets[one] ?? []))].filter(Boolean));
  if (held) [...$("facets").querySelectorAll("button, summary, input")].find((node) => (node.getAttribute("aria-label") ?? node.textContent).replace(/[\d,]+ sets$/, "") === held.replace(/[\d,]+ sets$/, ""))?.focus();
  const search = make("input", { id: "search", type: "search", placeholder: "Search by name  /", "aria-label": "Search sets by name", value: now.get("q") ?? "", on: { change: (event) => go(address({ q: event.target.value })) } });
  const sort = make("select", { "aria-label": "Order", on: { change: (event) => go(address({ s: event.target.value })) } },
    ...[["striking", "most striking first"], ["dataset", "order of the dataset"], ["disagreement", "most disagreement first"], ["confidence", "most confident mistakes first"]].map(([value, text]) => { const option = make("option", { value }, text); option.selected = value === (now.get("s") ?? "striking"); return option; }));
  $("bar").replaceChildren(
    make("div", { cls: "bar-line" }, make("h1", { id: "count" }, found.total === facets.n_sets ? plural(found.total, "set") : `${number(found.total)} of ${plural(facets.n_sets, "set")}`),
      search, sort, make("button", { type: "button", cls: "only-narrow", "aria-expanded": "false", on: { click: (event) => event.target.setAttribute("aria-expanded", String($("facets").classList.toggle("open"))) } }, "Filters"), ...doingBar(session, found.total, refresh)),
    make("div", { cls: "chips" }, ...chips(now, about.labelled)),
    about.no_images ? make("p", { cls: "sub" }, "This dataset has no images.") : "");
  if (!same || again || moved) {
    if (!stay || !same) { grid.pages.clear(); grid.asked.clear(); }
    clearCells();
    grid.pages.set(0, found.sets);
    layOut();
    const back = grid.left?.key === key ? grid.left : null;
    if (moved && back) { grid.current = back.current; grid.box.scrollTop = back.top; }
    else if (!stay) { grid.current = 0; grid.box.scrollTop = 0; }
    show();
  }
  say(plural(found.total, "set"));
  if (!found.total) grid.inner.replaceChildren(make("p", { cls: "empty" }, "No set fulfils all filters. Remove one of them."));
  else grid.inner.querySelector("p.empty")?.remove();
}
