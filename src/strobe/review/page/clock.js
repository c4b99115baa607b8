// How long a card has been looked at: from when its images stood there, less the time the page was out of sight.

export class Clock {
  constructor() {
    this.start();
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) this.hiddenSince = performance.now();
      else this.hiddenFor += performance.now() - this.hiddenSince;
    });
  }

  // `before`: seconds that were spent on it already.
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
