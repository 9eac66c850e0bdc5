import { expect, it } from "vitest";
import { partsOfCounts } from "./counts";

it("the parts add up to what is delivered", () => {
  const parts = partsOfCounts({ delivered: "16", healthy: "14", reserved: "9", active: "6" });
  expect(parts.map(({ value }) => value)).toEqual([6, 3, 5, 2]);
  expect(partsOfCounts(undefined).every(({ value }) => value === 0)).toBe(true);
});
