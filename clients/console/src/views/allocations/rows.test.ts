import { expect, it } from "vitest";
import type { Allocation, AllocationState } from "../../api/types";
import { insteadOfRows, rowsOf } from "./rows";

const made = (id: string, day: number, state: AllocationState, revision = 1): Allocation => ({ id, status: { state }, metadata: { create_time: `2026-11-0${day}T00:00:00Z`, revision: String(revision) } });
const words = (rows: Allocation[]) => rows.map(({ id, status }) => `${id} ${status?.state}`);

it("the newest is first, and what ended earlier is history", () => {
  const watched = { a: made("a", 1, "active"), b: made("b", 3, "provisioning"), c: made("c", 2, "released") };
  expect(words(rowsOf(watched, [], false, new Set()))).toEqual(["b provisioning", "a active"]);
  expect(words(rowsOf(watched, [made("d", 4, "failed"), made("a", 1, "provisioning", 0)], true, new Set()))).toEqual(["d failed", "b provisioning", "c released", "a active"]);
});

it("what ends while it is shown stays in the list", () => {
  const seen = new Set<string>();
  rowsOf({ a: made("a", 1, "provisioning") }, [], false, seen);
  expect(words(rowsOf({ a: made("a", 1, "failed", 2) }, [], false, seen))).toEqual(["a failed"]);
  expect(rowsOf({ a: made("a", 1, "failed", 2) }, [], false, new Set())).toEqual([]);
});

it("the list is empty only when all sources are loaded, and not beside a failure", () => {
  const [loaded, loading, failed] = [{ loaded: true, failed: false }, { loaded: false, failed: false }, { loaded: false, failed: true }];
  expect(insteadOfRows([loaded])).toBe("empty");
  expect(insteadOfRows([loaded, loading])).toBe("loading");
  expect(insteadOfRows([loaded, failed])).toBeUndefined();
  // earlier answers stay while they are refreshed
  expect(insteadOfRows([{ loaded: true, failed: true }])).toBe("empty");
});
