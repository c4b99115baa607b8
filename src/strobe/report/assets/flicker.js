"use strict";
// The frames around a flip: choose a card, then play or step through its frames.
(() => {
  const holder = $("flip-viewer");
  if (!holder) return;
  const { films, images } = JSON.parse($("flicker-data").textContent);
  const at = $("flip-at");
  let film = films[0];
  let timer = 0;
  const stop = () => { clearInterval(timer); timer = 0; $("flip-play").textContent = "▶ Play"; };
  const show = (place) => {
    const frame = film.f[place];
    at.value = place;
    at.setAttribute("aria-valuetext", `${frame.n}: ${frame.a}`);
    const source = images[frame.i];
    if (source) $("flip-image").src = source;
    else $("flip-image").removeAttribute("src");
    $("flip-answer").textContent = frame.a;
    $("flip-sure").textContent = frame.c;
    $("flip-when").textContent = frame.n;
  };
  const step = (by) => show((Number(at.value) + by + film.f.length) % film.f.length);
  const choose = (number) => {
    stop();
    film = films[number];
    at.max = film.f.length - 1;
    holder.hidden = false;
    for (const card of document.querySelectorAll(".flip")) card.setAttribute("aria-pressed", String(Number(card.dataset.flip) === number));
    show(film.at);
  };
  for (const card of document.querySelectorAll(".flip")) {
    card.addEventListener("click", () => { choose(Number(card.dataset.flip)); holder.scrollIntoView({ block: "nearest" }); });
  }
  // A mark on a timeline links to its card: open the card's frames, too.
  for (const mark of document.querySelectorAll(".marks a")) {
    mark.addEventListener("click", () => choose(Number(document.getElementById(mark.hash.slice(1)).dataset.flip)));
  }
  $("flip-play").addEventListener("click", () => {
    if (timer) { stop(); return; }
    $("flip-play").textContent = "❚❚ Pause";
    timer = setInterval(() => step(1), 400);
  });
  $("flip-back").addEventListener("click", () => { stop(); step(-1); });
  $("flip-on").addEventListener("click", () => { stop(); step(1); });
  at.addEventListener("input", () => { stop(); show(Number(at.value)); });
})();
