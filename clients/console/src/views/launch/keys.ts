/** The public keys of a user's last launch, kept in this browser for this user alone. */
const KEY = "gpuaas.ssh-public-keys";

function keyOf(principal: string): string {
  return `${KEY}:${principal}`;
}

/** Nothing for an unknown user. */
export function rememberedKeys(principal: string): string {
  try {
    // older consoles kept one value for whoever used the browser
    localStorage.removeItem(KEY);
    return principal ? (localStorage.getItem(keyOf(principal)) ?? "") : "";
  } catch {
    return "";
  }
}

export function rememberKeys(principal: string, text: string): void {
  try {
    if (principal) localStorage.setItem(keyOf(principal), text);
  } catch {
    // then they are typed again
  }
}

/** A key that is kept on the platform. */
export interface SavedKey {
  name: string;
  /** "yours" or "the project’s". */
  of: string;
}

/** Most keys of one launch. */
const MOST_KEYS = 10;

/** The keys that a launch can name: of two with one name, one's own counts. */
export function keptKeys(own: { name?: string }[] = [], shared: { name?: string }[] = []): SavedKey[] {
  const mine = own.map(({ name = "" }) => ({ name, of: "yours" }));
  const names = new Set(mine.map(({ name }) => name));
  return [...mine, ...shared.map(({ name = "" }) => ({ name, of: "the project’s" })).filter(({ name }) => !names.has(name))];
}

/** The names that are picked; before anybody has picked, one's own keys, unless others are `pasted`. */
export function pickedOf(picked: string[] | undefined, kept: SavedKey[], pasted: boolean): string[] {
  const usual = pasted ? [] : kept.filter(({ of }) => of === "yours").map(({ name }) => name);
  return (picked ?? usual).filter((name) => kept.some((key) => key.name === name)).slice(0, MOST_KEYS);
}

/** Stands in an address for "no key is picked": no key has this name. */
const NONE = "-";

/** Picked names as an address carries them; nothing before anybody has picked. */
export function pickedText(picked: string[] | undefined): string {
  return picked === undefined ? "" : picked.join(",") || NONE;
}

export function pickedFrom(text: string | null): string[] | undefined {
  if (!text) return undefined;
  return text === NONE ? [] : text.split(",");
}
