// The dialogs of the review page: drop a set, and who one is.

import { $, element, post } from "./api.js";
import { actionOf } from "./keys.js";

export function setUpConfirm(drop) {
  $("confirm-no").addEventListener("click", () => $("confirm").close());
  $("confirm-yes").addEventListener("click", () => {
    if (!$("confirm").open) return;
    $("confirm").close();
    drop();
  });
  $("confirm").addEventListener("keydown", (event) => {
    // After Escape the focus stays inside the closed dialog for a moment: what is pressed then was never asked about.
    if (!$("confirm").open || actionOf(event) !== "bad" || event.repeat) return;
    event.preventDefault();
    event.stopPropagation(); // or the same press would ask again for the next pair
    $("confirm-yes").click();
  });
}

// Decisions the server will not have: they are the person's work, and only they may throw them away.
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
    $("person-text").textContent = `${decisions} decisions. Close the page whenever you like: you go on where you stopped.`;
    $("link-row").hidden = true;
    const refused = outbox().refused();
    $("refused").hidden = !refused.length;
    if (refused.length) $("refused-text").textContent = `${refused.length} of your decisions were not taken: ${refused[0].why}`;
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
