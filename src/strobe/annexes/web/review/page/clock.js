// The time spent on a card, counted from when its images became visible, without the time the page was hidden.

export class Clock {
  constructor() {
    this.start();
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) this.hiddenSince = performance.now();
      else this.hiddenFor += performance.now() - this.hiddenSince;
    });
  }

  // `before`: seconds already spent on this card.
  start(before = 0) {
    this.startedAt = performance.now() - before * 1000;
    this.hiddenFor = 0;
    this.hiddenSince = performance.now();
  }

  get seconds() {
    const away = this.hiddenFor + (document.hidden ? performance.now() - this.hiddenSince : 0);
    const seconds = (performance.now() - this.startedAt - away) / 1000;
    return Math.round(Math.max(0, Math.min(86400, seconds)) * 1000) / 1000;
  }
}
