/** Expiry and state of API keys. Pure. */
import type { ApiKey } from "../../api/accounts";

const DAY_MS = 86_400_000;

export type KeyWord = "active" | "expired" | "disabled";

export function keyWord({ disable_time, expire_time }: ApiKey, now: number): KeyWord {
  if (disable_time) return "disabled";
  return expire_time && Date.parse(expire_time) <= now ? "expired" : "active";
}

/** When a key that is made now expires; nothing for a key that never does. */
export function expiryOf(days: string, now: number): string | undefined {
  return days === "" ? undefined : new Date(now + Number(days) * DAY_MS).toISOString();
}
