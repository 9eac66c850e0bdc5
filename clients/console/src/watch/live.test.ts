import { expect, it } from "vitest";
import { Problem } from "../api/problem";
import { isTold } from "./live";

it("a refusal that the watch shows is not shown a second time for another call of the page", () => {
  const refusal = (reason: string, status = 403) => new Problem({ status, message: "no", reason });
  const watched = { status: "refused" as const, problem: refusal("PERMISSION_DENIED") };
  expect(isTold(watched, refusal("PERMISSION_DENIED"))).toBe(true);
  expect(isTold(watched, refusal("OVERLOADED", 503))).toBe(false);
  expect(isTold({ ...watched, status: "live" }, refusal("PERMISSION_DENIED"))).toBe(false);
});
