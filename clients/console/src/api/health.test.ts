import { expect, it } from "vitest";
import { healthFilter } from "./health";

it("health events are filtered by what they were and whether they last; break-fix is no fault", () => {
  expect(healthFilter({ kind: "", state: "" })).toBe("");
  expect(healthFilter({ kind: "failed", state: "open" })).toBe("health = failed AND NOT end_time:*");
  expect(healthFilter({ kind: "degraded", state: "resolved" })).toBe("health = degraded AND break_fix = false AND end_time:*");
  expect(healthFilter({ kind: "break_fix", state: "" })).toBe("break_fix = true");
});
