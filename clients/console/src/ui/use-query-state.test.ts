import { expect, it } from "vitest";
import { tabOf, withParam } from "./use-query-state";

it("an address keeps what is chosen, and nothing that is not", () => {
  const before = new URLSearchParams("tab=queue&region=a");
  expect(withParam(before, "region", "b").toString()).toBe("tab=queue&region=b");
  expect(withParam(before, "tab", "").toString()).toBe("region=a");
  expect(before.toString()).toBe("tab=queue&region=a");
});

it("an address that names no tab of the page shows the first", () => {
  expect(["queue", "history", "qeue", ""].map((wanted) => tabOf(wanted, ["history", "queue"]))).toEqual(["queue", "history", "history", "history"]);
});
