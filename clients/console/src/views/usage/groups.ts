/** Money by SKU, allocation or project. Pure. */
import type { UsageInterval } from "../../api/types";
import type { Amount } from "../../lib/money";
import { shortId } from "../../lib/text";
import type { Part } from "./range";

export interface Group {
  /** What the money is grouped by: two with one name stay apart. */
  id: string;
  name: string;
  amount: Amount;
}

/** The ways to group: what the money is grouped by, and what that is called. */
export interface By {
  idOf: (interval: UsageInterval) => string;
  nameOf: (interval: UsageInterval) => string;
}

/** Money of each group, per currency, the most first. Of several with one name each has a part of its id behind it. */
export function grouped(parts: Part[], { idOf, nameOf }: By): Group[] {
  const found = new Map<string, Group>();
  const ids = new Map<string, Set<string>>();
  for (const { interval, amount } of parts) {
    const [id, name] = [idOf(interval), nameOf(interval)];
    const key = `${amount.currency} ${id}`;
    const sofar = found.get(key)?.amount.nanos ?? 0n;
    found.set(key, { id, name, amount: { currency: amount.currency, nanos: sofar + amount.nanos } });
    ids.set(name, (ids.get(name) ?? new Set()).add(id));
  }
  const apart = ({ id, name, amount }: Group): Group => ({ id, name: (ids.get(name)?.size ?? 0) > 1 ? `${name} (${shortId(id)})` : name, amount });
  return [...found.values()].map(apart).sort((a, b) => (b.amount.nanos > a.amount.nanos ? 1 : b.amount.nanos < a.amount.nanos ? -1 : a.name.localeCompare(b.name)));
}
