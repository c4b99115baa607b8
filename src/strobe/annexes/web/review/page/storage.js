// The browser's storage, or memory if the storage is full or switched off. Memory is lost when the tab closes.

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
    // Storage is switched off, so nothing is stored there.
  }
}

export function keysWith(prefix) {
  const found = [...memory.keys()];
  try {
    for (let place = 0; place < localStorage.length; place += 1) found.push(localStorage.key(place));
  } catch {
    // Storage is switched off, so only memory is used.
  }
  return [...new Set(found)].filter((key) => key.startsWith(prefix)).sort();
}

export const inMemoryOnly = (prefix) => [...memory.keys()].some((key) => key.startsWith(prefix));
