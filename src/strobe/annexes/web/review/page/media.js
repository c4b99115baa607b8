// Images by name, loaded once and in advance.

const pictures = new Map(); // media name → {image, ready}

export function fetchPicture(name) {
  let entry = pictures.get(name);
  if (!entry) {
    const image = new Image();
    image.draggable = false;
    image.decoding = "async";
    entry = { image, there: false };
    pictures.set(name, entry);
    entry.ready = arrival(entry, `/media/${name}`, () => pictures.get(name) === entry);
    entry.ready.then(
      () => (entry.there = true),
      () => pictures.get(name) === entry && pictures.delete(name),
    );
    if (pictures.size > 240) pictures.delete(pictures.keys().next().value);
  }
  return entry;
}

// Wait for the image. Retry if the server is busy, restarts or cannot be reached. An image is unreadable only if the
// server refuses it or sends bytes that are not an image.
async function arrival({ image }, address, wanted) {
  let broken = 0;
  for (let pause = 250; ; pause = Math.min(2 * pause, 4000)) {
    image.src = address;
    try {
      return await image.decode();
    } catch {
      if (image.complete && image.naturalWidth) return undefined; // loaded, but too little memory to decode
    }
    const status = await fetch(address, { credentials: "same-origin", signal: AbortSignal.timeout(15000) }).then(
      (answer) => answer.status,
      () => 0,
    );
    if (status === 200) broken += 1;
    const refused = status >= 400 && status < 500 && status !== 401 && status !== 429;
    if (refused || broken > 1 || !wanted()) throw new Error("unreadable");
    await new Promise((resolve) => setTimeout(resolve, pause));
    image.removeAttribute("src"); // otherwise the browser would not request it again
  }
}
