"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const make = (tag, className, text) => {
    const node = document.createElement(tag);
    if (className) node.className = className;
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const draw = (tag, attributes, text) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text !== undefined) node.textContent = text;
    return node;
  };

  // Tables sort by a click on a column's name; a missing number always goes last.
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      if (!head.dataset.sort) return;
      const button = make("button", "", head.textContent);
      button.type = "button";
      head.dataset.name = button.textContent; // on paper, where a button in a repeated head is blank
      head.textContent = "";
      head.append(button);
      button.addEventListener("click", () => {
        const text = head.dataset.sort === "text";
        const before = head.getAttribute("aria-sort");
        const down = before ? before === "ascending" : !text;
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const key = (row) => {
          const cell = row.cells[column];
          if (text) return cell.textContent.trim();
          return cell.dataset.value === "" || cell.dataset.value === undefined ? null : Number(cell.dataset.value);
        };
        const rows = [...table.tBodies[0].rows].map((row, place) => [key(row), place, row]);
        rows.sort(([a, i], [b, j]) => {
          if (a === null || b === null) return a === b ? i - j : a === null ? 1 : -1;
          const order = text ? a.localeCompare(b, "en", { numeric: true }) : a - b;
          return (down ? -order : order) || i - j;
        });
        table.tBodies[0].append(...rows.map(([, , row]) => row));
      });
    });
  }

  // Figures made once per model: one is shown, a list picks which.
  for (const pick of document.querySelectorAll("select[data-picks]")) {
    const charts = [...document.querySelector(`[data-group="${pick.dataset.picks}"]`).children];
    const show = () => charts.forEach((chart, place) => { chart.hidden = place !== pick.selectedIndex; });
    pick.addEventListener("change", show);
    show();
  }

  // -- the gallery ------------------------------------------------------------------------------------------------
  const data = JSON.parse($("gallery-data").textContent);
  if (!data.sets.length) return;
  const WORDS = data.still ? { holds: "right", breaks: "breaks", wrong: "wrong", unscored: "not scored" } : { holds: "holds", breaks: "breaks", wrong: "wrong on the anchor", unscored: "not scored everywhere" };
  const detects = (model) => data.detectors[model];
  const words = (view) => (view.x && view.s === "wrong" ? "finds nothing right on the anchor" : WORDS[view.s]);
  // Where pictures were changed, the anchor is the picture as it is.
  const varied = data.sets.some((set) => set.k !== undefined);
  const ANCHOR = varied ? "as it is" : "anchor";
  if (varied) WORDS.wrong = "wrong as it is";
  const SIGNS = { holds: "✓", breaks: "✕", wrong: "✕", unscored: "?" };
  const shown = { list: [], place: 0, model: 0, frame: 0, timer: 0 };
  const filters = { model: $("f-model"), status: $("f-status"), while: $("f-while"), class: $("f-class"), ...($("f-variant") ? { variant: $("f-variant") } : {}), ...($("f-change") ? { change: $("f-change") } : {}) };

  const setPicture = (image, frame) => {
    if (frame.i >= 0) image.src = data.pictures[frame.i];
    else image.removeAttribute("src");
  };
  const percent = (value) => (value === null ? "" : `${Math.round(100 * value)} %`);
  // Pictures that stand alone, and sets that are a picture and nothing else, have no filmstrip.
  const lone = (set) => set.f.length === 1 && (data.still || set.k !== undefined);
  const offset = (frame) => (frame.n ? frame.n : frame.d === 0 ? ANCHOR : (frame.d > 0 ? "+" : "−") + Math.abs(frame.d));
  const far = (frame) => (frame.n ? frame.n : data.axis === "frame-offset" ? `${offset(frame)} frame${Math.abs(frame.d) === 1 ? "" : "s"}` : `${data.axis.replace("-", " ")} ${frame.d}`);
  const className = (index) => (index < 0 ? "none of the classes" : data.classes[index]);
  const state = (view, place) => (view.r[place] === null ? "unknown" : view.r[place] ? "ok" : "bad");
  const sign = { ok: "✓", bad: "✕", unknown: "?" };

  const suits = (set, model) => {
    const status = filters.status.value;
    if (status && set.m[model].s !== status) return false;
    const other = filters.while.value;
    if (other === "*") return set.m.some((view, place) => place !== model && view.s === "holds");
    return other === "" || (Number(other) !== model && set.m[Number(other)].s === "holds");
  };
  // Newly broken: before holds, after does not. Shown is the model that fails.
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
    return data.models.findIndex((_, model) => suits(set, model));
  };

  const filter = () => {
    stop();
    const label = filters.class.value;
    const variant = filters.variant ? filters.variant.value : "";
    const [one, many] = data.still ? ["picture", "pictures"] : ["set", "sets"];
    shown.list = data.sets
      .filter((set) => (label === "" || set.y.includes(Number(label))) && (variant === "" || set.k === variant) && suitsChange(set))
      .map((set) => ({ set, model: modelFor(set) }))
      .filter((entry) => entry.model >= 0);
    const n = shown.list.length;
    let text = n ? `${n} of the ${data.sets.length} ${many} in this gallery` : `No ${one} in this gallery is like that.`;
    if (filters.model.value !== "" && filters.status.value) {
      const model = Number(filters.model.value);
      const all = data.counts[model][filters.status.value];
      text += `${n ? ". " : " "}In the whole data ${data.models[model]} ${WORDS[filters.status.value].replace(/^(wrong|right)/, "is $1")} ${data.still ? "on" : "in"} ${all} of ${data.n_sets} ${many}.`;
    }
    $("count").textContent = text;
    fillCards();
    $("viewer").hidden = n === 0;
    if (n) open(0);
  };

  const thumb = (set, model, index, kind) => {
    const wrap = make("span", "pic");
    const image = make("img", kind);
    image.alt = "";
    setPicture(image, set.f[index]);
    wrap.append(image);
    if (detects(model)) {
      const layer = draw("svg", { class: "boxes", "aria-hidden": "true", preserveAspectRatio: "xMidYMid slice" });
      fillBoxes(layer, set, set.m[model], index, false);
      wrap.append(layer);
    }
    return wrap;
  };

  const fillCards = () => {
    $("cards").replaceChildren(...shown.list.map(({ set, model }, place) => {
      const view = set.m[model];
      const at = view.b === null ? set.f.length - 1 : view.b;
      const card = make("button", "card");
      card.type = "button";
      const two = make("span", "two");
      if (lone(set)) two.classList.add("alone");
      for (const index of lone(set) ? [set.a] : [set.a, at]) {
        two.append(thumb(set, model, index, state(view, index)));
      }
      const line1 = make("span", "line1");
      if (data.still && view.s === "wrong" && !view.x) {
        line1.append(`${truth(set)} `, make("span", "x", `✕ ${said(view, set.a)}`));
      } else if (view.b === null) {
        line1.append(`${truth(set)} `, make("span", view.s === "holds" ? "v" : "x", `${SIGNS[view.s]} ${words(view)}`));
      } else {
        line1.append(`${truth(set)} `, make("span", "x", `✕ ${said(view, at)} at ${offset(set.f[at])}`));
      }
      const marks = make("span", "line2 marks");
      set.f.forEach((_, index) => marks.append(make("i", state(view, index) === "bad" ? "x" : "", sign[state(view, index)])));
      card.append(two, line1, make("span", "line2", set.k === undefined ? data.models[model] : `${data.models[model]} · ${set.k}`));
      if (!lone(set)) card.append(marks);
      else if (set.n) card.append(make("span", "line2", set.n));
      card.addEventListener("click", () => { open(place); $("viewer").scrollIntoView({ block: "nearest" }); $("viewer").focus({ preventScroll: true }); });
      return card;
    }));
  };

  const truth = (set) => set.y.map(className).join(" / ") || "no label";
  const said = (view, index) => {
    if (view.x) return view.p[index] === null ? "nothing to find" : `AP ${percent(view.p[index])}`;
    return className(view.l[index]); // the class that was judged; the model's own best one stands beside it in the viewer
  };

  const open = (place, model) => {
    shown.place = place;
    const inside = $("viewer").contains(document.activeElement);
    const { set, model: first } = shown.list[place];
    shown.model = model === undefined ? first : model;
    const view = set.m[shown.model];
    $("v-where").textContent = set.k !== undefined ? [set.v, set.k, set.n].filter(Boolean).join(" · ") : set.v === set.id ? set.id : data.still ? set.v : `${set.v} · ${set.id}`;
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
      const where = one.b === null ? "" : ` at ${offset(set.f[one.b])}`;
      tab.append(make("span", "sign", SIGNS[one.s]), make("span", "", data.models[index]), make("span", "state", words(one) + where));
      tab.addEventListener("click", () => { const now = shown.frame; stop(); open(place, index); show(set.m[index].b ?? now); $("v-models").children[index].focus(); });
      return tab;
    }));
    $("v-strip").replaceChildren(...set.f.map((frame, index) => {
      const kind = state(view, index);
      const cell = make("button", kind + (index === set.a ? " is-anchor" : ""));
      cell.type = "button";
      cell.setAttribute("aria-label", `${data.axis === "frame-offset" ? "Frame" : "Variant"} ${offset(frame)}: ${said(view, index)}, ${kind === "ok" ? "right" : kind === "bad" ? "wrong" : "not scored"}`);
      cell.append(thumb(set, shown.model, index, ""), make("b", "", sign[kind]), make("span", "", index === set.a ? ANCHOR : offset(frame)));
      cell.addEventListener("click", () => { stop(); show(index); });
      return cell;
    }));
    $("v-seek").max = String(set.f.length - 1);
    fillShot($("shot-anchor"), set, view, set.a, lone(set) ? "" : ANCHOR);
    show(view.b ?? set.a);
    // What had the focus may just have been replaced; keys must go on working.
    if (inside && !$("viewer").contains(document.activeElement)) $("viewer").focus({ preventScroll: true });
  };

  const fillShot = (shot, set, view, index, name) => {
    const frame = set.f[index];
    const kind = state(view, index);
    shot.className = `shot ${kind}`;
    const image = shot.querySelector("img");
    image.alt = name ? `${name}, ${truth(set)}` : truth(set);
    setPicture(image, frame);
    shot.querySelector(".badge").textContent = frame.t === null || index === set.a ? name : `${name} · ${frame.t > 0 ? "+" : "−"}${Math.abs(Math.round(frame.t))} ms`;
    const caption = shot.querySelector("figcaption");
    const extra = [];
    let verdict;
    if (view.x) {
      const word = { ok: "✓ no worse than the anchor", bad: "✕ worse than the anchor", unknown: "? not scored" }[kind];
      verdict = index === set.a ? said(view, index) : `${said(view, index)} ${word}`;
      if (index === view.b && view.why) extra.push(`what costs most here: ${view.why}`);
      const n = (frame.g || []).length;
      extra.push(`${n} object${n === 1 ? "" : "s"} to find`);
    } else {
      const word = { ok: "✓ right", bad: "✕ wrong", unknown: "? not scored" }[kind];
      const sure = view.c[index] === null ? "" : `, ${percent(view.c[index])} sure`;
      verdict = `${className(view.l[index])}${sure} ${word}`;
      if (view.w && view.w[index]) extra.push(`its own best class: ${view.w[index]}`);
      if (kind === "bad" && view.p[index] !== null) extra.push(`${percent(view.p[index])} for ${truth(set)}`);
    }
    caption.replaceChildren(make("span", "verdict", verdict), make("span", "own", extra.join(" · ")));
    const layer = shot.querySelector(".boxes");
    if (view.x) fillBoxes(layer, set, view, index, true);
    else layer.replaceChildren();
  };

  const fillBoxes = (layer, set, view, index, named) => {
    const frame = set.f[index];
    const [width, height] = frame.wh || [1, 1];
    layer.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const least = Number($("v-score").value);
    const nodes = [];
    // In pixels of the frame, so that names have the same size on any screen.
    const size = 11.5 / (Math.min(layer.clientWidth / width, layer.clientHeight / height) || 480 / width);
    const add = ([x0, y0, x1, y1], kind, text) => {
      nodes.push(draw("rect", { x: x0, y: y0, width: x1 - x0, height: y1 - y0, class: kind }));
      if (text) nodes.push(draw("text", { x: Math.max(x0, 1), y: y0 > size * 1.3 ? y0 - size * 0.3 : y1 + size, "font-size": size, "stroke-width": size / 4 }, text));
    };
    for (const box of frame.g || []) add(box, "gt");
    for (const box of view.x[index]) {
      if (box[5] >= least) add(box, box[6] ? "tp" : "fp", named ? `${box[6] ? "✓" : "✕"} ${className(box[4])} ${box[5].toFixed(2)}` : "");
    }
    layer.replaceChildren(...nodes);
  };

  const show = (index) => {
    const { set } = shown.list[shown.place];
    const view = set.m[shown.model];
    shown.frame = index;
    $("v-seek").value = String(index);
    $("v-seek").setAttribute("aria-valuetext", offset(set.f[index]));
    fillShot($("shot-now"), set, view, index, index === set.a ? ANCHOR : far(set.f[index]));
    [...$("v-strip").children].forEach((cell, place) => cell.setAttribute("aria-current", String(place === index)));
    const cell = $("v-strip").children[index];
    const reel = cell.closest(".reel");
    if (reel.scrollWidth > reel.clientWidth) reel.scrollLeft = cell.offsetLeft - (reel.clientWidth - cell.clientWidth) / 2;
    trace();
  };

  const trace = () => {
    const { set } = shown.list[shown.place];
    const view = set.m[shown.model];
    const box = $("v-trace");
    const width = $("v-strip").clientWidth;
    const [top, bottom] = [14, 98];
    box.setAttribute("viewBox", `0 0 ${width} 116`);
    const nodes = [];
    const known = view.p.some((value) => value !== null);
    if (!known) {
      nodes.push(draw("text", { x: 4, y: 60, class: "text" }, "Only labels were given: no confidence to draw."));
      box.replaceChildren(...nodes);
      return;
    }
    const column = width / set.f.length;
    const x = (index) => (index + 0.5) * column;
    const y = (value) => bottom - value * (bottom - top);
    for (const value of [0, 0.5, 1]) {
      nodes.push(draw("line", { x1: 0, x2: width, y1: y(value), y2: y(value), class: "grid" }));
      nodes.push(draw("text", { x: 2, y: y(value) - 3, class: "text" }, value === 1 ? `100 % ${detects(shown.model) ? "AP of the frame" : "sure of the right answer"}` : `${100 * value} %`));
    }
    const path = (one) => one.p.map((value, index) => (value === null ? "" : `${index && one.p[index - 1] !== null ? "L" : "M"}${x(index)} ${y(value)}`)).join("");
    set.m.forEach((one, index) => { if (index !== shown.model && detects(index) === detects(shown.model)) nodes.push(draw("path", { d: path(one), class: "other" })); });
    nodes.push(draw("line", { x1: x(shown.frame), x2: x(shown.frame), y1: 4, y2: bottom, class: "now" }));
    nodes.push(draw("path", { d: path(view), class: "line" }));
    view.p.forEach((value, index) => {
      if (value === null) return;
      if (state(view, index) !== "bad") nodes.push(draw("circle", { cx: x(index), cy: y(value), r: 4, class: "ok" }));
      else nodes.push(draw("path", { d: `M${x(index) - 4} ${y(value) - 4}l8 8m0 -8l-8 8`, class: "no" }));
    });
    nodes.push(draw("text", { x: width - 4, y: 112, "text-anchor": "end", class: "text" }, (view.x ? "● no worse  × worse than the anchor" : "● right  × wrong") + (data.models.length > 1 ? " · thin lines: the other models" : "")));
    box.replaceChildren(...nodes);
  };

  const step = (by) => {
    const n = shown.list[shown.place].set.f.length;
    show((shown.frame + by + n) % n);
  };
  const stop = () => {
    clearTimeout(shown.timer);
    shown.timer = 0;
    $("v-play").setAttribute("aria-pressed", "false");
    $("v-play").querySelector(".word").textContent = "Play";
    $("v-play").firstElementChild.textContent = "▶";
  };
  const tick = () => {
    const { set } = shown.list[shown.place];
    const rate = $("v-speed").value === "real" ? set.fps || 30 : Number($("v-speed").value);
    const last = shown.frame === set.f.length - 1;
    shown.timer = setTimeout(() => { step(1); tick(); }, 1000 / rate + (last ? 500 : 0));
  };
  const play = () => {
    if (shown.timer) return stop();
    $("v-play").setAttribute("aria-pressed", "true");
    $("v-play").querySelector(".word").textContent = "Pause";
    $("v-play").firstElementChild.textContent = "❚❚";
    if (shown.frame === shown.list[shown.place].set.f.length - 1) show(0);
    tick();
  };
  const turn = (by) => { stop(); const n = shown.list.length; open((shown.place + by + n) % n); };

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
  const typing = (target) => target.matches("select, input");
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !shown.list.length || typing(event.target)) return;
    if (!event.target.closest("#viewer")) return;
    const view = shown.list[shown.place].set.m[shown.model];
    const acts = {
      ArrowLeft: () => { stop(); step(-1); }, ArrowRight: () => { stop(); step(1); },
      n: () => turn(1), p: () => turn(-1),
      a: () => { stop(); show(shown.list[shown.place].set.a); },
      f: () => { stop(); if (view.b !== null) show(view.b); },
    };
    if (!event.target.matches("button")) acts[" "] = play;
    const act = acts[event.key];
    if (act) { event.preventDefault(); act(); }
  });
  // A change is a question of its own: what the other lists ask would hide half of the answer.
  const askChange = (value) => { for (const name of ["model", "status", "while"]) filters[name].value = ""; filters.change.value = value; filter(); };
  if (filters.change) filters.change.addEventListener("change", () => { if (changed()) askChange(changed()); });
  for (const link of document.querySelectorAll("a[data-change]")) link.addEventListener("click", () => {
    askChange(link.dataset.change);
    const place = shown.list.findIndex(({ set }) => set.id === link.dataset.set);
    if (place >= 0) open(place);
  });
  for (const select of Object.values(filters)) select.addEventListener("change", filter);
  document.querySelector(".filters").addEventListener("reset", () => setTimeout(filter, 0));
  document.querySelector(".filters").addEventListener("submit", (event) => event.preventDefault());
  new ResizeObserver(() => { if (shown.list.length) trace(); }).observe($("v-strip"));
  filter();
})();
