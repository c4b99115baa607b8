// The admin page's figures of boxes; `head` and `rows` are its columns of the table of people.

import { $ } from "./api.js";
import { figure, table, tiles } from "./admin-draw.js";

export function draw(summary) {
  const counts = summary.table;
  tiles("tiles", [
    [`${counts.answered} / ${counts.pictures}`, "pictures with an answer"],
    [counts.kept, "images kept so far"],
    [counts.discarded, "images not kept"],
    [summary.waiting.round_one.pictures, "pictures wait for boxes"],
    [summary.waiting.round_two.pictures, "pictures wait for a second look"],
    [figure(summary.suggested, 100, 0), "% of boxes taken as suggested"],
  ]);
  $("agreement-note").textContent = summary.overlap.reason || "";
  tiles("agreement", [
    [figure(summary.overlap), "median overlap (IoU)"],
    [figure(summary.overlap_own), "the same, a detector's own boxes aside"],
    [figure(summary.disagreed, 100, 0), "% of images seen differently"],
    [figure(summary.fleiss_kappa), "Fleiss' κ of keeping"],
    ...summary.pairs.slice(0, 12).map((one) => [figure(one.overlap), `overlap, ${one.person} and ${one.other}`]),
  ]);
  $("classes-title").textContent = "Reasons to discard";
  table("class-table", ["Reason", "Answers"], Object.entries(summary.reasons));
  const row = (one) => [
    one.n_pictures, one.kept, one.discarded, one.suggested, figure({ ...one.overlap, low: null }), one.seconds === null ? "—" : one.seconds.toFixed(1),
  ];
  return {
    head: ["Pictures", "Kept", "Discarded", "As suggested", "Overlap", "Seconds"],
    rows: new Map(summary.people.map((one) => [one.person, row(one)])),
  };
}
