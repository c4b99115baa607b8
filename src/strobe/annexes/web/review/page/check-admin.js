// The admin page's figures of checked sets. `head` and `rows` are the columns that checks add to the table of people.

import { $ } from "./api.js";
import { moment, pace, table, tiles } from "./admin-draw.js";

export function draw(summary) {
  const { sets, said, seconds } = summary;
  tiles("tiles", [
    [`${sets.answered} / ${sets.asked}`, "sets with an answer"],
    [sets.waiting, "sets waiting for answers"],
    [seconds.median === null ? "—" : `${pace(seconds)} s`, "median time per answer"],
  ]);
  tiles("agreement", [
    [said.one, "one thing, one right answer"],
    [said.changed, "it changes"],
    [said.several, "several right answers"],
    [said.unsure, "cannot tell"],
  ]);
  $("classes-title").textContent = "Answers";
  table("class-table", ["Answer", "Count"], Object.entries(said));
  const row = (one) => [one.answers, one.said.one, one.said.changed, one.said.several, one.said.unsure, moment(one.last_at)];
  return {
    head: ["Answers", "One thing", "Changes", "Several", "Cannot tell", "Last answer"],
    rows: new Map(summary.people.map((one) => [one.name, row(one)])),
  };
}
