"use strict";
// One set: its text, its images with boxes, its filmstrip and its trace. `shown` is the state of the viewer.
const data = JSON.parse($("gallery-data").textContent);
const shown = { list: [], place: 0, model: 0, frame: 0, timer: 0 };
const WORDS = data.still ? { holds: "right", breaks: "breaks", wrong: "wrong", unscored: "not scored" } : { holds: "holds", breaks: "breaks", wrong: "wrong on the anchor", unscored: "not scored everywhere" };
const SIGNS = { holds: "✓", breaks: "✕", wrong: "✕", unscored: "?" };
const SIGN = { ok: "✓", bad: "✕", unknown: "?", skipped: "–" };
const NONE = { unknown: "no answer", skipped: "not asked" };
// If images were changed, the anchor is the original image.
const varied = data.sets.some((set) => set.k !== undefined);
const ANCHOR = varied ? "original" : "anchor";
if (varied) WORDS.wrong = "wrong on the original";

const detects = (model) => data.detectors[model];
const words = (view) => (view.x && view.s === "wrong" ? "finds nothing right on the anchor" : WORDS[view.s]);
// The preposition is "on" for a rung of a ladder, and "at" for a frame or a level.
const at = (set, index) => (set.o ? `on “${offset(set.f[index])}”` : `at ${offset(set.f[index])}`);
// If some frames were skipped, the wrong frame is not necessarily the first that broke the set.
const broken = (view) => (view.r.includes(null) ? "wrong" : words(view));
const percent = (value) => (value === null ? "" : `${Math.round(100 * value)} %`);
// For still or changed images, a set of a single image has no filmstrip.
const lone = (set) => set.f.length === 1 && (data.still || set.k !== undefined);
const offset = (frame) => (frame.n ? frame.n : frame.d === 0 ? ANCHOR : (frame.d > 0 ? "+" : "−") + Math.abs(frame.d));
const far = (frame) => (frame.n ? frame.n : data.axis === "frame-offset" ? `${offset(frame)} frame${Math.abs(frame.d) === 1 ? "" : "s"}` : `${data.axis.replace("-", " ")} ${frame.d}`);
const className = (index) => (index < 0 ? "none of the classes" : data.classes[index]);
const state = (view, place) => (view.q?.includes(place) ? "skipped" : view.r[place] === null ? "unknown" : view.r[place] ? "ok" : "bad");
const truth = (set) => set.y.map(className).join(" / ") || "no label";
const said = (view, index) => {
  if (view.r[index] === null) return NONE[state(view, index)];
  if (view.x) return view.p[index] === null ? "nothing to find" : `AP ${percent(view.p[index])}`;
  return className(view.l[index]); // the class that was scored; the viewer also shows the model's own best class
};

const setPicture = (image, frame) => {
  if (frame.i >= 0) image.src = data.pictures[frame.i];
  else image.removeAttribute("src");
};

const thumb = (set, model, index, kind) => {
  const wrap = make("span", "pic");
  const image = make("img", kind);
  image.alt = "";
  setPicture(image, set.f[index]);
  wrap.append(image);
  if (detects(model)) {
    const layer = draw("svg", { class: "boxes", "aria-hidden": "true", preserveAspectRatio: "xMidYMid slice" });
    fillBoxes(layer, set, set.m[model], index, false);
    wrap.append(layer);
  }
  return wrap;
};

// The boxes of a frame above the chosen score. On the frame that broke the set, the most confident false box is always
// included. Otherwise the text could describe a flicker that is not visible.
const boxesOf = (view, index) => {
  const least = Number($("v-score").value);
  const seen = view.x[index].filter((box) => box[5] >= least);
  const wrong = view.x[index].filter((box) => !box[6]);
  if (index === view.b && wrong.length && !seen.some((box) => !box[6])) seen.push(wrong[0]);
  return seen;
};

const fillBoxes = (layer, set, view, index, named) => {
  const frame = set.f[index];
  const [width, height] = frame.wh || [1, 1];
  layer.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const nodes = [];
  // The font size is in pixels of the frame, so that names have the same size on any screen.
  const size = 11.5 / (Math.min(layer.clientWidth / width, layer.clientHeight / height) || 480 / width);
  const add = ([x0, y0, x1, y1], kind, text) => {
    nodes.push(draw("rect", { x: x0, y: y0, width: x1 - x0, height: y1 - y0, class: kind }));
    if (!text) return;
    const under = y0 <= size * 1.3;
    const room = text.length * size * 0.56;
    const x = Math.max(1, Math.min(x0, width - room));
    nodes.push(draw("text", { x, y: under ? Math.min(y1 + size, height - 2) : y0 - size * 0.3, "font-size": size, "stroke-width": size / 4 }, text));
  };
  for (const box of frame.g || []) add(box, "gt");
  for (const box of view.g ? view.g[index] : []) add(box, "miss", named ? `✕ not found: ${className(box[4])}` : "");
  for (const box of boxesOf(view, index)) {
    add(box, box[6] ? "tp" : "fp", named ? `${box[6] ? "✓" : "✕"} ${className(box[4])} ${box[5].toFixed(2)}` : "");
  }
  layer.replaceChildren(...nodes);
};

const fillShot = (shot, set, view, index, name) => {
  const frame = set.f[index];
  const kind = state(view, index);
  shot.className = `shot ${kind}`;
  const image = shot.querySelector("img");
  image.alt = name ? `${name}, ${truth(set)}` : truth(set);
  setPicture(image, frame);
  shot.querySelector(".badge").textContent = frame.t === null || index === set.a ? name : `${name} · ${frame.t > 0 ? "+" : "−"}${Math.abs(Math.round(frame.t))} ms`;
  const extra = [];
  let verdict;
  if (view.x) {
    const word = { ok: "✓ no worse than the anchor", bad: "✕ worse than the anchor", unknown: "? not scored" }[kind];
    verdict = index === set.a ? said(view, index) : `${said(view, index)} ${word}`;
    if (index === view.b && view.why) extra.push(`main cause: ${view.why}`);
    const n = (frame.g || []).length;
    extra.push(`${n} object${n === 1 ? "" : "s"} to find`);
  } else {
    const word = { ok: "✓ right", bad: "✕ wrong" }[kind];
    const sure = view.c[index] === null ? "" : `, confidence ${percent(view.c[index])}`;
    verdict = NONE[kind] ? `${SIGN[kind]} ${NONE[kind]}` : `${className(view.l[index])}${sure} ${word}`;
    if (view.w && view.w[index]) extra.push(`best of all its classes, not only the ${data.classes.length} here: ${view.w[index]}`);
    if (kind === "bad" && view.p[index] !== null) extra.push(`confidence in ${truth(set)}: ${percent(view.p[index])}`);
  }
  shot.querySelector("figcaption").replaceChildren(make("span", "verdict", verdict), make("span", "own", extra.join(" · ")));
  const layer = shot.querySelector(".boxes");
  if (view.x) fillBoxes(layer, set, view, index, true);
  else layer.replaceChildren();
};

const show = (index) => {
  const { set } = shown.list[shown.place];
  const view = set.m[shown.model];
  shown.frame = index;
  $("v-seek").value = String(index);
  $("v-seek").setAttribute("aria-valuetext", offset(set.f[index]));
  fillShot($("shot-now"), set, view, index, index === set.a ? ANCHOR : far(set.f[index]));
  [...$("v-strip").children].forEach((cell, place) => cell.setAttribute("aria-current", String(place === index)));
  const cell = $("v-strip").children[index];
  const reel = cell.closest(".reel");
  if (reel.scrollWidth > reel.clientWidth) reel.scrollLeft = cell.offsetLeft - (reel.clientWidth - cell.clientWidth) / 2;
  trace();
};

const trace = () => {
  const { set } = shown.list[shown.place];
  const view = set.m[shown.model];
  const box = $("v-trace");
  const width = $("v-strip").clientWidth;
  const [top, bottom] = [14, 92];
  box.setAttribute("viewBox", `0 0 ${width} 100`);
  const nodes = [];
  const known = view.p.some((value) => value !== null);
  const what = view.x ? "The line is the AP of each frame: ● not worse, × worse than the anchor" : "The line is the confidence in the right answer: ● right, × wrong";
  const missing = Object.keys(NONE).filter((kind) => view.r.some((_, index) => state(view, index) === kind)).map((kind) => `, ${SIGN[kind]} ${NONE[kind]}`);
  $("v-says").textContent = known ? `${what}${missing.join("")}${data.models.length > 1 ? "; thin lines are the other models" : ""}.` : "This model gave only labels, so there is no confidence to show.";
  box.toggleAttribute("hidden", !known);
  if (!known) return;
  const column = width / set.f.length;
  const x = (index) => (index + 0.5) * column;
  const y = (value) => bottom - value * (bottom - top);
  for (const value of [0, 0.5, 1]) {
    nodes.push(draw("line", { x1: 0, x2: width, y1: y(value), y2: y(value), class: "grid" }));
    nodes.push(draw("text", { x: 2, y: y(value) - 3, class: "text" }, `${100 * value} %`));
  }
  const path = (one) => one.p.map((value, index) => (value === null ? "" : `${index && one.p[index - 1] !== null ? "L" : "M"}${x(index)} ${y(value)}`)).join("");
  set.m.forEach((one, index) => { if (index !== shown.model && detects(index) === detects(shown.model)) nodes.push(draw("path", { d: path(one), class: "other" })); });
  nodes.push(draw("line", { x1: x(shown.frame), x2: x(shown.frame), y1: 4, y2: bottom, class: "now" }));
  nodes.push(draw("path", { d: path(view), class: "line" }));
  view.p.forEach((value, index) => {
    if (value === null) return;
    if (state(view, index) !== "bad") nodes.push(draw("circle", { cx: x(index), cy: y(value), r: 4, class: "ok" }));
    else nodes.push(draw("path", { d: `M${x(index) - 4} ${y(value) - 4}l8 8m0 -8l-8 8`, class: "no" }));
  });
  box.replaceChildren(...nodes);
};

const step = (by) => {
  const n = shown.list[shown.place].set.f.length;
  show((shown.frame + by + n) % n);
};
const stop = () => {
  clearTimeout(shown.timer);
  shown.timer = 0;
  $("v-play").setAttribute("aria-pressed", "false");
  $("v-play").querySelector(".word").textContent = "Play";
  $("v-play").firstElementChild.textContent = "▶";
};
const tick = () => {
  const { set } = shown.list[shown.place];
  const rate = $("v-speed").value === "real" ? set.fps || 30 : Number($("v-speed").value);
  const last = shown.frame === set.f.length - 1;
  shown.timer = setTimeout(() => { step(1); tick(); }, 1000 / rate + (last ? 500 : 0));
};
const play = () => {
  if (shown.timer) { stop(); return; }
  $("v-play").setAttribute("aria-pressed", "true");
  $("v-play").querySelector(".word").textContent = "Pause";
  $("v-play").firstElementChild.textContent = "❚❚";
  if (shown.frame === shown.list[shown.place].set.f.length - 1) show(0);
  tick();
};
