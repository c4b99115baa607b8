// The browser's own storage, and memory where that is full or switched off: what is kept there goes with the tab.

const memory = new Map();

export function keep(key, text) {
  try {
    localStorage.setItem(key, text);
    memory.delete(key);
  } catch {
    memory.set(key, text);
  }
}

export function kept(key) {
  if (memory.has(key)) return memory.get(key);
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

export function forget(key) {
  memory.delete(key);
  try {
    localStorage.removeItem(key);
  } catch {
    // Nothing is kept there either.
  }
}

export function keysWith(prefix) {
  const found = [...memory.keys()];
  try {
    for (let place = 0; place < localStorage.length; place += 1) found.push(localStorage.key(place));
  } catch {
    // Switched off: memory is all there is.
  }
  return [...new Set(found)].filter((key) => key.startsWith(prefix)).sort();
}

export const inMemoryOnly = (prefix) => [...memory.keys()].some((key) => key.startsWith(prefix));
