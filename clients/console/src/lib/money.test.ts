import { describe, expect, it } from "vitest";
import { amountOf, exact, placesFor, placesOf, rounded, sum, times } from "./money";

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

  it("keeps the digits after the cent", () => {
    expect(exact({ currency: "USD", nanos: 19_109_045n })).toBe("$0.019109045");
  });

  it.each([
    [19_156_300n, "$0.0192"],
    [2_490_000_000n, "$2.49"],
    [2_495_000_000n, "$2.50"],
    [640_123_456n, "$0.64"],
    [1_234n, "$0.000001"],
    [999n, "< $0.000001"],
    [0n, "$0.00"],
    [-19_156_300n, "−$0.0192"],
    [1_234_567_890_000_000n, "$1,234,567.89"],
  ])("%d billionths are shown as %s", (nanos, text) => {
    const amount = { currency: "USD", nanos };
    expect(rounded(amount, placesOf(amount))).toBe(text);
  });

  it("a column has as many decimals as its smallest amount needs", () => {
    const usd = (nanos: bigint) => ({ currency: "USD", nanos });
    const column = [usd(2_490_000_000n), usd(19_156_300n)];
    expect(column.map((amount) => rounded(amount, placesFor(column)))).toEqual(["$2.4900", "$0.0192"]);
    expect(placesFor([])).toBe(2);
  });

  it("never adds up two currencies", () => {
    const usd = (nanos: bigint) => ({ currency: "USD", nanos });
    expect(sum([usd(1n), { currency: "EUR", nanos: 5n }, usd(2n)])).toEqual([usd(3n), { currency: "EUR", nanos: 5n }]);
    expect(times(usd(120_000_000n), 8)).toEqual(usd(960_000_000n));
  });
});
