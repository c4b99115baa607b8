// The admin page: people, progress and agreement of a review. Observers see the same page but cannot change anything.

import { $, element, get, post } from "./api.js";
import { bars, disputes, table } from "./admin-draw.js";

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
  box.append(does(person.paused ? "resume" : "pause", person.paused ? "Resume" : "Pause"), " ", does("revoke", "Remove"));
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
  $("who").textContent = data.may_run ? "You manage this review." : "You can watch this review, but not change it.";
  $("invite-section").hidden = $("joint-section").hidden = !data.may_run;
  $("joint-section").hidden ||= !data.together;
  const warnings = data.summary.warnings || [];
  $("warnings").hidden = !warnings.length;
  $("warnings").replaceChildren(...warnings.map((text) => element("li", text)));
  const { head, rows } = (await import(`./${data.ask}-admin.js`)).draw(data.summary);
  bars(data.summary.over_time);
  disputes(data.summary.disagreements);
  const names = [...new Set([...data.people.map((one) => one.name), ...rows.keys()])].sort();
  table(
    "people",
    ["Name", "Role", ...head, ...(data.may_run ? ["Change"] : [])],
    names.map((name) => {
      const person = data.people.find((one) => one.name === name) || { name, role: "imported" };
      const row = [name, person.paused ? `${person.role}, paused` : person.role, ...(rows.get(name) || head.map(() => "—"))];
      if (data.may_run) row.push(person.role === "annotator" || person.role === "observer" ? controls(person) : "");
      return row;
    }),
  );
  const annotators = data.people.filter((one) => one.role === "annotator").map((one) => one.name);
  if (annotators.join("\n") === lastPeople) return;
  lastPeople = annotators.join("\n");
  $("joint-members").replaceChildren(
    element("legend", "Members of the group"),
    ...annotators.map((name) => {
      const label = element("label");
      label.append(element("input", undefined, { type: "checkbox", name: "joint", value: name }), ` ${name}`);
      return label;
    }),
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
