// Shows a pair side by side or alternating in place, with shared zoom and pan, and the pixel difference.

import { $ } from "./api.js";
import { fetchPicture } from "./media.js";
import { keep, kept } from "./storage.js";

export class Viewer {
  constructor() {
    this.panes = $("panes");
    this.frames = [...this.panes.querySelectorAll(".frame")];
    this.zoomers = [...this.panes.querySelectorAll(".zoom")];
    this.canvas = $("diff");
    this.inPlace = kept("strobe:view") === "flicker";
    this.second = true; // in place: the neighbour is on top
    this.difference = false;
    this.timer = 0;
    this.pointers = new Map();
    this.reset();
    for (const frame of this.frames) this.listen(frame);
    this.layout();
  }

  async show(card, names) {
    this.card = card;
    this.stop();
    this.second = true;
    this.reset();
    this.panes.classList.toggle("single", names.length === 1);
    const entries = names.map(fetchPicture);
    // An image of the previous pair must never be shown next to an image of the new pair.
    const waiting = entries.some((entry) => !entry.there);
    if (waiting) this.clear();
    this.panes.classList.toggle("loading", waiting);
    this.layout();
    try {
      await Promise.all(entries.map((entry) => entry.ready));
    } catch {
      if (this.card !== card) return false;
      this.panes.classList.remove("loading");
      this.clear();
      return "unreadable";
    }
    if (this.card !== card) return false;
    this.panes.classList.remove("loading");
    entries.forEach((entry, place) => {
      // Identical frames are one image element, so the second pane shows a clone of it.
      const image = place && entry === entries[0] ? entry.image.cloneNode() : entry.image;
      image.alt = place ? "Neighbour frame" : "Anchor frame";
      this.zoomers[place].replaceChildren(image);
    });
    if (names.length === 1) this.zoomers[1].replaceChildren();
    const { naturalWidth, naturalHeight } = entries[0].image;
    this.panes.style.setProperty("--ratio", `${naturalWidth} / ${naturalHeight}`);
    this.panes.classList.toggle("tall", naturalHeight > naturalWidth);
    this.drawDifference();
    return true;
  }

  clear() {
    for (const zoomer of this.zoomers) zoomer.replaceChildren();
    this.canvas.width = this.canvas.height = 0;
  }

  layout() {
    const inPlace = this.inPlace && this.card?.neighbour;
    this.panes.classList.toggle("flicker", Boolean(inPlace));
    this.panes.classList.toggle("side", !inPlace);
    this.panes.classList.toggle("show-b", this.second || this.difference);
    $("view-button").firstChild.textContent = this.inPlace ? "Side by side" : "Flicker in place";
    $("view-button").hidden = $("diff-button").hidden = !this.card?.neighbour;
    $("flip-button").hidden = $("auto-button").hidden = !inPlace;
    $("auto-button").setAttribute("aria-pressed", String(Boolean(this.timer)));
    $("diff-button").setAttribute("aria-pressed", String(this.difference));
    this.canvas.hidden = !this.difference || !this.card?.neighbour;
    $("pane-b").querySelector("b").textContent = this.canvas.hidden ? "Neighbour" : "Difference";
    this.apply();
  }

  switchView() {
    this.inPlace = !this.inPlace;
    keep("strobe:view", this.inPlace ? "flicker" : "side");
    this.stop();
    this.second = true;
    this.layout();
  }

  flip() {
    if (!this.inPlace) this.switchView();
    this.second = !this.second;
    this.layout();
  }

  alternate() {
    if (!this.inPlace) this.switchView();
    if (this.timer) this.stop();
    else
      this.timer = setInterval(() => {
        this.second = !this.second;
        this.layout();
      }, 450); // about one full cycle a second, below the limit of three flashes a second
    this.layout();
  }

  stop() {
    clearInterval(this.timer);
    this.timer = 0;
  }

  toggleDifference() {
    this.difference = !this.difference;
    this.drawDifference();
    this.layout();
  }

  drawDifference() {
    if (!this.difference || !this.card?.neighbour) return;
    const [a, b] = this.zoomers.map((zoomer) => zoomer.querySelector("img"));
    if (!a || !b) return;
    const [width, height] = [a.naturalWidth, a.naturalHeight];
    const pixels = [a, b].map((image) => {
      const sheet = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
      sheet.drawImage(image, 0, 0, width, height);
      return sheet.getImageData(0, 0, width, height);
    });
    const [one, other] = pixels.map((part) => part.data);
    for (let place = 0; place < one.length; place += 4) {
      const change = (Math.abs(one[place] - other[place]) + Math.abs(one[place + 1] - other[place + 1]) + Math.abs(one[place + 2] - other[place + 2])) / 3;
      const bright = Math.min(255, change * 4);
      one[place] = bright;
      one[place + 1] = Math.max(0, bright * 1.6 - 153);
      one[place + 2] = Math.max(0, bright * 2 - 255);
      one[place + 3] = 255;
    }
    this.canvas.width = width;
    this.canvas.height = height;
    this.canvas.getContext("2d").putImageData(pixels[0], 0, 0);
  }

  // -- zoom and pan: one state for both panes, in shares of a pane, so both show the same part at any size ------------

  reset() {
    this.scale = 1;
    this.x = 0;
    this.y = 0;
    this.apply();
  }

  zoomAt(factor, px = 0.5, py = 0.5) {
    const scale = Math.min(12, Math.max(1, this.scale * factor));
    const ratio = scale / this.scale;
    this.x = px - (px - this.x) * ratio;
    this.y = py - (py - this.y) * ratio;
    this.scale = scale;
    this.apply();
  }

  move(dx, dy) {
    this.x += dx;
    this.y += dy;
    this.apply();
  }

  apply() {
    this.x = Math.min(0, Math.max(1 - this.scale, this.x));
    this.y = Math.min(0, Math.max(1 - this.scale, this.y));
    const transform = `translate(${this.x * 100}%, ${this.y * 100}%) scale(${this.scale})`;
    for (const zoomer of [...(this.zoomers || []), this.canvas]) if (zoomer) zoomer.style.transform = transform;
    $("zoom-level").textContent = `${Math.round(this.scale * 100)} %`;
  }

  listen(frame) {
    const place = (event) => {
      const box = frame.getBoundingClientRect();
      return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
    };
    frame.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        this.zoomAt(Math.exp(-event.deltaY / 400), ...place(event));
      },
      { passive: false },
    );
    frame.addEventListener("pointerdown", (event) => {
      frame.setPointerCapture(event.pointerId);
      this.pointers.set(event.pointerId, place(event));
      this.moved = this.pointers.size > 1 ? 1 : 0;
    });
    frame.addEventListener("pointermove", (event) => {
      const before = this.pointers.get(event.pointerId);
      if (!before) return;
      const now = place(event);
      this.moved += Math.hypot(now[0] - before[0], now[1] - before[1]);
      if (this.pointers.size === 1) this.move(now[0] - before[0], now[1] - before[1]);
      else {
        const other = [...this.pointers].find(([id]) => id !== event.pointerId)[1];
        const apart = (point) => Math.hypot(point[0] - other[0], point[1] - other[1]) || 1e-6;
        this.zoomAt(apart(now) / apart(before), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
      }
      this.pointers.set(event.pointerId, now);
    });
    const end = (event) => {
      if (!this.pointers.delete(event.pointerId)) return;
      if (event.type === "pointerup" && this.moved < 0.02 && this.panes.classList.contains("flicker")) this.flip();
    };
    frame.addEventListener("pointerup", end);
    frame.addEventListener("pointercancel", end);
    frame.addEventListener("dblclick", () => this.reset());
  }
}
