import { expect, it } from "vitest";
import { moneyOf } from "./amount";

it("an amount is read exactly, or not at all", () => {
  expect(moneyOf("2.5", "EUR")).toEqual({ currency_code: "EUR", units: "2", nanos: 500_000_000 });
  expect(moneyOf("0.000000001", "USD")).toEqual({ currency_code: "USD", units: "0", nanos: 1 });
  for (const wrong of ["", "-1", "1,5", "1.0000000001", "x"]) expect(moneyOf(wrong, "EUR")).toBeUndefined();
  expect(moneyOf("1", "eur")).toBeUndefined();
});
