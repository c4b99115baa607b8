// One set: player, filmstrip, every model's answers over the frames, boxes, people's answers, the timeline of its video.

import { $, address, call, fullName, go, link, make, query, shape, short, SIGN, state } from "./api.js";
import { openTag, setTags } from "./doing.js";
import { strips } from "./videos.js";

let found = null;
let at = 0;
let timer = 0;
let waiting = 0;
const COLOURS = 8;

const src = (frame) => `/media/${state().get("data")}/${frame.i}`;
const percent = (value) => (value === null || value === undefined ? "" : `${Math.round(100 * value)} %`);

// The models on the stage: the focus, or before and after.
function staged() {
  const now = state();
  const names = found.models.map((one) => one.model);
  const first = names.includes(now.get("f")) ? now.get("f") : found.models.find((one) => one.status === "breaks")?.model ?? names[0];
  const before = names.includes(now.get("b")) && now.get("b") !== first ? now.get("b") : null;
  return [before, first].filter((name) => name !== undefined && name !== null).map((name) => found.models.find((one) => one.model === name));
}

const known = (model) => model && !model.pending;
const mark = (model, place) => (!known(model) || model.answers[place] === null ? "unscored" : model.right === null ? "plain" : model.right[place] ? "holds" : "breaks");

function boxesOf(frame, model, place) {
  if (!frame.wh?.[0] || !frame.g) return null;
  const [width, height] = frame.wh;
  const svg = shape("svg", { class: "boxes", viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
  const box = ([x1, y1, x2, y2], kind, text) => {
    svg.append(shape("rect", { x: x1, y: y1, width: Math.max(0, x2 - x1), height: Math.max(0, y2 - y1), class: kind }));
    if (text) { const label = shape("text", { x: x1 + 2, y: Math.max(11, y1 - 3), class: kind, "font-size": Math.max(9, height / 26) }); label.textContent = text; svg.append(label); }
  };
  for (const one of frame.g) box(one, "gt", "");
  if (known(model) && model.boxes) {
    for (const one of model.missed[place] ?? []) box(one, "miss", `not found: ${found.classes[one[4]] ?? ""}`);
    for (const one of model.boxes[place] ?? []) box(one, one[6] ? "tp" : "fp", `${one[6] ? "✓" : "✕"} ${found.classes[one[4]] ?? ""} ${one[5].toFixed(2)}`);
  }
  return svg;
}

function shot(model, only) {
  const frame = found.frames[at];
  const kind = model ? mark(model, at) : "plain";
  const answer = !model ? "" : model.pending ? "loading…" : model.answers[at] ?? "no answer";
  const sure = known(model) ? percent(model.confidence[at]) : "";
  const verdict = { holds: "✓ right", breaks: "✕ wrong", unscored: "", plain: "" }[kind];
  return make("figure", { cls: `shot ${kind}` },
    make("div", { cls: "frame" }, frame.i ? make("img", { src: src(frame), alt: `Frame ${frame.l} of the set` }) : make("p", { cls: "no-image" }, "This dataset has no images."), boxesOf(frame, model, at)),
    model ? make("figcaption", {}, only ? null : make("span", { cls: "who" }, model.model), make("b", {}, answer), ` ${sure} `, make("span", { cls: "verdict" }, verdict)) : null);
}

function film(main) {
  return make("div", { cls: "film", role: "group", "aria-label": "Frames" }, ...found.frames.map((frame, place) => {
    const last = staged().at(-1);
    return make("button", { type: "button", cls: `still ${last ? mark(last, place) : "plain"}${frame.anchor ? " anchor" : ""}${frame.kept ? "" : " dropped"}`, "aria-pressed": String(place === at), "aria-label": `Frame ${frame.l}${frame.kept ? "" : ", dropped by review"}${last && known(last) ? `: ${last.answers[place] ?? "no answer"}` : ""}`, on: { click: () => { stop(); show(place); } } },
      frame.i ? make("img", { src: `${src(frame)}/small`, alt: "", loading: "lazy" }) : null, make("span", {}, frame.l));
  }));
}

// Every model on every frame: a cell for each answer, coloured by right and wrong.
function matrix() {
  const now = state();
  const names = staged().map((one) => one.model);
  return make("div", { cls: "scroll", tabindex: "0", role: "region", "aria-label": "Answers of every model on every frame" }, make("table", { cls: "matrix" },
    make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "model"), ...found.frames.map((frame, place) => make("th", { scope: "col", cls: place === at ? "now" : "" }, frame.l)))),
    make("tbody", {}, ...found.models.map((model, row) => make("tr", { cls: names.includes(model.model) ? "on" : "" },
      make("th", { scope: "row" }, link(address({ f: model.model, b: now.get("b") === model.model ? null : now.get("b") }), { cls: "model-name" }, make("i", { cls: `swatch s${(row % COLOURS) + 1}` }), model.model),
        make("span", { cls: `state ${model.status}` }, `${SIGN[model.status]} ${short(model.status, model.right !== null)}`),
        names.at(-1) === model.model || found.models.length < 2 ? null : make("button", { type: "button", cls: "quiet", "aria-pressed": String(now.get("b") === model.model), title: "Show this model on the left, as the one before", on: { click: () => go(address({ b: now.get("b") === model.model ? null : model.model, f: names.at(-1) }), { replace: true }) } }, now.get("b") === model.model ? "before ×" : "before", make("span", { cls: "visually-hidden" }, ` ${model.model}`))),
      ...found.frames.map((_, place) => (model.pending ? make("td", { cls: "unscored" }, "…") : make("td", { cls: `${mark(model, place)}${place === at ? " now" : ""}`, title: `${model.answers[place] ?? "no answer"} ${percent(model.confidence[place])}` }, model.answers[place] ?? "—"))))))));
}

function chart() {
  const ready = found.models.filter((model) => known(model) && model.truth.some((value) => value !== null));
  const use = ready.length ? "truth" : "confidence";
  const models = found.models.filter((model) => known(model) && model[use].some((value) => value !== null));
  if (!models.length || found.frames.length < 2) return null;
  const [wide, tall, left, base] = [640, 190, 44, 20];
  const x = (place) => left + (place * (wide - left - 8)) / (found.frames.length - 1);
  const y = (value) => 8 + (1 - value) * (tall - base - 8);
  const svg = shape("svg", { viewBox: `0 0 ${wide} ${tall}`, class: models.length > COLOURS ? "chart many" : "chart", role: "img", "aria-label": "Scores of all models over the frames of the set; the table has the answers" });
  for (const value of [0, 0.5, 1]) {
    const text = shape("text", { x: left - 6, y: y(value) + 4, "text-anchor": "end" });
    text.textContent = `${100 * value} %`;
    svg.append(shape("line", { x1: left, x2: wide - 8, y1: y(value), y2: y(value), class: "grid" }), text);
  }
  svg.append(shape("line", { x1: x(at), x2: x(at), y1: 4, y2: tall - base, class: "now" }));
  const anchor = found.frames.findIndex((frame) => frame.anchor);
  const label = shape("text", { x: x(anchor), y: tall - 4, "text-anchor": "middle" });
  label.textContent = "anchor";
  svg.append(label);
  for (const model of models) {
    const row = found.models.indexOf(model);
    const points = model[use].map((value, place) => (value === null ? null : `${x(place).toFixed(1)},${y(value).toFixed(1)}`)).filter(Boolean);
    const line = shape("polyline", { points: points.join(" "), class: `line s${(row % COLOURS) + 1}${staged().includes(model) ? " on" : ""}` });
    const title = shape("title");
    title.textContent = model.model;
    line.append(title);
    svg.append(line);
  }
  const what = found.models.some((one) => one.boxes) ? "AP of each detector on each frame" : use === "truth" ? "Probability of the right class on each frame" : "Confidence of the answer on each frame";
  return make("figure", { cls: "scores" }, svg, make("figcaption", { cls: "sub" }, what));
}

function people() {
  if (!found.people.length) return null;
  return make("section", { cls: "card" }, make("h2", {}, "What people answered"), make("table", {}, make("thead", {}, make("tr", {}, ...["who", "frame", "answer", "when"].map((text) => make("th", { scope: "col" }, text)))),
    make("tbody", {}, ...found.people.map((one) => make("tr", {}, make("td", {}, one.who), make("td", {}, one.frame === null || one.frame === undefined ? "—" : found.frames[one.frame].l), make("td", {}, one.said, one.why ? make("span", { cls: "sub" }, one.why) : null), make("td", { cls: "nowrap" }, one.at.slice(0, 16).replace("T", " ")))))));
}

function stop() {
  clearInterval(timer);
  timer = 0;
  if ($("play")) $("play").textContent = "▶ Play";
}

function play() {
  if (timer) { stop(); return; }
  $("play").textContent = "❚❚ Pause";
  timer = setInterval(() => ($("stage") ? show((at + 1) % found.frames.length) : stop()), 220);
}

function show(place) {
  at = place;
  const stage = $("stage");
  if (!stage) return;
  const models = staged();
  stage.className = models.length > 1 ? "pair" : "";
  stage.replaceChildren(...(models.length ? models.map((model) => shot(model, models.length === 1)) : [shot(null, true)]));
  const frame = found.frames[at];
  $("when").textContent = `${frame.l} · ${frame.t}${frame.hints.length ? ` · ${frame.hints.join(", ")}` : ""}${frame.kept ? "" : " · dropped by review"}`;
  $("slide").value = at;
  $("slide").setAttribute("aria-valuetext", frame.l);
  const film = document.querySelector(".film");
  [...film.children].forEach((node, one) => node.setAttribute("aria-pressed", String(one === at)));
  const still = film.children[at];
  film.scrollLeft = still.offsetLeft - film.offsetLeft - (film.clientWidth - still.clientWidth) / 2;
  document.querySelectorAll(".matrix tr").forEach((row) => [...row.children].forEach((cell, one) => cell.classList.toggle("now", one === at + 1)));
  const line = document.querySelector(".chart .now");
  if (line) { const x = 44 + (at * (640 - 52)) / (found.frames.length - 1); line.setAttribute("x1", x); line.setAttribute("x2", x); }
}

function step(row) {
  if (row === undefined || row < 0) return;
  go(address({ row }), { replace: true });
}

export function keyInSet(event) {
  if (!found) return;
  const onButton = event.target.closest("button, a, summary");
  const n = found.frames.length;
  if (event.key === "n" || event.key === "j") step(found.near.after);
  else if (event.key === "p" || event.key === "k") step(found.near.before);
  else if (event.key === "ArrowRight") { stop(); show((at + 1) % n); event.preventDefault(); }
  else if (event.key === "ArrowLeft") { stop(); show((at - 1 + n) % n); event.preventDefault(); }
  else if (event.key === " " && !onButton) { play(); event.preventDefault(); }
  else if (event.key === "t") { openTag(); event.preventDefault(); }
  else if (event.key === "Escape") go(address({ page: "sets", row: null }));
}

export async function drawSet(main, shared) {
  clearTimeout(waiting);
  stop();
  const row = Number(state().get("row"));
  const asked = `/api/set?${query({ row })}`;
  const again = found?.row === row;
  const focus = document.activeElement?.id;
  found = await call(asked);
  if (Number(state().get("row")) !== row || state().get("page") !== "set") return;
  const models = staged();
  const broken = models.findLast((one) => known(one) && one.status === "breaks");
  if (!again) {
    const first = broken?.right ? broken.right.map((right, place) => [right, Math.abs(found.frames[place].d), place]).filter(([right]) => !right).sort((a, b) => a[1] - b[1])[0]?.[2] : undefined;
    at = first ?? found.frames.findIndex((frame) => frame.anchor);
  }
  const { near } = found;
  const where = near.at >= 0 ? `${(near.at + 1).toLocaleString("en-US")} of ${near.total.toLocaleString("en-US")}` : "not among the filtered sets";
  const slide = make("input", { type: "range", id: "slide", min: 0, max: found.frames.length - 1, value: at, "aria-label": "Frame", on: { input: (event) => { stop(); show(Number(event.target.value)); } } });
  const timeline = make("section", { cls: "card", id: "timeline" }, make("h2", {}, link(address({ page: "video", vrow: found.video_row, row: null }), {}, found.video)), make("p", { cls: "sub" }, "…"));
  main.replaceChildren(make("div", { cls: "page one" },
    make("div", { cls: "one-head" },
      make("div", {}, make("p", { cls: "eyebrow" }, link(address({ page: "sets", row: null }), {}, "← Sets"), ` · ${[found.labels, found.variant, found.review === "not reviewed" ? "" : found.review].filter(Boolean).join(" · ")}`), make("h1", {}, fullName(found.name, found.video))),
      make("div", { cls: "stepper" }, make("button", { type: "button", id: "previous", "aria-label": "Previous set", disabled: !(near.before >= 0), on: { click: () => step(near.before) } }, "←"), make("span", {}, where), make("button", { type: "button", id: "next", "aria-label": "Next set", disabled: !(near.after >= 0), on: { click: () => step(near.after) } }, "→"))),
    make("div", { cls: "look" },
      make("div", { cls: "player" }, make("div", { id: "stage" }), make("div", { cls: "transport" }, make("button", { type: "button", id: "play", on: { click: play } }, "▶ Play"), slide, make("span", { id: "when", cls: "sub" })), film()),
      make("div", { cls: "numbers" }, chart(), setTags(found, shared.session, () => drawSet(main, shared)))),
    found.models.length ? make("section", { cls: "card" }, make("h2", {}, "Answers of every model"), matrix()) : null,
    timeline, people()));
  show(at);
  if (focus) $(focus)?.focus({ preventScroll: true });
  const video = await call(`/api/video?${query({ row: found.video_row })}`);
  if (timeline.isConnected) timeline.replaceChildren(timeline.firstChild, strips(video, row));
  if (found.models.some((model) => model.pending)) waiting = setTimeout(() => drawSet(main, shared).catch(() => {}), 900);
}
