import { describe, expect, it } from "vitest";
import { amountOf, exact, split, sum, times } from "./money";

describe("money", () => {
  it.each([
    [{ currency_code: "USD", units: "0", nanos: 19_156_300 }, "$0.0191563"],
    [{ currency_code: "USD", units: "2", nanos: 490_000_000 }, "$2.49"],
    [{ currency_code: "USD", units: "1234567", nanos: 1 }, "$1,234,567.000000001"],
    [{ currency_code: "EUR", units: "-1", nanos: -750_000_000 }, "−€1.75"],
    [{ currency_code: "SEK", units: "5", nanos: 0 }, "SEK 5.00"],
    [{ currency_code: "USD", units: "9223372036854775807", nanos: 999_999_999 }, "$9,223,372,036,854,775,807.999999999"],
    [undefined, "0.00"],
  ])("%j reads %s", (money, text) => {
    expect(exact(amountOf(money))).toBe(text);
  });

  it("is split after the cent", () => {
    expect(split({ currency: "USD", nanos: 19_109_045n })).toEqual({ head: "$0.01", tail: "9109045" });
  });

  it("never adds up two currencies", () => {
    const usd = (nanos: bigint) => ({ currency: "USD", nanos });
    expect(sum([usd(1n), { currency: "EUR", nanos: 5n }, usd(2n)])).toEqual([usd(3n), { currency: "EUR", nanos: 5n }]);
    expect(times(usd(120_000_000n), 8)).toEqual(usd(960_000_000n));
  });
});
