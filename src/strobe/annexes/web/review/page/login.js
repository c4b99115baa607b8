// Log-in by name, with a token if the review has one, or by a personal link.

import { $, post } from "./api.js";
import { say } from "./draw.js";

// Log in with the key in the address. Return the reason if that fails, otherwise an empty text.
export async function useLink() {
  const key = new URLSearchParams(location.hash.slice(1)).get("key");
  if (!key) return "";
  // The key never stays in the address bar, where it could be copied or photographed.
  history.replaceState(null, "", location.pathname + location.search);
  try {
    await post("/api/login", { key });
    return "";
  } catch (error) {
    return error.message;
  }
}

export function drawLogin(needs, problem) {
  $("login-error").textContent = problem;
  if (problem) say(`This link does not work: ${problem}`);
  $("token-row").hidden = needs !== "token";
  $("login-form").hidden = needs === "key";
  if (needs === "key") $("login-hint").textContent = "Open the personal link you were sent.";
  $("name").focus();
}

export function setUpLogin(enter) {
  $("login-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    $("login-error").textContent = "";
    try {
      await post("/api/login", { name: $("name").value, token: $("token").value });
      $("token").value = "";
      await enter();
    } catch (error) {
      $("login-error").textContent = error.message;
    }
  });
}
