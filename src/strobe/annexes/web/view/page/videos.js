// Videos: how many sets of each hold or flicker, and a timeline of every model along one video.

import { address, call, go, link, make, number, plural, query, shape, state, STATUS } from "./api.js";

const MANY = 40;
let shown = MANY;
let waiting = 0;

const percent = (part, whole) => `${((100 * part) / Math.max(1, whole)).toFixed(2)}%`;

function bar(counts) {
  const whole = counts.reduce((sum, one) => sum + one, 0);
  const parts = [1, 2, 3, 0].filter((code) => counts[code]).map((code) => {
    const part = make("i", { cls: STATUS[code] });
    part.style.width = percent(counts[code], whole);
    return part;
  });
  return make("span", { cls: "stack", role: "img", "aria-label": `${counts[1]} hold, ${counts[2]} flicker, ${counts[3]} wrong on the anchor`, title: `${counts[1]} hold · ${counts[2]} flicker · ${counts[3]} wrong on the anchor` }, ...parts);
}

export async function drawVideos(main, shared, moved) {
  if (moved) shown = MANY;
  const search = state().get("vq") ?? "";
  const found = await call(`/api/videos?${query({ vq: search, limit: Math.min(240, shown) })}`);
  const field = make("input", { id: "search", type: "search", value: search, "aria-label": "Search videos by name", placeholder: "Search by name  /", on: { change: (event) => go(address({ vq: event.target.value }), { replace: true }) } });
  const focus = state().get("f");
  const models = [...new Set([...found.models.filter((one) => one === focus), ...found.models])].slice(0, 12);
  main.replaceChildren(make("div", { cls: "page" }, make("h1", {}, "Videos"),
    make("p", { cls: "lede" }, `${plural(found.total, "video")} of ${found.about.name}, those with the most flickering sets first. Filters of the sets apply here, too.`),
    make("div", { cls: "filters" }, field), models.length < found.models.length ? make("p", { cls: "sub" }, `${models.length} of ${found.models.length} models are shown. Put a model in focus on the page of sets to see it here.`) : null, make("p", { cls: "legend" }, ...[["holds", "hold"], ["breaks", "flicker"], ...(found.about.labelled ? [["wrong", "wrong on the anchor"]] : []), ["unscored", "not scored"]].map(([kind, text]) => make("span", {}, make("i", { cls: `key ${kind}` }), text))),
    make("div", { cls: "scroll", tabindex: "0", role: "region", "aria-label": "Table of videos" }, make("table", { cls: "videos" },
      make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "video"), make("th", { scope: "col", cls: "right" }, "sets"), ...models.map((name) => make("th", { scope: "col" }, name)))),
      make("tbody", {}, ...found.videos.map((one) => make("tr", {}, make("th", { scope: "row" }, link(address({ page: "video", vrow: one.row }), {}, one.name)), make("td", { cls: "right" }, number(one.sets)), ...models.map((name) => make("td", {}, bar(one.models[name])))))))),
    found.total > found.videos.length ? make("p", {}, shown < 240 ? make("button", { type: "button", on: { click: () => { shown = Math.min(240, shown * 2); drawVideos(main, shared, false); } } }, `Show more of ${number(found.total)}`) : `The first 240 of ${plural(found.total, "video")} are shown. Search by name to find others.`) : null));
}

// The strips of every model along one video. `row` is the set to mark.
export function strips(video, row) {
  if (!video.models.length) return make("p", { cls: "sub" }, "No model has predictions on this video.");
  const n = Math.max(1, video.n);
  const marks = shape("svg", { viewBox: `0 0 ${n} 10`, class: "anchors", preserveAspectRatio: "none", "aria-hidden": "true" });
  for (const one of video.sets) marks.append(shape("rect", { x: one.at, y: one.row === row ? 0 : 3, width: Math.max(1, n / 400), height: 10, class: one.row === row ? "here" : "" }));
  const lines = video.models.map((model) => {
    if (model.pending) return make("div", { cls: "strip" }, make("span", { cls: "strip-name" }, model.model), make("span", { cls: "sub" }, "loading…"));
    const svg = shape("svg", { viewBox: `0 0 ${n} 24`, preserveAspectRatio: "none", class: "track", role: "img", "aria-label": `${model.model}: ${plural(model.flips, "flip")} in ${plural(n, "frame")}` });
    for (const [start, length, colour, text] of model.spells) {
      const part = shape("rect", { x: start, y: 0, width: length, height: 18, class: `c${colour}` });
      const title = shape("title");
      title.textContent = `${text}, ${plural(length, "frame")}`;
      part.append(title);
      svg.append(part);
    }
    for (const [start, length] of model.wrong) svg.append(shape("rect", { x: start, y: 20, width: length, height: 4, class: "bad" }));
    const points = model.confidence.map((value, place) => (value === null ? null : `${place + 0.5},${(18 - 18 * value).toFixed(1)}`)).filter(Boolean);
    if (points.length > 1) svg.append(shape("polyline", { points: points.join(" "), class: "sure", "vector-effect": "non-scaling-stroke" }));
    return make("div", { cls: "strip" }, make("span", { cls: "strip-name" }, model.model, make("span", { cls: "sub" }, plural(model.flips, "flip"))), svg);
  });
  return make("div", { cls: "strips" }, make("p", { cls: "sub" }, `${plural(video.n, "frame")}${video.times.length ? `, ${video.times.join(" to ")}` : ""}. Colours are answers, the line is the confidence, and the bar below marks wrong frames.`),
    ...lines, make("div", { cls: "strip" }, make("span", { cls: "strip-name sub" }, "anchors"), marks),
    make("p", { cls: "legend" }, ...video.legend.map(([colour, text]) => make("span", {}, make("i", { cls: `key c${colour}` }), text)), make("span", {}, make("i", { cls: "key c0" }), "other answers")));
}

export async function drawVideo(main, shared) {
  clearTimeout(waiting);
  const row = Number(state().get("vrow"));
  const found = await call(`/api/video?${query({ row })}`);
  if (state().get("page") !== "video") return;
  main.replaceChildren(make("div", { cls: "page" }, make("p", { cls: "eyebrow" }, link(address({ page: "videos", vrow: null }), {}, "← Videos")), make("h1", {}, found.name),
    make("section", { cls: "card" }, strips(found, -1)),
    make("h2", {}, plural(found.sets.length, "set")),
    make("ul", { cls: "set-list" }, ...found.sets.map((one) => make("li", {}, link(address({ page: "set", row: one.row, v: found.name, vrow: null }), {}, one.name))))));
  if (found.models.some((model) => model.pending)) waiting = setTimeout(() => drawVideo(main, shared).catch(() => {}), 900);
}
