// The admin page's figures of pairs. `head` and `rows` are the columns that pairs add to the table of people.

import { $ } from "./api.js";
import { figure, moment, pace, right, table, tiles } from "./admin-draw.js";

export function draw(summary) {
  const counts = summary.table;
  tiles("tiles", [
    [`${counts.pairs_reviewed} / ${counts.pairs}`, "pairs with a vote"],
    [counts.pairs_accepted, "pairs accepted so far"],
    [`${counts.anchors_accepted} / ${counts.anchors_reviewed}`, "anchors accepted / reviewed"],
    [summary.waiting.round_one.pairs, "pairs waiting for a vote in round one"],
    [summary.waiting.round_two.pairs, "pairs waiting for votes in round two"],
    [figure(summary.controls.all, 100, 0), `% of ${summary.controls.all.n} control pairs right`],
    [summary.seconds.median === null ? "—" : `${pace(summary.seconds)} s`, "median time per decision"],
  ]);
  const { agreement } = summary;
  $("agreement-note").textContent = agreement.raw.reason || "";
  tiles("agreement", [
    [agreement.pairs_with_two_votes, "pairs with at least two votes in round one"],
    [figure(agreement.raw, 100, 1), "% raw agreement"],
    [figure(agreement.fleiss_kappa), "Fleiss' κ"],
    [figure(agreement.krippendorff_alpha), "Krippendorff's α"],
    ...agreement.cohen_kappa.slice(0, 12).map((one) => [figure(one), `Cohen's κ, ${one.a} and ${one.b}`]),
  ]);
  table(
    "class-table",
    ["Class", "Anchors", "Accepted anchors", "Pairs", "Reviewed pairs", "Accepted pairs"],
    summary.classes.map((one) => [one.name, one.anchors, one.anchors_accepted, one.pairs, one.pairs_reviewed, one.pairs_accepted]),
  );
  const row = ({ votes, decisions, controls, seconds, last_at }) => [
    votes, decisions.similar, decisions.dissimilar, decisions.unsure, right(controls), pace(seconds), moment(last_at),
  ];
  return {
    head: ["Votes", "Similar", "Dissimilar", "Unsure", "Controls right", "Seconds", "Last vote"],
    rows: new Map(summary.annotators.map((one) => [one.name, row(one)])),
  };
}
