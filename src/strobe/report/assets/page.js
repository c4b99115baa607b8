"use strict";
// Code for the whole page: helpers, sorting, searching and collapsing tables, choosing and saving figures, and
// printing.
const $ = (id) => document.getElementById(id);
const make = (tag, className, text) => {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
};
const draw = (tag, attributes, text) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
};

// A long table shows its first rows in any sort order. A field finds rows by name, and a button shows all rows.
const SHOWN_ROWS = 25;
const LONG_TABLE = 40;
const shorten = (table) => {
  const body = table.tBodies[0];
  const rows = body.rows.length;
  if (rows <= LONG_TABLE) return () => {};
  table.classList.add("long");
  const bar = make("form", "long-bar");
  const field = make("input");
  field.type = "search";
  field.placeholder = "part of a name";
  const label = make("label", "", `Find in ${rows} rows `);
  label.append(field);
  const more = make("button", "", "");
  more.type = "button";
  more.setAttribute("aria-pressed", "false");
  const count = make("span", "how");
  count.setAttribute("role", "status");
  bar.append(label, more, count);
  bar.addEventListener("submit", (event) => event.preventDefault());
  table.closest(".scroll").before(bar);
  const fold = () => {
    const wanted = field.value.trim().toLowerCase();
    const all = more.getAttribute("aria-pressed") === "true";
    let found = 0;
    for (const row of body.rows) {
      const suits = !wanted || row.cells[0].textContent.toLowerCase().includes(wanted);
      if (suits) found += 1;
      row.hidden = !suits || (!all && found > SHOWN_ROWS);
    }
    more.textContent = all ? `Show the first ${SHOWN_ROWS}` : `Show all ${found}`;
    more.hidden = found <= SHOWN_ROWS;
    count.textContent = all || found <= SHOWN_ROWS ? `${found} of ${rows} shown` : `the first ${SHOWN_ROWS} of ${found} shown`;
  };
  field.addEventListener("input", fold);
  more.addEventListener("click", () => { more.setAttribute("aria-pressed", String(more.getAttribute("aria-pressed") !== "true")); fold(); });
  fold();
  return fold;
};

// A click on a column's name sorts the table. A missing number always goes last.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  const fold = shorten(table);
  heads.forEach((head, column) => {
    if (!head.dataset.sort) return;
    const button = make("button", "", head.textContent);
    button.type = "button";
    head.dataset.name = button.textContent; // for printing, where a button in a repeated table head is blank
    head.textContent = "";
    head.append(button);
    button.addEventListener("click", () => {
      const text = head.dataset.sort === "text";
      const before = head.getAttribute("aria-sort");
      const down = before ? before === "ascending" : !text;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => {
        const cell = row.cells[column];
        if (text) return cell.textContent.trim();
        return cell.dataset.value === "" || cell.dataset.value === undefined ? null : Number(cell.dataset.value);
      };
      const rows = [...table.tBodies[0].rows].map((row, place) => [key(row), place, row]);
      rows.sort(([a, i], [b, j]) => {
        if (a === null || b === null) return a === b ? i - j : a === null ? 1 : -1;
        const order = text ? a.localeCompare(b, "en", { numeric: true }) : a - b;
        return (down ? -order : order) || i - j;
      });
      table.tBodies[0].append(...rows.map(([, , row]) => row));
      fold();
    });
  });
  // On a phone a row becomes a block, and every cell shows the name of its column.
  for (const row of table.tBodies[0].rows) [...row.cells].forEach((cell, column) => { if (column) cell.dataset.label = (heads[column].dataset.name || heads[column].textContent.trim()).replaceAll("_", "_\u200b"); });
  table.classList.add("stacks");
}

// If there is a figure for each model, one is shown, and a list selects which one.
for (const pick of document.querySelectorAll("select[data-picks]")) {
  const charts = [...document.querySelector(`[data-group="${pick.dataset.picks}"]`).children];
  const show = () => charts.forEach((chart, place) => { chart.hidden = place !== pick.selectedIndex; });
  pick.addEventListener("change", show);
  show();
}

// A named point shows its name under the mouse, or when a finger touches near it.
const NEAR = 22;
const tip = make("div", "tip");
tip.setAttribute("role", "status");
tip.hidden = true;
document.body.append(tip);
for (const drawing of document.querySelectorAll(".drawing")) {
  const points = [...drawing.querySelectorAll(".named")].map((node) => {
    const title = node.querySelector("title");
    const name = title.textContent;
    title.remove(); // otherwise the browser would also show its own tooltip
    return { node, name };
  });
  if (!points.length) continue;
  let lit = null;
  const light = (one) => {
    if (lit) lit.node.classList.remove("lit");
    lit = one;
    if (lit) lit.node.classList.add("lit");
    tip.hidden = !lit;
  };
  const look = (event, reach) => {
    let best = null;
    let least = reach;
    for (const point of points) {
      const box = point.node.getBoundingClientRect();
      const away = Math.hypot(event.clientX - box.x - box.width / 2, event.clientY - box.y - box.height / 2);
      if (away < least) [best, least] = [{ ...point, box }, away];
    }
    light(best);
    if (!best) return;
    tip.textContent = best.name;
    const left = Math.min(best.box.x + best.box.width / 2, document.documentElement.clientWidth - tip.offsetWidth - 8);
    tip.style.left = `${Math.max(8, left) + window.scrollX}px`;
    tip.style.top = `${best.box.y + window.scrollY - tip.offsetHeight - 8}px`;
  };
  drawing.addEventListener("pointermove", (event) => { if (event.pointerType === "mouse") look(event, NEAR / 2); });
  drawing.addEventListener("pointerleave", (event) => { if (event.pointerType === "mouse") light(null); });
  drawing.addEventListener("click", (event) => look(event, NEAR));
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") light(null); });
}

// Figures are saved from the page itself, because the run folder may be missing. They use the light colours.
const LIGHT = JSON.parse($("light-colours").textContent);
const standAlone = (svg) => {
  const copy = svg.cloneNode(true);
  for (const node of copy.querySelectorAll(".lit")) node.classList.remove("lit");
  copy.insertBefore(draw("rect", { width: "100%", height: "100%", fill: "#ffffff" }), copy.firstChild);
  return new XMLSerializer().serializeToString(copy).replace(/var\((--\w+)\)/g, (whole, name) => LIGHT[name] || whole);
};
const hand = (url, name) => {
  const link = make("a");
  link.href = url;
  link.download = name;
  link.click();
};
for (const button of document.querySelectorAll("button[data-save]")) {
  button.addEventListener("click", () => {
    const figure = button.closest("figure");
    const svg = [...figure.querySelectorAll(".drawing svg")].find((one) => one.getBoundingClientRect().width) || figure.querySelector(".drawing svg");
    const name = `${figure.id.replace("fig-", "")}.${button.dataset.save}`;
    const source = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(standAlone(svg))}`;
    if (button.dataset.save === "svg") { hand(source, name); return; }
    const image = new Image();
    image.addEventListener("load", () => {
      const canvas = make("canvas");
      const { width, height } = svg.viewBox.baseVal;
      [canvas.width, canvas.height] = [Math.round(width * 3), Math.round(height * 3)];
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      hand(canvas.toDataURL("image/png"), name);
    });
    image.src = source;
  });
}

// Collapsed parts cannot be opened on paper, so they are printed open, except for raw settings.
let unfolded = [];
window.addEventListener("beforeprint", () => {
  unfolded = [...document.querySelectorAll("details:not([open], .stored)")];
  for (const one of unfolded) one.open = true;
});
window.addEventListener("afterprint", () => { for (const one of unfolded) one.open = false; });

// A link to something inside a collapsed part opens that part.
const openTo = () => {
  let node = location.hash ? $(location.hash.slice(1)) : null;
  for (; node; node = node.parentElement) if (node.tagName === "DETAILS") node.open = true;
};
window.addEventListener("hashchange", openTo);
openTo();
