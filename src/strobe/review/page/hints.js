// What the pixels of a pair suggest: before the vote beside the pair, or after it on the next card.

import { $ } from "./api.js";

function draw(text) {
  $("suggested").textContent = text;
  $("suggested").hidden = !text;
}

export function suggestBefore(card) {
  draw(card.hints.length ? `The pixels suggest: ${card.hints.join(", ")}.` : "");
}

// Only what was called similar is worth a second look.
export function suggestAfter(card, body) {
  const said = (one) => (card.members ? body.votes[one.task] : body)?.decision;
  const words = (card.members || [card]).flatMap((one, place) =>
    one.hints.length && said(one) === "similar" ? [`${card.members ? `picture ${place + 1} ` : ""}${one.hints.join(", ")}`] : [],
  );
  const more = words.length > 2 ? ` and ${words.length - 2} more` : "";
  draw(words.length ? `Called similar just now, but the pixels say: ${words.slice(0, 2).join("; ")}${more}.` : "");
}
