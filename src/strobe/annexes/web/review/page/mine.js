// The list of this person's decisions, newest first. A click opens one of them.

import { $, element } from "./api.js";

// `page`: { past, question, send, jump, say }, with their current values.
export function setUpMine(page) {
  const line = (step, place) => {
    const question = page.question();
    const button = element("button", undefined, { type: "button" });
    // An image with a time limit is not shown again.
    const names = question.limit ? [] : question.pictures(step.card).slice(0, 2);
    button.append(...names.map((name) => element("img", undefined, { src: `/media/${name}`, alt: "", loading: "lazy" })), element("span", question.brief(step)));
    button.addEventListener("click", () => {
      $("mine").close();
      page.jump(place);
    });
    const item = element("li");
    item.append(button);
    return item;
  };

  const draw = () => {
    const { steps, complete } = page.past();
    $("mine-list").replaceChildren(...steps.map(line).reverse());
    $("mine-text").textContent = steps.length ? "Choose a decision to look at it again or to change it." : "You have not decided anything yet.";
    $("mine-more").hidden = complete;
  };

  const more = async () => {
    try {
      await page.send();
      await page.past().fetchPage();
    } catch (error) {
      $("mine-text").textContent = `Earlier decisions cannot be shown: ${error.message}`;
      return;
    }
    draw();
  };

  $("mine-button").addEventListener("click", async () => {
    $("person").close();
    draw();
    $("mine").showModal();
    if (!page.past().complete && page.past().before === null) await more();
  });
  $("mine-more").addEventListener("click", more);
  $("mine-close").addEventListener("click", () => $("mine").close());
}
