// Watching and running a review: people, progress, agreement; observers see the same and change nothing.

import { $, element, get, post } from "./api.js";

const figure = (estimate, scale = 1, digits = 2) =>
  estimate.value === null
    ? "—"
    : `${(estimate.value * scale).toFixed(digits)}${estimate.low === null ? "" : ` [${(estimate.low * scale).toFixed(digits)}, ${(estimate.high * scale).toFixed(digits)}]`}`;

function tiles(id, entries) {
  $(id).replaceChildren(
    ...entries.map(([value, text]) => {
      const tile = element("div", undefined, { class: "tile" });
      tile.append(element("b", value), element("span", text));
      return tile;
    }),
  );
}

function table(id, head, rows) {
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

function controls(person) {
  const box = element("span");
  const does = (action, text) => {
    const button = element("button", text, { type: "button", "aria-label": `${text} ${person.name}` });
    button.addEventListener("click", async () => {
      await run(() => post("/api/admin/pause", { name: person.name, action }));
      await watch();
    });
    return button;
  };
  box.append(does(person.paused ? "resume" : "pause", person.paused ? "Resume" : "Pause"), " ", does("revoke", "Shut out"));
  return box;
}

async function run(action) {
  try {
    return await action();
  } catch (error) {
    $("alert-text").textContent = error.message;
    $("alert").hidden = false;
    return null;
  }
}

let lastPeople = "";
async function watch() {
  let data;
  try {
    data = await get("/api/watch");
  } catch (error) {
    $("who").textContent = error.status === 401 ? "Log in on the review page first." : error.message;
    return;
  }
  $("dataset").textContent = data.dataset;
  $("who").textContent = data.may_run ? "You run this review." : "You are watching.";
  $("invite-section").hidden = $("joint-section").hidden = !data.may_run;
  const { summary } = data;
  const counts = summary.table;
  tiles("tiles", [
    [`${counts.pairs_reviewed} / ${counts.pairs}`, "pairs with a vote"],
    [counts.pairs_accepted, "pairs accepted so far"],
    [`${counts.anchors_accepted} / ${counts.anchors_reviewed}`, "anchors accepted / reviewed"],
    [summary.waiting.round_one.pairs, "pairs wait for a vote of round one"],
    [summary.waiting.round_two.pairs, "pairs wait for votes of round two"],
    [figure(summary.controls.all, 100, 0), `% of ${summary.controls.all.n} control pairs right`],
    [summary.seconds.median === null ? "—" : `${summary.seconds.median.toFixed(1)} s`, "median time per decision"],
  ]);
  const cast = new Map(summary.annotators.map((one) => [one.name, one]));
  const names = [...new Set([...data.people.map((one) => one.name), ...cast.keys()])].sort();
  table(
    "people",
    ["Name", "Role", "Votes", "Similar", "Dissimilar", "Unsure", "Controls right", "Seconds", "Last vote", ...(data.may_run ? ["Change"] : [])],
    names.map((name) => {
      const person = data.people.find((one) => one.name === name) || { name, role: "imported" };
      const votes = cast.get(name);
      const row = [name, person.paused ? `${person.role}, paused` : person.role];
      if (votes) {
        const right = votes.controls.n ? `${votes.controls.count}/${votes.controls.n}` : "—";
        const seconds = votes.seconds.median === null ? "—" : votes.seconds.median.toFixed(1);
        row.push(votes.votes, votes.decisions.similar, votes.decisions.dissimilar, votes.decisions.unsure, right, seconds, votes.last_at.slice(0, 16).replace("T", " "));
      } else row.push(0, 0, 0, 0, "—", "—", "—");
      if (data.may_run) row.push(person.role === "annotator" || person.role === "observer" ? controls(person) : "");
      return row;
    }),
  );
  const annotators = data.people.filter((one) => one.role === "annotator").map((one) => one.name);
  if (annotators.join("\n") !== lastPeople) {
    lastPeople = annotators.join("\n");
    $("joint-members").replaceChildren(
      element("legend", "Who is in the room"),
      ...annotators.map((name) => {
        const label = element("label");
        label.append(element("input", undefined, { type: "checkbox", name: "joint", value: name }), ` ${name}`);
        return label;
      }),
    );
  }
  const { agreement } = summary;
  $("agreement-note").textContent = agreement.raw.reason || "";
  tiles("agreement", [
    [agreement.pairs_with_two_votes, "pairs with two votes or more"],
    [figure(agreement.raw, 100, 1), "% raw agreement"],
    [figure(agreement.fleiss_kappa), "Fleiss' κ"],
    [figure(agreement.krippendorff_alpha), "Krippendorff's α"],
    ...agreement.cohen_kappa.slice(0, 12).map((one) => [figure(one), `Cohen's κ, ${one.a} and ${one.b}`]),
  ]);
  table(
    "class-table",
    ["Class", "Anchors", "accepted", "Pairs", "reviewed", "accepted"],
    summary.classes.map((one) => [one.name, one.anchors, one.anchors_accepted, one.pairs, one.pairs_reviewed, one.pairs_accepted]),
  );
}

async function start() {
  const key = new URLSearchParams(location.hash.slice(1)).get("key");
  if (key) {
    history.replaceState(null, "", location.pathname);
    await run(() => post("/api/login", { key }));
  }
  $("alert-close").addEventListener("click", () => ($("alert").hidden = true));
  $("invite").addEventListener("submit", async (event) => {
    event.preventDefault();
    const made = await run(() => post("/api/admin/invite", { name: $("invite-name").value, role: $("invite-role").value }));
    if (!made) return;
    $("invited").textContent = made.name;
    $("invite-link").value = made.link;
    $("invite-row").hidden = false;
    $("invite-link").select();
    $("invite-name").value = "";
    await watch();
  });
  $("joint").addEventListener("submit", (event) => {
    event.preventDefault();
    const members = new FormData($("joint")).getAll("joint");
    if (members.length) location.href = `/?${members.map((name) => `joint=${encodeURIComponent(name)}`).join("&")}`;
  });
  await watch();
  setInterval(() => document.hidden || watch(), 5000);
}

start();
