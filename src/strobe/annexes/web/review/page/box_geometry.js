// Boxes in whole image pixels, [left, top, right, bottom] with right and bottom exclusive, and their place on screen.

export const SIDES = { nw: [0, 1], n: [1], ne: [2, 1], e: [2], se: [2, 3], s: [3], sw: [0, 3], w: [0] };

const within = (value, low, high) => Math.min(high, Math.max(low, value));

// The box between two points of the image, rounded to whole pixels. Its area is never zero.
export function between([ax, ay], [bx, by], [width, height]) {
  const side = (a, b, most) => {
    const [low, high] = [Math.min(a, b), Math.max(a, b)].map((value) => within(Math.round(value), 0, most));
    return low < high ? [low, high] : low < most ? [low, low + 1] : [most - 1, most];
  };
  const [[x0, x1], [y0, y1]] = [side(ax, bx, width), side(ay, by, height)];
  return [x0, y0, x1, y1];
}

// The box moved within the image, with the same size.
export function moved([x0, y0, x1, y1], dx, dy, [width, height]) {
  const [mx, my] = [within(dx, -x0, width - x1), within(dy, -y0, height - y1)];
  return [x0 + mx, y0 + my, x1 + mx, y1 + my];
}

// The box with its bottom right corner moved. It stays inside the image and is at least one pixel large.
export function resized([x0, y0, x1, y1], dx, dy, [width, height]) {
  return [x0, y0, within(x1 + dx, x0 + 1, width), within(y1 + dy, y0 + 1, height)];
}

// The box with the sides of a handle moved to a point, but not past the opposite sides.
export function pulled(box, handle, point, size) {
  const out = [...box];
  for (const side of SIDES[handle]) {
    const axis = side % 2;
    const [low, high] = side < 2 ? [0, box[side + 2] - 1] : [box[side - 2] + 1, size[axis]];
    out[side] = within(Math.round(point[axis]), low, high);
  }
  return out;
}

export const corner = (box, handle) => {
  const middle = [(box[0] + box[2]) / 2, (box[1] + box[3]) / 2];
  const place = (axis) => SIDES[handle].find((side) => side % 2 === axis);
  return [0, 1].map((axis) => (place(axis) === undefined ? middle[axis] : box[place(axis)]));
};

// What a pointer grabs: a handle, the box itself ("inside"), or nothing. `reach` is in pixels of the image. Handles reach
// less far inside a small box, so that it can still be moved.
export function grabbed(box, [x, y], reach) {
  if (!box) return null;
  const inside = x > box[0] && x < box[2] && y > box[1] && y < box[3];
  const reaches = [0, 1].map((axis) => (inside ? Math.min(reach, (box[axis + 2] - box[axis]) / 4) : reach));
  let best = null;
  for (const handle of Object.keys(SIDES)) {
    const [cx, cy] = corner(box, handle);
    const far = Math.hypot((x - cx) / reaches[0], (y - cy) / reaches[1]) - (SIDES[handle].length > 1 ? 0.2 : 0);
    if (far <= 1 && (!best || far < best[0])) best = [far, handle];
  }
  return best ? best[1] : inside ? "inside" : null;
}

export const same = (a, b) => Boolean(a && b) && a.every((side, place) => side === b[place]);

export const share = ([x0, y0, x1, y1], [width, height]) => ((x1 - x0) * (y1 - y0)) / (width * height);

export function words(box, size) {
  if (!box) return "No box yet";
  const [x0, y0, x1, y1] = box;
  const part = share(box, size) * 100;
  return `${x1 - x0} × ${y1 - y0} pixels at ${x0}, ${y0}, ${part < 10 ? part.toFixed(1) : Math.round(part)} % of it`;
}

const EDGE = 14; // margin around the image, so that handles at its edges can be grabbed

// The place of an image in an area of the screen: `scale` CSS pixels per image pixel, its corner at `x`, `y`.
export class View {
  constructor() {
    [this.size, this.room, this.fitted] = [[1, 1], [1, 1], true];
    this.fit();
  }

  get least() {
    return Math.max(1e-3, Math.min(...[0, 1].map((axis) => (this.room[axis] - 2 * EDGE) / this.size[axis])));
  }

  // Place an image in an area of the given size. The zoomed part stays in the middle.
  place(size, room) {
    const middle = this.toPicture([this.room[0] / 2, this.room[1] / 2]);
    const another = size.join() !== this.size.join();
    [this.size, this.room] = [size, room];
    if (this.fitted || another) return this.fit();
    const [mx, my] = this.toScreen(middle);
    return this.pan(room[0] / 2 - mx, room[1] / 2 - my);
  }

  fit() {
    [this.scale, this.x, this.y, this.fitted] = [this.least, 0, 0, true];
    this.settle();
  }

  zoomAt(factor, [px, py]) {
    const scale = within(this.scale * factor, this.least, Math.max(48, this.least));
    const ratio = scale / this.scale;
    [this.x, this.y, this.scale] = [px - (px - this.x) * ratio, py - (py - this.y) * ratio, scale];
    this.fitted = scale <= this.least * 1.0001;
    this.settle();
  }

  pan(dx, dy) {
    [this.x, this.y] = [this.x + dx, this.y + dy];
    this.settle();
  }

  // An image smaller than the area is centred. The edges of a larger image stay near the edges of the area.
  settle() {
    const place = (at, axis) => {
      const [long, room] = [this.size[axis] * this.scale, this.room[axis]];
      return long <= room - 2 * EDGE + 0.01 ? (room - long) / 2 : within(at, room - long - EDGE, EDGE);
    };
    [this.x, this.y] = [place(this.x, 0), place(this.y, 1)];
  }

  toScreen([x, y]) {
    return [this.x + x * this.scale, this.y + y * this.scale];
  }

  toPicture([px, py]) {
    return [(px - this.x) / this.scale, (py - this.y) / this.scale];
  }

  // Zoom in as far as possible while the whole box stays visible.
  zoomTo([x0, y0, x1, y1]) {
    const near = Math.min((this.room[0] * 0.7) / (x1 - x0), (this.room[1] * 0.7) / (y1 - y0));
    this.zoomAt(near / this.scale, [0, 0]);
    const [mx, my] = this.toScreen([(x0 + x1) / 2, (y0 + y1) / 2]);
    this.pan(this.room[0] / 2 - mx, this.room[1] / 2 - my);
  }

  // Scroll a point of the image into view.
  reveal(point) {
    const at = this.toScreen(point);
    const by = at.map((value, axis) => within(value, EDGE, this.room[axis] - EDGE) - value);
    if (by[0] || by[1]) this.pan(...by);
  }
}
