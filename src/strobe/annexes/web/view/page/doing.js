// Actions on the selected sets: tag them, export them, write them as a dataset for review.

import { $, call, make, number, plural, query, say, state, warn } from "./api.js";

async function act(work, done) {
  try {
    say(done(await work()));
    warn("");
  } catch (error) {
    warn(error.message);
  }
}

function ask(title, label, { value = "", hint = "", pattern = null }, use) {
  const input = make("input", { name: "text", required: true, maxlength: 40, value, pattern, autocomplete: "off" });
  const result = make("p", { role: "status", cls: "result" });
  const dialog = make("dialog", { "aria-label": title },
    make("form", { on: { submit: async (event) => {
      event.preventDefault();
      result.textContent = "…";
      try {
        const text = await use(input.value);
        if (text === null) dialog.close();
        else result.replaceChildren(...[text].flat());
      } catch (error) {
        result.textContent = error.message;
      }
    } } }, make("h2", {}, title), make("label", {}, label, input), hint ? make("p", { cls: "sub" }, hint) : null, result,
    make("p", { cls: "buttons" }, make("button", { cls: "primary" }, "OK"), make("button", { type: "button", on: { click: () => dialog.close() } }, "Close"))));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

export const askTag = (body, n, done) => ask(n === 1 ? "Tag this set" : `Tag ${plural(n, "set")}`, "Tag", { hint: "Tags are stored in tags.jsonl in the dataset's folder, with your name." }, async (text) => {
  await call("/api/tag", { data: state().get("data"), act: "tag", text, ...body });
  await done();
  return null;
});

function menu(total, mayWrite, refresh) {
  const data = state().get("data");
  const file = (form, text, note) => make("li", {}, make("a", { href: `/api/export?${query({ form })}`, download: true }, text), make("span", { cls: "sub" }, note));
  const button = (text, note, click) => make("li", {}, make("button", { type: "button", on: { click } }, text), make("span", { cls: "sub" }, note));
  const write = () => ask(`Write ${plural(total, "set")} as a dataset`, "Name", { pattern: "[a-z0-9][a-z0-9\\-]{0,39}", value: "selection", hint: "Small letters, digits and dashes. The new folder lies next to the dataset and shares its images." }, async (name) => {
    const found = await call("/api/selection", { data, query: query(), name });
    return [`${plural(found.sets, "set")} written. Let people review them with: `, make("code", {}, `strobe review serve ${found.folder}`), " or run models on them with ", make("code", {}, `strobe eval ${found.folder} -m MODEL -o run/`)];
  });
  return make("ul", { cls: "menu" },
    file("csv", "Table of these sets", "CSV with every model's outcome"),
    file("subset", "Videos for --subset", "text file; a subset has all sets of a video"),
    file("tags", "All tags and notes", "CSV with names and times"),
    mayWrite ? button("Send to review, or export…", "a dataset folder of exactly these sets", write) : null,
    mayWrite ? button(`Tag all ${number(total)}…`, "", () => askTag({ query: query() }, total, refresh)) : null,
    mayWrite ? button("Remove a tag from all…", "", () => ask(`Remove a tag from ${plural(total, "set")}`, "Tag", {}, async (text) => { await call("/api/tag", { data, act: "untag", text, query: query() }); await refresh(); return null; })) : null);
}

export function doingBar(session, total, refresh) {
  const part = make("details", { cls: "doing" }, make("summary", {}, "Do"), menu(total, session.may_write, refresh));
  part.addEventListener("keydown", (event) => { if (event.key === "Escape") { part.open = false; part.querySelector("summary").focus(); } });
  return [part];
}

// The tags and notes of one set.
export function setTags(found, session, refresh) {
  const data = state().get("data");
  const untag = (tag) => act(() => call("/api/tag", { data, act: "untag", text: tag, row: found.row }), () => { refresh(); return `${tag} removed`; });
  const note = make("textarea", { id: "note", rows: 2, maxlength: 1000 });
  note.value = found.notes.find((one) => one.who === session.person)?.text ?? "";
  const save = () => act(() => call("/api/tag", { data, act: "note", text: note.value, row: found.row }), () => { refresh(); return "Note saved"; });
  return make("section", { cls: "card" }, make("h2", {}, "Tags and notes"),
    make("p", { cls: "chips" }, ...found.tags.map((tag) => (session.may_write ? make("button", { type: "button", cls: "chip", on: { click: () => untag(tag) } }, tag, make("span", { "aria-hidden": "true" }, " ×"), make("span", { cls: "visually-hidden" }, " remove this tag")) : make("span", { cls: "chip" }, tag))),
      session.may_write ? make("button", { type: "button", id: "add-tag", on: { click: () => askTag({ row: found.row }, 1, refresh) } }, "Add a tag ", make("kbd", {}, "t")) : null),
    ...found.notes.filter((one) => one.who !== session.person).map((one) => make("p", { cls: "note-of" }, make("b", {}, one.who), ` ${one.text}`)),
    session.may_write ? make("div", { cls: "note-row" }, make("label", { for: "note" }, "Your note"), note, make("button", { type: "button", on: { click: save } }, "Save")) : null);
}

export const openTag = () => $("add-tag")?.click();
