// The time per decision, and the start of the day.

export class Pace {
  constructor() {
    [this.gaps, this.last] = [[], 0];
  }

  // `pairs`: the number of pairs or images in this decision.
  decided(pairs) {
    const now = performance.now();
    if (this.last) this.gaps = [...this.gaps, (now - this.last) / 1000 / pairs].slice(-20);
    this.last = now;
  }

  // The median of the seconds per decision. It is undefined at first.
  get each() {
    return [...this.gaps].sort((a, b) => a - b)[Math.floor(this.gaps.length / 2)];
  }
}

// Midnight in this person's time zone, in the server's format.
export function dayBegan() {
  const day = new Date();
  day.setHours(0, 0, 0, 0);
  return day.toISOString();
}
