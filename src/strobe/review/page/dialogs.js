// The dialogs of the review page: drop a set, and who one is.

import { $, post } from "./api.js";
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

export function setUpPerson(person, logOut) {
  $("person-button").addEventListener("click", () => {
    const { name, decisions } = person();
    $("person-title").textContent = name;
    $("person-text").textContent = `${decisions} decisions. Close the page whenever you like: you go on where you stopped.`;
    $("link-row").hidden = true;
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
  $("logout").addEventListener("click", logOut);
}
