// How fast it goes, and when the day began.

export class Pace {
  constructor() {
    [this.gaps, this.last] = [[], 0];
  }

  // `pairs` (or images) were decided just now, since the decision before.
  decided(pairs) {
    const now = performance.now();
    if (this.last) this.gaps = [...this.gaps, (now - this.last) / 1000 / pairs].slice(-20);
    this.last = now;
  }

  // The median seconds each took; undefined at first.
  get each() {
    return [...this.gaps].sort((a, b) => a - b)[Math.floor(this.gaps.length / 2)];
  }
}

// Midnight where this person is, as the server writes moments.
export function dayBegan() {
  const day = new Date();
  day.setHours(0, 0, 0, 0);
  return day.toISOString();
}
