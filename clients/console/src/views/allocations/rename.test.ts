import { expect, it } from "vitest";
import { nameProblem } from "./rename";

it("a display name has at most 200 characters", () => {
  expect(nameProblem("x".repeat(200))).toBeUndefined();
  expect(nameProblem("x".repeat(201))).toBeDefined();
});
