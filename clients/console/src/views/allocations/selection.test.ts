import { expect, it } from "vitest";
import type { Allocation } from "../../api/types";
import { filtered, open } from "./selection";

const one = (id: string, state: "active" | "releasing" | "requested", power?: "running" | "stopped", labels?: Record<string, string>): Allocation => ({ id, config: { name: `web-${id}`, sku: "h200" }, status: { state, power }, metadata: { labels } });
const all = [one("1", "active", "running", { app: "db" }), one("2", "active", "stopped"), one("3", "releasing"), one("4", "requested")];
const ids = (list: Allocation[]) => list.map(({ id }) => id).join("");

it("a search is over names, SKUs and labels", () => {
  expect(ids(filtered(all, { search: "web h200", state: "" }))).toBe("1234");
  expect(ids(filtered(all, { search: "app=db", state: "" }))).toBe("1");
  expect(ids(filtered(all, { search: "", state: "active" }))).toBe("12");
  expect(ids(filtered(all, { search: "x", state: "" }))).toBe("");
});

it("a verb applies to what it can change", () => {
  expect(ids(open("start", all))).toBe("2");
  expect(ids(open("stop", all))).toBe("1");
  expect(ids(open("release", all))).toBe("124");
});
