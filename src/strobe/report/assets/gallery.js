"use strict";
// The gallery: the sets that pass the filters, their cards, the open set and its link, and the keys.
const startGallery = () => {
  const filters = {};
  for (const name of ["model", "status", "while", "class", "variant", "change"]) if ($(`f-${name}`)) filters[name] = $(`f-${name}`);
  const [one, many] = data.still ? ["image", "images"] : ["set", "sets"];

  const suits = (set, model) => {
    const status = filters.status.value;
    if (status && set.m[model].s !== status) return false;
    const other = filters.while.value;
    if (other === "*") return set.m.some((view, place) => place !== model && view.s === "holds");
    return other === "" || (Number(other) !== model && set.m[Number(other)].s === "holds");
  };
  // Newly broken: the model before holds, the model after does not. The model that fails is shown.
  const changed = () => (filters.change ? filters.change.value : "");
  const failing = () => data.change[changed() === "broken" ? 1 : 0];
  const suitsChange = (set) => {
    if (!changed()) return true;
    const holding = data.change[changed() === "broken" ? 0 : 1];
    return set.m[holding].s === "holds" && ["breaks", "wrong"].includes(set.m[failing()].s);
  };
  const modelFor = (set) => {
    if (changed() && filters.model.value === "" && suits(set, failing())) return failing();
    if (filters.model.value !== "") return suits(set, Number(filters.model.value)) ? Number(filters.model.value) : -1;
    // If one of two models fails, show that model.
    const fails = (data.change || []).find((model) => suits(set, model) && ["breaks", "wrong"].includes(set.m[model].s));
    return fails ?? data.models.findIndex((_, model) => suits(set, model));
  };

  // The open set stays open while it passes the filters. `chosen` is set once the reader selects a set.
  let chosen = false;
  const current = () => (shown.list.length ? shown.list[shown.place].set.id : "");
  const filter = () => {
    stop();
    const before = chosen ? current() : "";
    const label = filters.class.value;
    const variant = filters.variant ? filters.variant.value : "";
    shown.list = data.sets
      .filter((set) => (label === "" || set.y.includes(Number(label))) && (variant === "" || set.k === variant) && suitsChange(set))
      .map((set) => ({ set, model: modelFor(set) }))
      .filter((entry) => entry.model >= 0);
    const n = shown.list.length;
    let text = n ? `${n} of the ${data.sets.length} ${many} in this gallery` : `No ${one} in this gallery matches.`;
    if (filters.model.value !== "" && filters.status.value) {
      const model = Number(filters.model.value);
      const all = data.counts[model][filters.status.value];
      text += `${n ? ". " : " "}In the whole dataset, ${data.models[model]} ${WORDS[filters.status.value].replace(/^(wrong|right)/, "is $1")} ${data.still || filters.status.value === "holds" ? "on" : "in"} ${all} of ${data.n_sets} ${many}.`;
    }
    $("count").textContent = text;
    fillCards();
    $("viewer").hidden = n === 0;
    if (n) open(Math.max(0, shown.list.findIndex(({ set }) => set.id === before)));
  };

  const fillCards = () => {
    $("cards").replaceChildren(...shown.list.map(({ set, model }, place) => {
      const view = set.m[model];
      const last = view.b === null ? set.f.length - 1 : view.b;
      const card = make("button", "card");
      card.type = "button";
      const two = make("span", varied ? "two whole" : "two");
      if (lone(set)) two.classList.add("alone");
      for (const index of lone(set) ? [set.a] : [set.a, last]) two.append(thumb(set, model, index, state(view, index)));
      const line1 = make("span", "line1");
      if (data.still && view.s === "wrong" && !view.x) {
        line1.append(`${truth(set)} `, make("span", "x", `✕ ${said(view, set.a)}`));
      } else if (view.b === null) {
        line1.append(`${truth(set)} `, make("span", view.s === "holds" ? "v" : "x", `${SIGNS[view.s]} ${words(view)}`));
      } else {
        line1.append(`${truth(set)} `, make("span", "x", `✕ ${said(view, last)} ${at(set, last)}`));
      }
      const marks = make("span", "line2 marks");
      set.f.forEach((_, index) => marks.append(make("i", state(view, index) === "bad" ? "x" : "", SIGN[state(view, index)])));
      // The line above already names the rung that broke the set.
      card.append(two, line1, make("span", "line2", set.k === undefined || (set.o && view.b !== null) ? data.models[model] : `${data.models[model]} · ${set.k}`));
      if (!lone(set)) card.append(marks);
      else if (set.n) card.append(make("span", "line2", set.n));
      card.addEventListener("click", () => { choose(place); $("viewer").scrollIntoView({ block: "nearest" }); $("viewer").focus({ preventScroll: true }); });
      return card;
    }));
  };

  const open = (place, model) => {
    shown.place = place;
    const inside = $("viewer").contains(document.activeElement);
    const { set, model: first } = shown.list[place];
    shown.model = model === undefined ? first : model;
    const view = set.m[shown.model];
    $("v-where").textContent = set.k !== undefined ? [set.v, set.k, set.n].filter(Boolean).join(" · ") : set.v === set.id ? set.id : data.still ? set.v : `${set.v} · ${set.id}`;
    $("v-link").href = address(set.id);
    if (chosen) history.replaceState(null, "", address(set.id));
    $("viewer").classList.toggle("lone", lone(set));
    $("viewer").classList.toggle("twain", varied && set.f.length === 2);
    $("viewer").classList.toggle("few", varied);
    $("v-title").textContent = truth(set);
    $("v-place").textContent = `${place + 1} of ${shown.list.length}`;
    [...$("cards").children].forEach((card, index) => card.setAttribute("aria-current", String(index === place)));
    $("v-models").replaceChildren(...set.m.map((one, index) => {
      const tab = make("button", `st-${one.s}`);
      tab.type = "button";
      tab.setAttribute("aria-pressed", String(index === shown.model));
      tab.append(make("span", "sign", SIGNS[one.s]), make("span", "", data.models[index]), make("span", "state", one.b === null ? words(one) : `${broken(one)} ${at(set, one.b)}`));
      tab.addEventListener("click", () => { const now = shown.frame; stop(); open(place, index); show(set.m[index].b ?? now); $("v-models").children[index].focus(); });
      return tab;
    }));
    $("v-strip").replaceChildren(...set.f.map((frame, index) => {
      const kind = state(view, index);
      const cell = make("button", kind + (index === set.a ? " is-anchor" : ""));
      cell.type = "button";
      cell.setAttribute("aria-label", `${data.axis === "frame-offset" ? "Frame" : "Variant"} ${offset(frame)}: ${said(view, index)}${{ ok: ", right", bad: ", wrong", unknown: ", not scored", skipped: "" }[kind]}`);
      cell.append(thumb(set, shown.model, index, ""), make("b", "", SIGN[kind]), make("span", "", index === set.a ? ANCHOR : offset(frame)));
      cell.addEventListener("click", () => { stop(); show(index); });
      return cell;
    }));
    $("v-seek").max = String(set.f.length - 1);
    fillShot($("shot-anchor"), set, view, set.a, lone(set) ? "" : ANCHOR);
    show(view.b ?? set.a);
    // The focused element may just have been replaced, but keys must keep working.
    if (inside && !$("viewer").contains(document.activeElement)) $("viewer").focus({ preventScroll: true });
  };
  const choose = (place) => { stop(); chosen = true; open(place); };
  const turn = (by) => { const n = shown.list.length; choose((shown.place + by + n) % n); };

  // A link to a set, #set=NAME, always opens it. Filters that hide the set are cleared.
  const address = (id) => `#set=${encodeURIComponent(id)}`;
  const asked = () => {
    const found = /^#set=(.+)$/.exec(location.hash);
    if (!found) return;
    let id;
    try { id = decodeURIComponent(found[1]); } catch { return; }
    const place = () => shown.list.findIndex(({ set }) => set.id === id);
    if (!data.sets.some((set) => set.id === id)) {
      $("count").textContent = `The ${one} ${id} is not among the ${data.sets.length} in this gallery. Use strobe report --gallery N to show more.`;
    } else {
      if (place() < 0) { for (const select of Object.values(filters)) select.value = ""; filter(); }
      choose(place());
    }
    $("flickers").scrollIntoView();
  };
  window.addEventListener("hashchange", asked);

  $("v-play").addEventListener("click", play);
  $("v-back").addEventListener("click", () => { stop(); step(-1); });
  $("v-on").addEventListener("click", () => { stop(); step(1); });
  $("v-seek").addEventListener("input", () => { stop(); show(Number($("v-seek").value)); });
  $("v-prev").addEventListener("click", () => turn(-1));
  $("v-next").addEventListener("click", () => turn(1));
  if ($("v-score")) {
    $("v-score").addEventListener("input", () => {
      $("v-score-text").textContent = Number($("v-score").value).toFixed(2);
      const now = shown.frame;
      fillCards();
      open(shown.place, shown.model);
      show(now);
    });
  }

  // Keys work without a click first, except while a field or another focused element uses them. Keys that only affect
  // the viewer have no effect until it is on the screen.
  const onScreen = () => { const box = $("viewer").getBoundingClientRect(); return box.bottom > 80 && box.top < window.innerHeight - 80; };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !shown.list.length) return;
    if (event.target.matches("select, input, textarea") || event.target.closest(".scroll, pre")) return;
    const view = shown.list[shown.place].set.m[shown.model];
    const acts = { n: () => turn(1), p: () => turn(-1) };
    if (onScreen() || $("viewer").contains(event.target)) {
      acts.ArrowLeft = () => { stop(); step(-1); };
      acts.ArrowRight = () => { stop(); step(1); };
      acts.a = () => { stop(); show(shown.list[shown.place].set.a); };
      acts.f = () => { stop(); if (view.b !== null) show(view.b); };
      if (!event.target.closest("button, a, summary")) acts[" "] = play;
    }
    const act = acts[event.key];
    if (!act) return;
    event.preventDefault();
    act();
    if (!onScreen()) $("viewer").scrollIntoView({ block: "nearest" });
  });

  // A change filter clears the other filters, which would hide half of the result.
  const askChange = (value) => { for (const name of ["model", "status", "while"]) filters[name].value = ""; filters.change.value = value; filter(); };
  if (filters.change) filters.change.addEventListener("change", () => { if (changed()) askChange(changed()); });
  for (const link of document.querySelectorAll("a[data-change]")) link.addEventListener("click", () => askChange(link.dataset.change));
  for (const select of Object.values(filters)) select.addEventListener("change", filter);
  document.querySelector(".filters").addEventListener("reset", () => setTimeout(filter, 0));
  document.querySelector(".filters").addEventListener("submit", (event) => event.preventDefault());
  new ResizeObserver(() => { if (shown.list.length) trace(); }).observe($("v-strip"));
  filter();
  asked();
};
if (data.sets.length) startGallery();
