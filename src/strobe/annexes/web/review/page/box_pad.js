// An image on which a person draws one box with pixel precision, by mouse, touch or keys.

import { element } from "./api.js";
import { SIDES, View, between, corner, grabbed, moved, pulled, resized, same, words } from "./box_geometry.js";

const SVG = "http://www.w3.org/2000/svg";
const CURSORS = { nw: "nwse", se: "nwse", ne: "nesw", sw: "nesw", n: "ns", s: "ns", e: "ew", w: "ew" };
const START = { mouse: 3, pen: 4, touch: 8 }; // CSS pixels a pointer moves before it draws; a click or tap draws no box
const REACH = { mouse: 9, pen: 14, touch: 26 };

function shape(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

export class BoxPad {
  // `root` is an empty element. `changed` is called with every new box.
  constructor(root, changed = () => {}) {
    [this.root, this.changed] = [root, changed];
    [this.box, this.suggestion, this.before, this.pointers, this.gesture] = [null, null, [], new Map(), null];
    this.others = [];
    this.coarse = matchMedia("(pointer: coarse)").matches; // fingers need larger handles
    this.view = new View();
    this.held = 0; // how often the key held down has repeated
    root.classList.add("pad");
    root.tabIndex = 0;
    root.setAttribute("role", "application");
    root.setAttribute("aria-roledescription", "drawing area");
    this.picture = element("div", undefined, { class: "pad-picture" });
    this.sheet = shape("svg", { class: "pad-sheet", "aria-hidden": "true" });
    this.parts = {
      shade: shape("path", { class: "pad-shade", "fill-rule": "evenodd" }),
      theirs: shape("path", { class: "pad-theirs" }),
      under: shape("rect", { class: "pad-under" }),
      line: shape("rect", { class: "pad-line" }),
    };
    this.sheet.append(...Object.values(this.parts));
    this.handles = Object.keys(SIDES).map((name) => {
      const handle = shape("rect", { class: "pad-handle" });
      this.sheet.append(handle);
      return [name, handle];
    });
    this.numbers = element("p", "", { class: "pad-numbers", id: `${root.id}-numbers` });
    // Screen readers announce the box when it stops moving, not at every pixel.
    this.told = element("p", "", { class: "unseen", role: "status", "aria-live": "polite" });
    root.append(this.picture, this.sheet);
    root.after(this.numbers, this.told);
    root.setAttribute("aria-describedby", this.numbers.id);
    new ResizeObserver(() => this.place()).observe(root);
    this.listen();
  }

  // Show a decoded image with a first box and the boxes of other people. Without a first box, the detector's suggestion
  // is used.
  show(image, { box = null, suggestion = null, others = [], label = "" } = {}) {
    [this.image, this.suggestion, this.before, this.others] = [image, suggestion, [], others];
    this.size = [image.naturalWidth, image.naturalHeight];
    this.box = box || suggestion;
    this.cancel();
    this.pointers.clear();
    image.alt = "";
    this.picture.replaceChildren(image);
    this.root.setAttribute("aria-label", `Image${label ? ` of: ${label}` : ""}. Arrow keys move the box; with Shift they resize it.`);
    this.view.fitted = true;
    this.place();
  }

  clear() {
    this.cancel();
    [this.image, this.box, this.suggestion, this.before, this.others] = [null, null, null, [], []];
    this.picture.replaceChildren();
    this.draw();
  }

  // Whether the box is the detector's suggestion, unchanged.
  get suggested() {
    return same(this.box, this.suggestion);
  }

  // -- changing the box ---------------------------------------------------------------------------------------------

  set(box, { step = true } = {}) {
    if (box === this.box || same(box, this.box)) return;
    if (step) this.before.push(this.box);
    this.box = box;
    this.draw();
    this.changed(box);
  }

  undo() {
    this.cancel();
    if (!this.before.length) return false;
    this.set(this.before.pop(), { step: false });
    return true;
  }

  remove() {
    this.cancel();
    this.set(null);
  }

  // One step by keys or buttons. The first step makes a box half as wide and high as the image.
  nudge(dx, dy, { resize = false, step = true } = {}) {
    if (!this.image || this.gesture) return;
    if (!this.box) {
      const [width, height] = this.size;
      return void this.set(between([width / 4, height / 4], [(width * 3) / 4, (height * 3) / 4], this.size));
    }
    this.set((resize ? resized : moved)(this.box, dx, dy, this.size), { step });
    const [x0, y0, x1, y1] = this.box;
    this.view.reveal([dx > 0 || (resize && dx) ? x1 : dx < 0 ? x0 : (x0 + x1) / 2, dy > 0 || (resize && dy) ? y1 : dy < 0 ? y0 : (y0 + y1) / 2]);
    this.draw();
  }

  // Move by an arrow key: one press is one pixel. A key held down (`again`) gets faster, and undo reverts all of it at
  // once.
  press([dx, dy], { resize, again }) {
    this.held = again ? this.held + 1 : 0;
    const far = this.held < 10 ? 1 : this.held < 30 ? 4 : 12;
    this.nudge(dx * far, dy * far, { resize, step: !again });
  }

  // -- looking closer -----------------------------------------------------------------------------------------------

  zoom(factor, at = [this.view.room[0] / 2, this.view.room[1] / 2]) {
    this.view.zoomAt(factor, at);
    this.draw();
  }

  fit() {
    this.view.fit();
    this.draw();
  }

  zoomToBox() {
    if (this.box) this.view.zoomTo(this.box);
    this.draw();
  }

  place() {
    if (!this.image) return;
    this.view.place(this.size, [this.root.clientWidth, this.root.clientHeight]);
    this.draw();
  }

  // -- drawing ------------------------------------------------------------------------------------------------------

  draw() {
    const { view, box, parts } = this;
    if (this.image) {
      this.image.style.transform = `translate(${view.x}px, ${view.y}px) scale(${view.scale})`;
      this.picture.classList.toggle("near", view.scale * window.devicePixelRatio >= 3);
    }
    for (const part of [...Object.values(parts), ...this.handles.map(([, one]) => one)]) part.toggleAttribute("hidden", !box);
    const outline = (one) => [one, one.slice(2)].map((point) => view.toScreen(point)).flat();
    const theirs = this.others.map(outline).map(([x0, y0, x1, y1]) => `M${x0} ${y0}H${x1}V${y1}H${x0}Z`);
    parts.theirs.setAttribute("d", theirs.join(""));
    parts.theirs.toggleAttribute("hidden", !this.image);
    this.root.classList.toggle("suggested", this.suggested);
    if (box) {
      const [x0, y0, x1, y1] = outline(box);
      const [[px0, py0], [px1, py1]] = [view.toScreen([0, 0]), view.toScreen(this.size)];
      parts.shade.setAttribute("d", `M${px0} ${py0}H${px1}V${py1}H${px0}ZM${x0} ${y0}H${x1}V${y1}H${x0}Z`);
      for (const line of [parts.under, parts.line]) {
        for (const [name, value] of Object.entries({ x: x0, y: y0, width: x1 - x0, height: y1 - y0 })) line.setAttribute(name, value);
      }
      const wide = this.coarse ? 16 : 9;
      for (const [name, handle] of this.handles) {
        const [cx, cy] = view.toScreen(corner(box, name));
        // On a short side, this handle would overlap the handles of the corners.
        const along = SIDES[name].length > 1 ? Infinity : SIDES[name][0] % 2 ? x1 - x0 : y1 - y0;
        handle.toggleAttribute("hidden", along < 4 * wide);
        for (const [key, value] of Object.entries({ x: cx - wide / 2, y: cy - wide / 2, width: wide, height: wide })) handle.setAttribute(key, value);
      }
    }
    const shown = this.image ? `${this.suggested ? "Suggested: " : ""}${words(box, this.size)}` : "";
    if (shown === this.numbers.textContent) return;
    this.numbers.textContent = shown;
    clearTimeout(this.resting);
    this.resting = setTimeout(() => (this.told.textContent = shown), 600);
  }

  // -- pointers -----------------------------------------------------------------------------------------------------

  at(event) {
    const frame = this.root.getBoundingClientRect();
    return [event.clientX - frame.left - this.root.clientLeft, event.clientY - frame.top - this.root.clientTop];
  }

  listen() {
    const { root } = this;
    root.addEventListener("pointerdown", (event) => this.down(event));
    root.addEventListener("pointermove", (event) => (this.pointers.has(event.pointerId) ? this.move(event) : this.hover(event)));
    root.addEventListener("pointerup", (event) => this.up(event));
    root.addEventListener("pointercancel", (event) => this.up(event, true));
    root.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        this.zoom(Math.exp(-event.deltaY / 400), this.at(event));
      },
      { passive: false },
    );
    // Otherwise the browser may treat the end of a stroke as a fling and ignore the next tap.
    root.addEventListener("touchstart", (event) => event.preventDefault(), { passive: false });
    root.addEventListener("contextmenu", (event) => event.preventDefault());
    root.addEventListener("dragstart", (event) => event.preventDefault());
  }

  hover(event) {
    if (!this.image || event.pointerType === "touch") return;
    const name = grabbed(this.box, this.view.toPicture(this.at(event)), REACH[event.pointerType] / this.view.scale);
    this.root.style.cursor = name === "inside" ? "move" : name ? `${CURSORS[name]}-resize` : "crosshair";
  }

  down(event) {
    if (!this.image || event.button === 2) return;
    this.root.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, this.at(event));
    this.coarse = event.pointerType === "touch";
    if (this.pointers.size > 1) {
      // A second finger zooms the view, so the gesture of the first finger is cancelled.
      this.cancel();
      this.gesture = { kind: "pinch" };
      return;
    }
    const start = this.at(event);
    const from = this.view.toPicture(start);
    const name = grabbed(this.box, from, (REACH[event.pointerType] || 9) / this.view.scale);
    const kind = event.button === 1 ? "pan" : name === "inside" ? "move" : name ? "pull" : "new";
    // The pointer rarely hits the line exactly. Keeping this offset prevents a jump of the box.
    const off = kind === "pull" ? corner(this.box, name).map((side, axis) => side - from[axis]) : [0, 0];
    const wait = kind === "new" ? START[event.pointerType] || 3 : 0;
    this.gesture = { kind, name, start, from, off, wait, box: this.box };
    this.draw();
  }

  move(event) {
    const [last, now] = [this.pointers.get(event.pointerId), this.at(event)];
    this.pointers.set(event.pointerId, now);
    const { gesture } = this;
    if (!gesture) return;
    if (gesture.kind === "pinch") return this.pinch(event.pointerId, last, now);
    if (gesture.kind === "pan") {
      this.view.pan(now[0] - last[0], now[1] - last[1]);
      return this.draw();
    }
    if (Math.hypot(now[0] - gesture.start[0], now[1] - gesture.start[1]) < gesture.wait) return;
    gesture.wait = 0;
    const to = this.view.toPicture(now);
    const quiet = { step: false };
    if (gesture.kind === "new") this.set(between(gesture.from, to, this.size), quiet);
    else if (gesture.kind === "move") this.set(moved(gesture.box, Math.round(to[0] - gesture.from[0]), Math.round(to[1] - gesture.from[1]), this.size), quiet);
    else this.set(pulled(gesture.box, gesture.name, [to[0] + gesture.off[0], to[1] + gesture.off[1]], this.size), quiet);
  }

  pinch(id, last, now) {
    const other = [...this.pointers].find(([one]) => one !== id)?.[1];
    if (!other) return;
    const apart = (point) => Math.hypot(point[0] - other[0], point[1] - other[1]) || 1;
    this.view.zoomAt(apart(now) / apart(last), [(last[0] + other[0]) / 2, (last[1] + other[1]) / 2]);
    this.view.pan((now[0] - last[0]) / 2, (now[1] - last[1]) / 2);
    this.draw();
  }

  up(event, lost = false) {
    if (!this.pointers.delete(event.pointerId) || !this.gesture) return;
    if (lost) return void this.cancel();
    const { gesture } = this;
    if (gesture.kind === "pinch") {
      if (!this.pointers.size) this.gesture = null;
      return;
    }
    this.gesture = null;
    if (!["pan"].includes(gesture.kind) && this.box !== gesture.box && !same(this.box, gesture.box)) this.before.push(gesture.box);
    this.draw();
  }

  // Cancel the current gesture.
  cancel() {
    const { gesture } = this;
    this.gesture = null;
    if (gesture && "box" in gesture) this.set(gesture.box, { step: false });
  }
}
