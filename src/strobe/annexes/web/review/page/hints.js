// Hints from the pixels of a pair. They are shown next to the pair before the vote, or on the next card after the vote.

import { $ } from "./api.js";

function draw(text) {
  $("suggested").textContent = text;
  $("suggested").hidden = !text;
}

export function suggestBefore(card) {
  draw(card.hints.length ? `The pixels suggest: ${card.hints.join(", ")}.` : "");
}

// Hints are shown only for pairs that were voted similar.
export function suggestAfter(card, body) {
  const said = (one) => (card.members ? body.votes[one.task] : body)?.decision;
  const words = (card.members || [card]).flatMap((one, place) =>
    one.hints.length && said(one) === "similar" ? [`${card.members ? `image ${place + 1} ` : ""}${one.hints.join(", ")}`] : [],
  );
  const more = words.length > 2 ? ` and ${words.length - 2} more` : "";
  draw(words.length ? `You just voted similar, but the pixels suggest: ${words.slice(0, 2).join("; ")}${more}.` : "");
}
