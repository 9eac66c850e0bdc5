/** Expiry and state of API keys. Pure. */
import type { ApiKey } from "../../api/accounts";

const DAY_MS = 86_400_000;
/** A clock that is ahead of the platform's must not ask for more days than are allowed. */
const AHEAD_MS = 60_000;

export type KeyWord = "active" | "expired" | "disabled";

export function keyWord({ disable_time, expire_time }: ApiKey, now: number): KeyWord {
  if (disable_time) return "disabled";
  return expire_time && Date.parse(expire_time) <= now ? "expired" : "active";
}

/** When a key that is made now expires, where `most` days are allowed; nothing for a key that never does. */
export function expiryOf(days: string, now: number, most = 0): string | undefined {
  if (days === "") return undefined;
  const early = Number(days) === most ? AHEAD_MS : 0;
  return new Date(now + Number(days) * DAY_MS - early).toISOString();
}

const LIVES: [string, string][] = [["30", "In 30 days"], ["90", "In 90 days"], ["365", "In a year"], ["", "Never"]];

/** How long a key may live, to choose from; `most` days where the organisation allows no more, 0: as long as one likes. */
export function livesOf(most: number): [string, string][] {
  if (most === 0) return LIVES;
  const allowed = LIVES.filter(([days]) => days !== "" && Number(days) <= most);
  return allowed.some(([days]) => Number(days) === most) ? allowed : [...allowed, [String(most), most === 1 ? "In a day" : `In ${most} days`]];
}

/** The life that is chosen: the wanted one, or the longest that is offered in its place. */
export function lifeOf(wanted: string, lives: [string, string][]): string {
  return lives.some(([days]) => days === wanted) ? wanted : (lives.at(-1)?.[0] ?? "");
}

/** The end to ask for in a rotation, where the key would live as long as the one before and that is more than is allowed. */
export function rotatedEnd({ create_time = "", expire_time }: ApiKey, most: number, now: number): string | undefined {
  const life = expire_time ? Date.parse(expire_time) - Date.parse(create_time) : Number.POSITIVE_INFINITY;
  return most > 0 && life > most * DAY_MS ? expiryOf(String(most), now, most) : undefined;
}
