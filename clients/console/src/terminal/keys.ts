/** Keys that phones do not have, and the size of the letters. */

/** The character that Ctrl makes of a typed one; the same where Ctrl changes nothing. */
export function controlOf(text: string): string {
  if (text.length !== 1) return text;
  if (text === " ") return "\0";
  if (text === "?") return "\x7f";
  const code = text.toUpperCase().charCodeAt(0);
  return code >= 0x40 && code <= 0x5f ? String.fromCharCode(code - 0x40) : text;
}

/** Labels, names for those who do not see them, and what is sent. */
export const KEYS: [label: string, name: string, sent: string][] = [
  ["Esc", "Esc, Escape", "\x1b"],
  ["Tab", "Tab", "\t"],
  ["←", "Left", "\x1b[D"],
  ["↑", "Up", "\x1b[A"],
  ["↓", "Down", "\x1b[B"],
  ["→", "Right", "\x1b[C"],
  ["|", "Pipe", "|"],
  ["/", "Slash", "/"],
  ["-", "Dash", "-"],
  ["~", "Tilde", "~"],
];

export const SIZES = { least: 9, usual: 13.5, most: 24 } as const;
const STORAGE_KEY = "gpuaas.terminal-size";

/** One step larger or smaller, within limits. */
export function stepped(size: number, by: number): number {
  return Math.min(SIZES.most, Math.max(SIZES.least, Math.round((size + by) * 2) / 2));
}

export function savedSize(): number {
  try {
    const size = Number(localStorage.getItem(STORAGE_KEY));
    return size >= SIZES.least && size <= SIZES.most ? size : SIZES.usual;
  } catch {
    return SIZES.usual;
  }
}

export function saveSize(size: number): void {
  try {
    localStorage.setItem(STORAGE_KEY, String(size));
  } catch {
    // without storage the next terminal has the usual size
  }
}
