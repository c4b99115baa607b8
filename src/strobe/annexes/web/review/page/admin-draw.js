// Figures, tiles and tables of the admin page.

import { $, element } from "./api.js";

export const figure = (estimate, scale = 1, digits = 2) =>
  estimate.value === null
    ? "—"
    : `${(estimate.value * scale).toFixed(digits)}${estimate.low === null ? "" : ` [${(estimate.low * scale).toFixed(digits)}, ${(estimate.high * scale).toFixed(digits)}]`}`;

export function tiles(id, entries) {
  $(id).replaceChildren(
    ...entries.map(([value, text]) => {
      const tile = element("div", undefined, { class: "tile" });
      tile.append(element("b", value), element("span", text));
      return tile;
    }),
  );
}

export function table(id, head, rows) {
  const top = element("thead");
  const line = element("tr");
  line.append(...head.map((name) => element("th", name, { scope: "col" })));
  top.append(line);
  const body = element("tbody");
  body.append(
    ...rows.map((cells) => {
      const row = element("tr");
      row.append(
        ...cells.map((cell) => {
          const made = element("td");
          made.append(cell instanceof Node ? cell : String(cell));
          return made;
        }),
      );
      return row;
    }),
  );
  $(id).replaceChildren(top, body);
}

export const right = (controls) => (controls.n ? `${controls.count}/${controls.n}` : "—");

export const pace = (seconds) => (seconds.median === null ? "—" : seconds.median.toFixed(1));

export const moment = (at) => at.slice(0, 16).replace("T", " ");

const COLOURS = 6;

const shape = (tag, attributes, text) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
};

// How many answers came in each step of time, with a colour for each of the first people.
export function bars(found) {
  $("time-section").hidden = !found?.bars.length;
  if (!found?.bars.length) return;
  const [wide, tall, left, base] = [Math.min(900, $("over-time").clientWidth), 160, 40, 22];
  const people = [...new Set(found.bars.flatMap((one) => Object.keys(one.people)))].sort();
  const colour = (name) => `p${Math.min(people.indexOf(name), COLOURS - 1)}`;
  const most = Math.max(1, ...found.bars.map((one) => Object.values(one.people).reduce((sum, n) => sum + n, 0)));
  const isOneDay = found.bars[0].at.slice(0, 10) === found.bars.at(-1).at.slice(0, 10);
  const text = (at) => (found.step === "day" ? at.slice(5, 10) : at.slice(isOneDay ? 11 : 5));
  const step = Math.min(60, (wide - left) / found.bars.length);
  const total = found.bars.reduce((sum, one) => sum + Object.values(one.people).reduce((part, n) => part + n, 0), 0);
  const svg = shape("svg", { width: wide, height: tall, class: "over-time", role: "img", "aria-label": `${total} answers of ${people.length} people, by ${found.step}; at most ${most}` });
  found.bars.forEach((one, place) => {
    let top = tall - base;
    for (const [name, n] of Object.entries(one.people)) {
      const height = (n / most) * (tall - base - 14);
      top -= height;
      const bar = shape("rect", { x: left + place * step + 1, y: top, width: Math.max(1, step - 2), height, class: colour(name) });
      bar.append(shape("title", {}, `${text(one.at)}, ${name}: ${n}`));
      svg.append(bar);
    }
  });
  const every = Math.ceil(80 / step);
  found.bars.forEach((one, place) => place % every || svg.append(shape("text", { x: left + place * step, y: tall - 6 }, text(one.at))));
  svg.append(shape("text", { x: left - 6, y: 18, "text-anchor": "end" }, String(most)), shape("text", { x: left - 6, y: tall - base, "text-anchor": "end" }, "0"));
  const keys = people.slice(0, COLOURS).map((name, place) => {
    const key = element("span", undefined, { class: "key-of" });
    key.append(element("i", undefined, { class: `p${place}` }), place === COLOURS - 1 && people.length > COLOURS ? `${people.length - place} others` : name);
    return key;
  });
  const legend = element("p", `Answers by ${found.step} (UTC). `, { class: "quiet" });
  legend.append(...keys);
  $("over-time").replaceChildren(svg, legend);
}

// The tasks on which people disagree now. Only the lead gets them.
export function disputes(found) {
  $("disputes-section").hidden = !found;
  if (!found) return;
  $("disputes-text").textContent = !found.n
    ? "Nobody disagrees now."
    : `The latest answers of two people differ on ${found.n} task${found.n === 1 ? "" : "s"}${found.n > found.rows.length ? `; the latest ${found.rows.length} are listed` : ""}.`;
  $("disputes").replaceChildren(...found.rows.map((row) => {
    const line = element("li");
    const text = element("p", row.answers.map((one) => `${one.name}: ${one.said}`).join(" · "));
    text.append(element("span", `${row.task}, frame ${row.frame.split(":").pop()}`));
    line.append(...row.images.map((name) => element("img", undefined, { src: `/media/${name}`, alt: "", loading: "lazy" })), text);
    return line;
  }));
}
