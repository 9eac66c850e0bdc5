import { expect, it } from "vitest";
import { idFilters } from "./tenants";

it("allocations are named by filters that the API takes, each id once", () => {
  const ids = Array.from({ length: 45 }, (_, number) => `01930000-0001-7000-8000-${String(number).padStart(12, "0")}`);
  const filters = idFilters([...ids, ...ids]);
  expect(filters.map((filter) => filter.split(" OR ").length)).toEqual([20, 20, 5]);
  for (const filter of filters) expect(filter.length).toBeLessThanOrEqual(1000);
  expect(idFilters([])).toEqual([]);
});
