// The admin page's figures of boxes. `head` and `rows` are the columns that boxes add to the table of people.

import { $ } from "./api.js";
import { figure, table, tiles } from "./admin-draw.js";

export function draw(summary) {
  const counts = summary.table;
  tiles("tiles", [
    [`${counts.answered} / ${counts.pictures}`, "images with an answer"],
    [counts.kept, "images kept so far"],
    [counts.discarded, "images discarded"],
    [summary.waiting.round_one.pictures, "images waiting for a first box"],
    [summary.waiting.round_two.pictures, "images waiting for round two"],
    [figure(summary.suggested, 100, 0), "% of boxes are unchanged suggestions"],
  ]);
  $("agreement-note").textContent = summary.overlap.reason || "";
  tiles("agreement", [
    [figure(summary.overlap), "median overlap (IoU)"],
    [figure(summary.overlap_own), "median overlap (IoU) without unchanged suggestions"],
    [figure(summary.disagreed, 100, 0), "% of images with disagreement"],
    [figure(summary.fleiss_kappa), "Fleiss' κ of keep or discard"],
    ...summary.pairs.slice(0, 12).map((one) => [figure(one.overlap), `overlap, ${one.person} and ${one.other}`]),
  ]);
  $("classes-title").textContent = "Reasons to discard";
  table("class-table", ["Reason", "Answers"], Object.entries(summary.reasons));
  const row = (one) => [
    one.n_pictures, one.kept, one.discarded, one.suggested, figure({ ...one.overlap, low: null }), one.seconds === null ? "—" : one.seconds.toFixed(1),
  ];
  return {
    head: ["Images", "Kept", "Discarded", "As suggested", "Overlap", "Seconds"],
    rows: new Map(summary.people.map((one) => [one.person, row(one)])),
  };
}
