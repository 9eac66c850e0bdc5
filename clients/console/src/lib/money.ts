/** Exact money: billionths of a unit in a bigint. Never a float. */
import type { Money } from "../api/types";

const NANOS = 1_000_000_000n;

export interface Amount {
  currency: string;
  nanos: bigint;
}

export function amountOf(money: Money | undefined): Amount {
  return {
    currency: money?.currency_code ?? "",
    nanos: BigInt(money?.units ?? "0") * NANOS + BigInt(money?.nanos ?? 0),
  };
}

/** Sums per currency, in the order in which the currencies appear. */
export function sum(amounts: Amount[]): Amount[] {
  const totals = new Map<string, bigint>();
  for (const { currency, nanos } of amounts) totals.set(currency, (totals.get(currency) ?? 0n) + nanos);
  return [...totals].map(([currency, nanos]) => ({ currency, nanos }));
}

export function times(amount: Amount, factor: number): Amount {
  return { ...amount, nanos: amount.nanos * BigInt(factor) };
}

const SYMBOLS: Record<string, string> = { USD: "$", EUR: "€", GBP: "£", JPY: "¥", CHF: "CHF ", INR: "₹" };

export function symbol(currency: string): string {
  return SYMBOLS[currency] ?? (currency ? `${currency} ` : "");
}

/** The amount in two parts: up to the cent, and the exact rest, which may be empty. */
export function split({ currency, nanos }: Amount): { head: string; tail: string } {
  const sign = nanos < 0n ? "−" : "";
  const magnitude = nanos < 0n ? -nanos : nanos;
  const units = (magnitude / NANOS).toString().replace(/\B(?=(\d{3})+(?!\d))/g, ",");
  const fraction = (magnitude % NANOS).toString().padStart(9, "0");
  return { head: `${sign}${symbol(currency)}${units}.${fraction.slice(0, 2)}`, tail: fraction.slice(2).replace(/0+$/, "") };
}

/** Every digit that counts, at least two after the point. */
export function exact(amount: Amount): string {
  const { head, tail } = split(amount);
  return head + tail;
}

/** For charts only. */
export function approximate({ nanos }: Amount): number {
  return Number(nanos) / 1e9;
}
