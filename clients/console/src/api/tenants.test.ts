import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { createElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import { idFilters, useAllocationNames } from "./tenants";

it("allocations are named by filters that the API takes, each id once", () => {
  const ids = Array.from({ length: 45 }, (_, number) => `01930000-0001-7000-8000-${String(number).padStart(12, "0")}`);
  const filters = idFilters([...ids, ...ids]);
  expect(filters.map((filter) => filter.split(" OR ").length)).toEqual([20, 20, 5]);
  for (const filter of filters) expect(filter.length).toBeLessThanOrEqual(1000);
  expect(idFilters([])).toEqual([]);
});

const numbered = (number: number) => `01930000-0001-7000-8000-${String(number).padStart(12, "0")}`;
const newestFirst = (count: number) => Array.from({ length: count }, (_, number) => numbered(count - number));

it("a new allocation changes the last filter alone", () => {
  const before = idFilters(newestFirst(45));
  const after = idFilters(newestFirst(46));
  expect(after.slice(0, 2)).toEqual(before.slice(0, 2));
  expect(after[2]).toBe(`${before[2]} OR id = ${numbered(46)}`);
});

it("names stay while those of other groups are loaded, and the present ones count", () => {
  const queries = new QueryClient();
  const load = (ids: string[], name: string) => idFilters(ids).forEach((filter) => queries.setQueryData(["tenant-allocations", "names", filter], ids.filter((id) => filter.includes(id)).map((id) => ({ allocation: { id, config: { name: `${name}-${id.slice(-2)}` } } }))));
  const names = (ids: string[]) => {
    function Names() {
      const found = useAllocationNames(ids);
      return ids.map((id) => found.get(id) ?? "?").join(" ");
    }
    return renderToStaticMarkup(createElement(QueryClientProvider, { client: queries }, createElement(Names)));
  };
  load([numbered(1), numbered(3)], "first");
  expect(names([numbered(3), numbered(2), numbered(1)])).toBe("first-03 ? first-01");
  load([numbered(1), numbered(2), numbered(3)], "then");
  expect(names([numbered(3), numbered(2), numbered(1)])).toBe("then-03 then-02 then-01");
  // whichever was loaded first
  expect(names([numbered(3), numbered(1)])).toBe("first-03 first-01");
});
