import { expect, it } from "vitest";
import { nameOf, nameProblem } from "./rename";

it("an allocation is called by its display name, otherwise by its name", () => {
  expect(nameOf({ id: "a", display_name: "Run 7", config: { name: "web" } })).toBe("Run 7");
  expect(nameOf({ id: "a", display_name: "", config: { name: "web" } })).toBe("web");
  expect(nameOf({ id: "a" })).toBe("a");
});

it("a display name has at most 200 characters", () => {
  expect(nameProblem("x".repeat(200))).toBeUndefined();
  expect(nameProblem("x".repeat(201))).toBeDefined();
});
