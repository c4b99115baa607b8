// The admin page's figures of names. `head` and `rows` are the columns that names add to the table of people.

import { $ } from "./api.js";
import { figure, moment, pace, right, table, tiles } from "./admin-draw.js";

export function draw(summary) {
  const { pictures, said, controls, seconds } = summary;
  tiles("tiles", [
    [`${pictures.answered} / ${pictures.asked}`, "images with an answer"],
    [pictures.waiting, "images waiting for answers"],
    [said.none, "none of these"],
    [said.unsure, "cannot tell"],
    [said.late, "too late"],
    [figure(controls, 100, 0), `% of ${controls.n} control images right`],
    [seconds.median === null ? "—" : `${pace(seconds)} s`, "median time per answer"],
  ]);
  tiles("agreement", summary.scores.flatMap((one) => [
    [figure(one.accuracy, 100, 1), `% right, ${one.name}`],
    [figure(one.fleiss_kappa), `Fleiss' κ, ${one.name}`],
  ]));
  $("classes-title").textContent = "Conditions";
  table("class-table", ["Condition", "Images", "Answers"], summary.conditions.map((one) => [one.name, one.pictures, one.answers]));
  const row = (one) => [
    one.answers, one.said.class, one.said.none, one.said.unsure, one.said.late, right(one.controls), pace(one.seconds), moment(one.last_at),
  ];
  return {
    head: ["Answers", "Class", "None", "Cannot tell", "Late", "Controls right", "Seconds", "Last answer"],
    rows: new Map(summary.people.map((one) => [one.name, row(one)])),
  };
}
