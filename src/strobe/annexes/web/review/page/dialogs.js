// The dialogs: the person, decisions that the server rejected, and the project's guidelines.

import { $, element, post } from "./api.js";
import { markdown } from "./markdown.js";
import { keep, kept } from "./storage.js";

// The guidelines open automatically if this person has not seen this version yet.
export function showGuide(text, store, who) {
  $("guide-button").hidden = !text;
  if (!text) return;
  $("guide-text").replaceChildren(markdown(text));
  const mine = `strobe:${store}:read:${who}`;
  const mark = `${text.length}-${[...text].reduce((sum, one) => (sum * 31 + one.codePointAt(0)) % 1e9, 7)}`;
  if (kept(mine) !== mark && !document.querySelector("dialog[open]")) $("guide").showModal();
  keep(mine, mark);
}

export function setUpGuide() {
  $("guide-button").addEventListener("click", () => $("guide").showModal());
  $("guide-close").addEventListener("click", () => $("guide").close());
}

// Decisions that the server rejected. Only the person may delete them.
function setUpRefused(outbox) {
  const after = (what) => () => {
    what();
    $("person").close();
  };
  $("refused-again").addEventListener("click", after(() => outbox().tryRefusedAgain()));
  $("refused-forget").addEventListener("click", after(() => outbox().forgetRefused()));
  $("refused-save").addEventListener("click", () => {
    const file = new Blob([JSON.stringify(outbox().refused(), null, 1)], { type: "application/json" });
    const link = element("a", "", { href: URL.createObjectURL(file), download: "strobe-decisions.json" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  });
}

export function setUpPerson(person, outbox, logOut) {
  setUpRefused(outbox);
  $("person-button").addEventListener("click", () => {
    const { name, decisions } = person();
    $("person-title").textContent = name;
    $("person-text").textContent = `${decisions} decisions. You can close the page at any time and continue later.`;
    $("link-row").hidden = true;
    const refused = outbox().refused();
    $("refused").hidden = !refused.length;
    if (refused.length) $("refused-text").textContent = `The server rejected ${refused.length} of your decisions: ${refused[0].why}`;
    $("person").showModal();
  });
  $("person-close").addEventListener("click", () => $("person").close());
  $("my-link").addEventListener("click", async () => {
    try {
      $("link").value = (await post("/api/my-link", {})).link;
      $("link-row").hidden = false;
      $("link").select();
    } catch (error) {
      $("person-text").textContent = error.message;
    }
  });
  $("logout").addEventListener("click", async () => {
    try {
      await logOut();
    } catch (error) {
      $("person-text").textContent = `You are still logged in: ${error.message}.`;
    }
  });
}
