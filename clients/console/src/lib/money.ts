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

/** Every digit that counts, at least two after the point. */
export function exact({ currency, nanos }: Amount): string {
  const sign = nanos < 0n ? "−" : "";
  const magnitude = nanos < 0n ? -nanos : nanos;
  const units = (magnitude / NANOS).toString().replace(/\B(?=(\d{3})+(?!\d))/g, ",");
  const fraction = (magnitude % NANOS).toString().padStart(9, "0");
  return `${sign}${symbol(currency)}${units}.${fraction.slice(0, 2)}${fraction.slice(2).replace(/0+$/, "")}`;
}

/** Decimals that show an amount with two digits that count: two from a tenth of a unit on, up to six below. */
export function placesOf({ nanos }: Amount): number {
  const magnitude = nanos < 0n ? -nanos : nanos;
  if (magnitude === 0n || magnitude >= NANOS / 10n) return 2;
  return magnitude >= NANOS / 1000n ? 4 : 6;
}

/** Rounded half up to so many decimals; what is not nothing never reads as nothing. */
export function rounded({ currency, nanos }: Amount, places: number): string {
  const step = 10n ** BigInt(9 - places);
  const magnitude = nanos < 0n ? -nanos : nanos;
  if (magnitude > 0n && magnitude < step) return `< ${exact({ currency, nanos: step })}`;
  const whole = ((magnitude + step / 2n) / step) * step;
  const units = (whole / NANOS).toString().replace(/\B(?=(\d{3})+(?!\d))/g, ",");
  const fraction = (whole % NANOS).toString().padStart(9, "0").slice(0, places);
  return `${nanos < 0n ? "−" : ""}${symbol(currency)}${units}.${fraction}`;
}

/** Decimals for a column of amounts, so that their points stand below each other. */
export function placesFor(amounts: Amount[]): number {
  return Math.max(2, ...amounts.map(placesOf));
}

/** For charts only. */
export function approximate({ nanos }: Amount): number {
  return Number(nanos) / 1e9;
}
