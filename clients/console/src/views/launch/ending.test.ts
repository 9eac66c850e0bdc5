import { expect, it } from "vitest";
import type { Order } from "./use-launch";
import { cliOf } from "./commands";
import { endOf } from "./ending";

const now = Date.parse("2026-11-23T12:00:00Z");

it("a launch is protected, ends at a time to come, or neither", () => {
  expect(endOf({ isProtected: false, at: "" }, now)).toEqual({});
  expect(endOf({ isProtected: true, at: "2026-12-01T00:00" }, now)).toEqual({ termination_protection: true });
  expect(endOf({ isProtected: false, at: "2026-12-01T00:00" }, now)).toEqual({ auto_release_time: new Date("2026-12-01T00:00").toISOString() });
  for (const at of ["2026-11-01T00:00", "tomorrow"]) expect(endOf({ isProtected: false, at }, now)).toBeUndefined();
});

it("the same launch as a command has them, too", () => {
  const order = (end: object): Order => ({ project_id: "p", names: ["web"], each: { region_code: "a", sku: "s", gpu_count: 1, image: "i", ...end }, waitHours: undefined });
  expect(cliOf(order({ termination_protection: true }), "web")).toContain("--protect");
  expect(cliOf(order({ auto_release_time: "2026-12-01T00:00:00.000Z" }), "web")).toContain("--release-at 2026-12-01T00:00:00.000Z");
  for (const flag of ["--protect", "--release-at"]) expect(cliOf(order({}), "web")).not.toContain(flag);
});
