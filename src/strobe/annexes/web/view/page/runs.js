// The table of runs: sort, filter, choose two or more models and compare them.

import { address, call, link, make, number, plural, say, state, go } from "./api.js";

const STATE = { running: "running", killed: "killed", stopped: "stopped", predicted: "not scored", scored: "scored" };
const WHY = { // what to do
  running: "",
  killed: "The process was killed. Run the same command again to resume.",
  stopped: "Some frames have no prediction. Run the same command again to resume.",
  predicted: "Predictions are complete. Run strobe score to get figures.",
  scored: "",
};
const chosen = new Map();
let compared = null;

const rowsOf = (runs) => runs.runs.flatMap((run) => (run.models.length ? run.models : [{ model: "", frames: 0, figures: {} }]).map((model) => ({ run, ...model, key: `${run.id}\t${model.model}` })));

function order(rows, by, up) {
  const value = (row) => ({ model: row.model, run: row.run.name, dataset: row.run.dataset_name, date: row.run.at, state: row.run.state })[by] ?? row.figures[by]?.v ?? null;
  return [...rows].sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x === null || y === null) return (x === null) - (y === null);
    return (up ? 1 : -1) * (typeof x === "number" ? x - y : String(x).localeCompare(String(y)));
  });
}

function head(columns, by, up) {
  const cell = (key, text, right) => make("th", { scope: "col", cls: right ? "right" : "", "aria-sort": by === key ? (up ? "ascending" : "descending") : null },
    make("button", { type: "button", on: { click: () => go(address({ by: key, up: by === key ? (up ? null : "1") : right || key === "date" ? null : "1" }), { replace: true }) } }, text));
  return make("tr", {}, make("th", { scope: "col" }, make("span", { cls: "visually-hidden" }, "Compare")), cell("model", "model"), ...columns.map((name) => cell(name, name, true)),
    cell("state", "state"), cell("run", "run"), cell("dataset", "dataset"), cell("date", "date"));
}

function line(row, columns, shared, redraw) {
  const { run } = row;
  const box = make("input", { type: "checkbox", "aria-label": `Compare ${row.model} of ${run.name}`, on: { change: (event) => {
    if (event.target.checked) chosen.set(row.key, row); else chosen.delete(row.key);
    compared = null;
    redraw();
  } } });
  box.checked = chosen.has(row.key);
  const same = shared.runs.runs.filter((one) => one.dataset === run.dataset && one.models.some((model) => model.model === row.model)).length > 1;
  const shown = same ? `${run.name}/${row.model}` : row.model;
  const can = run.dataset && row.model;
  const progress = run.state === "scored" || !run.total ? null : make("span", { cls: "sub" }, `${number(row.frames)} of ${number(run.total)} frames`);
  return make("tr", {},
    make("td", {}, can ? box : null),
    make("th", { scope: "row" }, can ? link(`/?page=sets&data=${run.dataset}&${new URLSearchParams({ f: shown })}`, {}, row.model) : row.model || "no model yet", progress),
    ...columns.map((name) => {
      const found = row.figures[name];
      if (!found || found.v === null) return make("td", { cls: "right", "data-name": name }, "—");
      const [interval] = found.text.match(/\[.*\]/) ?? [""];
      return make("td", { cls: "right", "data-name": name }, make("span", { cls: "num" }, found.text.replace(/ ?\[.*\]/, "")), make("span", { cls: "ci" }, interval));
    }),
    make("td", {}, make("span", { cls: `state ${run.state}` }, STATE[run.state]), make("span", { cls: "sub" }, (run.dataset && (run.problem || run.note)) || WHY[run.state])),
    make("td", {}, run.name), make("td", {}, run.dataset_name || make("span", { cls: "sub" }, run.problem || "not found")),
    make("td", { cls: "nowrap" }, run.at.slice(0, 16).replace("T", " ")));
}

function table(rows, columns, by, up, shared, redraw) {
  return make("div", { cls: "scroll", tabindex: "0", role: "region", "aria-label": `Table of runs${columns.length ? ` with ${columns[0]}` : ""}` }, make("table", { cls: "runs" },
    make("caption", {}, columns.length ? "Shares in %, with 95 % intervals" : "No run has figures yet"),
    make("thead", {}, head(columns, by, up)), make("tbody", {}, ...rows.map((row) => line(row, columns, shared, redraw)))));
}

async function compare(redraw) {
  compared = { waiting: true };
  redraw();
  const rows = [...chosen.values()].sort((a, b) => a.run.at.localeCompare(b.run.at));
  try {
    compared = { ...await call("/api/compare", { rows: rows.map((row) => [row.run.id, row.model]) }), names: rows.map((row) => row.model) };
    say("The comparison is shown.");
  } catch (error) {
    compared = { error: error.message };
  }
  redraw();
}

function changes(one) {
  const [before, after] = [compared.rows?.[one.before], compared.rows?.[one.after]];
  const to = (kind) => `/?${new URLSearchParams({ page: "sets", data: compared.data, f: after, b: before, x: `${before}\t${after}\t${kind}` })}`;
  const part = (kind, n, word) => (n && compared.data && before && after && !one.by_box ? link(to(kind), {}, `${plural(n, "set")} ${word}`) : `${plural(n, "set")} ${word}`);
  return make("li", {}, one.text, " ", make("span", { cls: "links" }, part("held", one.held, one.words[0]), " · ", part("broken", one.broken, one.words[1])));
}

function comparison() {
  if (!compared) return null;
  if (compared.waiting) return make("p", { cls: "note" }, "Comparing…");
  if (compared.error) return make("p", { cls: "note" }, compared.error);
  return make("section", { cls: "card", "aria-labelledby": "compared" }, make("h2", { id: "compared" }, "Comparison"),
    make("ul", { cls: "plain" }, ...compared.sentences.map((one) => make("li", {}, one.text))),
    compared.changes.length ? make("h3", {}, "Sets that changed") : null,
    make("ul", { cls: "plain" }, ...compared.changes.map(changes)),
    ...compared.cautions.map((text) => make("p", { cls: "sub" }, text)));
}

export async function drawRuns(main, shared) {
  const now = state();
  const by = now.get("by") ?? "date";
  const up = now.get("up") === "1";
  const { runs } = shared;
  const all = rowsOf(runs);
  const wanted = { data: now.get("rd") ?? "", model: (now.get("rm") ?? "").toLowerCase(), since: now.get("since") ?? "" };
  const rows = order(all.filter(({ run, model }) => (!wanted.data || run.dataset === wanted.data) && `${model} ${run.name}`.toLowerCase().includes(wanted.model) && run.at.slice(0, 10) >= wanted.since), by, up);
  // A table for each kind of figures, so that no model is a row of dashes. A model without figures is in the first one.
  const leadOf = (row) => runs.columns.find((name) => row.figures[name]);
  const leads = runs.columns.filter((name) => rows.some((row) => leadOf(row) === name));
  const parts = leads.length ? leads.map((lead) => rows.filter((row) => (leadOf(row) ?? leads[0]) === lead)) : [rows];
  const redraw = () => drawRuns(main, shared);
  const datasets = make("select", { id: "run-data", on: { change: (event) => go(address({ rd: event.target.value }), { replace: true }) } },
    make("option", { value: "" }, "all datasets"), ...runs.datasets.map((one) => { const option = make("option", { value: one.id }, one.name); option.selected = one.id === wanted.data; return option; }));
  const model = make("input", { id: "search", type: "search", value: now.get("rm") ?? "", on: { change: (event) => go(address({ rm: event.target.value }), { replace: true }) } });
  const since = make("input", { id: "run-since", type: "date", value: wanted.since, on: { change: (event) => go(address({ since: event.target.value }), { replace: true }) } });
  const n = chosen.size;
  const focus = document.activeElement?.getAttribute("aria-label") ?? document.activeElement?.textContent;
  main.replaceChildren(make("div", { cls: "page" },
    make("h1", {}, "Runs"),
    make("p", { cls: "lede" }, runs.runs.length ? `${plural(runs.runs.length, "run")} on ${plural(runs.datasets.length, "dataset")}. Open a model to see its sets, or choose two or more to compare them.` : "No run yet. A run that strobe eval begins in this folder appears here.", runs.live ? " A run is going on: this page follows it." : ""),
    make("div", { cls: "filters" },
      make("label", {}, "Dataset", datasets), make("label", {}, "Model or run", model), make("label", {}, "Since", since),
      make("button", { type: "button", cls: "primary", disabled: n < 2 || n > 8, on: { click: () => compare(redraw) } }, n < 2 ? "Compare: choose two" : n > 8 ? "Compare: at most 8" : `Compare ${n}`),
      n ? make("button", { type: "button", on: { click: () => { chosen.clear(); compared = null; redraw(); } } }, "Clear") : null),
    comparison(),
    ...parts.map((part) => table(part, runs.columns.filter((name) => part.some((row) => row.figures[name])), by, up, shared, redraw)),
    ...runs.datasets.filter((one) => !one.runs).map((one) => make("p", { cls: "sub" }, link(`/?page=sets&data=${one.id}`, {}, one.name), " has no run here."))));
  if (focus) [...main.querySelectorAll("button, input")].find((node) => (node.getAttribute("aria-label") ?? node.textContent) === focus)?.focus();
}
