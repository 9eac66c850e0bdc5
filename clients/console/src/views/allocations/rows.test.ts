import { expect, it } from "vitest";
import type { Allocation, AllocationState } from "../../api/types";
import { insteadOfRows, rowsOf } from "./rows";

const made = (id: string, day: number, state: AllocationState, revision = 1): Allocation => ({ id, status: { state }, metadata: { create_time: `2026-11-0${day}T00:00:00Z`, revision: String(revision) } });
const words = (rows: Allocation[]) => rows.map(({ id, status }) => `${id} ${status?.state}`);

it("the newest is first, and what ended before one looked is history", () => {
  const watched = { a: made("a", 1, "active"), b: made("b", 3, "provisioning"), c: made("c", 2, "released") };
  expect(words(rowsOf(watched, [], false, new Set()))).toEqual(["b provisioning", "a active"]);
  expect(words(rowsOf(watched, [made("d", 4, "failed"), made("a", 1, "provisioning", 0)], true, new Set()))).toEqual(["d failed", "b provisioning", "c released", "a active"]);
});

it("what ends before one's eyes stays in sight", () => {
  const seen = new Set<string>();
  rowsOf({ a: made("a", 1, "provisioning") }, [], false, seen);
  expect(words(rowsOf({ a: made("a", 1, "failed", 2) }, [], false, seen))).toEqual(["a failed"]);
  expect(rowsOf({ a: made("a", 1, "failed", 2) }, [], false, new Set())).toEqual([]);
});

it("that there was never anything is said when all was told, and not beside a failure", () => {
  const [told, waits, failed] = [{ told: true, failed: false }, { told: false, failed: false }, { told: false, failed: true }];
  expect(insteadOfRows([told])).toBe("empty");
  expect(insteadOfRows([told, waits])).toBe("loading");
  expect(insteadOfRows([told, failed])).toBeUndefined();
  // what was told before stays true enough while it is asked again
  expect(insteadOfRows([{ told: true, failed: true }])).toBe("empty");
});
