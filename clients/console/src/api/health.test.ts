import { expect, it } from "vitest";
import { healthFilter } from "./health";

it("health events are filtered by what they were and whether they last; repairs by hand are no faults", () => {
  expect(healthFilter({ kind: "", state: "" })).toBe("");
  expect(healthFilter({ kind: "failed", state: "open" })).toBe("health = failed AND NOT end_time:*");
  expect(healthFilter({ kind: "degraded", state: "resolved" })).toBe("health = degraded AND repair = false AND end_time:*");
  expect(healthFilter({ kind: "repair", state: "" })).toBe("repair = true");
});
