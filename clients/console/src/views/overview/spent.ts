/** What was spent since a moment, in the reader's zone. Pure. */
import type { UsageInterval } from "../../api/types";
import { type Amount, amountOf, sum } from "../../lib/money";
import { buckets } from "../../lib/usage";

/** Start of the day or month that a moment lies in. */
export function startOf(unit: "day" | "month", now: number): number {
  const date = new Date(now);
  date.setHours(0, 0, 0, 0);
  if (unit === "month") date.setDate(1);
  return date.getTime();
}

/** Per currency; nothing for a currency in which nothing was spent. */
export function spentSince(intervals: UsageInterval[], from: number, to: number): Amount[] {
  const currencies = sum(intervals.map(({ amount }) => amountOf(amount))).map(({ currency }) => currency);
  const spent = currencies.map((currency) => ({ currency, nanos: buckets(intervals, currency, "day", from, to).reduce((total, { nanos }) => total + nanos, 0n) }));
  return spent.filter(({ nanos }) => nanos > 0n);
}
