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
