// Practice: shows the right answer before the next card.

import { $ } from "./api.js";

export class Feedback {
  constructor(goOn) {
    this.about = null; // the person's answer, while the right answer is shown
    $("go-on").addEventListener("click", () => {
      const { about } = this;
      this.hide();
      if (about) goOn(about);
    });
  }

  tell(about, isRight, ...text) {
    this.about = about;
    $("feedback-text").replaceChildren(...text);
    $("feedback").className = isRight ? "right" : "wrong";
    $("decide").hidden = true;
    $("feedback").hidden = false;
    $("go-on").focus({ preventScroll: true });
  }

  hide() {
    this.about = null;
    $("feedback").hidden = true;
    $("decide").hidden = false;
  }
}
