"use strict";
// Strips of a generator's searches. One slider moves all granularities from the original image to the finding.
(() => {
  const holder = document.getElementById("strips");
  if (!holder) return;
  const data = JSON.parse(document.getElementById("strips-data").textContent);
  const make = (tag, className, text) => {
    const node = document.createElement(tag);
    if (className) node.className = className;
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const $ = (id) => document.getElementById(id);
  const pick = { picture: $("strip-picture"), target: $("strip-target"), way: $("strip-way") };
  const cards = $("strip-cards");
  let films = [];

  const name = (label) => (label < 0 ? "none of the classes" : data.classes[label]);
  const sure = (said) => (said[1] < 0 ? "" : ` ${Math.round(100 * said[1])} %`);
  const film = (picture, src, many, pixelated) => {
    const frame = make("div", `film-still${pixelated ? " pixels" : ""}`);
    frame.style.aspectRatio = `${picture.wh[0]} / ${picture.wh[1]}`;
    const image = make("img");
    image.src = src;
    image.alt = "";
    image.style.width = `${100 * many}%`;
    frame.append(image);
    return [frame, image];
  };

  const move = () => {
    const share = Number(pick.way.value) / 100;
    const percent = Math.round(100 * share);
    pick.way.setAttribute("aria-valuetext", percent === 0 ? "original" : percent === 100 ? "finding" : `${percent} % of the way`);
    const picture = data.pictures[pick.picture.selectedIndex];
    for (const { image, strip, says, others } of films) {
      const at = Math.round(share * (strip.n - 1));
      image.style.transform = `translateX(${(-100 * at) / strip.n}%)`;
      const said = strip.says[at];
      const target = data.models.indexOf(data.targets[strip.t]);
      const own = target >= 0 ? said[target] : null;
      says.textContent = own ? `${name(own[0])}${sure(own)}` : "";
      says.className = own && !picture.y.includes(own[0]) ? "says bad" : "says";
      others.replaceChildren(...data.models.map((model, place) => [model, place]).filter(([, place]) => place !== target && said[place]).map(([model, place]) => {
        const right = picture.y.includes(said[place][0]);
        return make("span", right ? "" : "bad", `${right ? "✓" : "✕"} ${model}${right ? "" : `: ${name(said[place][0])}`}`);
      }));
    }
  };

  const show = () => {
    const picture = data.pictures[pick.picture.selectedIndex];
    const target = pick.target.selectedIndex;
    const small = picture.wh[0] < 100;
    films = [];
    cards.textContent = "";
    const first = make("figure", "film");
    const [frame] = film(picture, picture.image, 1, small);
    first.append(make("h3", "", "original"), frame, make("p", "says", picture.name));
    cards.append(first);
    data.granularities.forEach((granularity, place) => {
      const strip = picture.strips.find((one) => one.g === place && one.t === target);
      const card = make("figure", "film");
      card.append(make("h3", "", granularity));
      if (!strip || !strip.film) {
        const none = strip?.m ? `nothing found up to ${strip.r || strip.m}` : "nothing found: the search failed";
        card.append(make("p", "none", strip ? none : "not searched"));
        cards.append(card);
        return;
      }
      const [moving, image] = film(picture, strip.film, strip.n, small);
      const [difference] = film(picture, strip.diff, 1, small);
      const says = make("p", "says");
      const others = make("p", "others");
      card.append(moving, says, difference, make("p", "size", strip.r ? `found at ${strip.r} per neuron` : `found at ${strip.m}`), others);
      cards.append(card);
      films.push({ image, strip, says, others });
    });
    move();
  };

  data.pictures.forEach((picture, place) => pick.picture.append(make("option", "", `${place + 1}: ${picture.name}`)));
  data.targets.forEach((target) => pick.target.append(make("option", "", target)));
  pick.picture.addEventListener("change", show);
  pick.target.addEventListener("change", show);
  pick.way.addEventListener("input", move);
  const step = (by) => {
    pick.picture.selectedIndex = (pick.picture.selectedIndex + by + data.pictures.length) % data.pictures.length;
    show();
  };
  $("strip-back").addEventListener("click", () => step(-1));
  $("strip-on").addEventListener("click", () => step(1));
  $("strip-play").addEventListener("click", () => {
    const begin = performance.now();
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    const tick = (now) => {
      const share = still ? 1 : Math.min((now - begin) / 1600, 1);
      pick.way.value = String(Math.round(100 * share));
      move();
      if (share < 1) requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  });
  show();
})();
