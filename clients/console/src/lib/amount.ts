/** Money as people type it. */
import type { Money } from "../api/types";

const AMOUNT = /^(\d{1,12})(?:\.(\d{1,9}))?$/;

/** "2.5" of a currency, exactly; nothing when it is not an amount. */
export function moneyOf(amount: string, currency: string): Money | undefined {
  const [, units, decimals = ""] = AMOUNT.exec(amount.trim()) ?? [];
  if (units === undefined || !/^[A-Z]{3}$/.test(currency)) return undefined;
  return { currency_code: currency, units, nanos: Number(decimals.padEnd(9, "0")) };
}
