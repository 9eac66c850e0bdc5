import { expect, it } from "vitest";
import { countOf, countsOf, isSlug, slugProblem } from "./parts";

it("counts are whole numbers, each once", () => {
  expect(countsOf("4, 1 2,2")).toEqual([1, 2, 4]);
  for (const wrong of ["", "1, x", "0", "1.5"]) expect(countsOf(wrong)).toBeUndefined();
  expect(countOf("0", 0)).toBe(0);
  expect(countOf("-1", 0)).toBeUndefined();
});

it("a code is a slug", () => {
  expect(isSlug("eu-west.1")).toBe(true);
  for (const wrong of ["", "EU", "a b", "-a", "a/b"]) expect(isSlug(wrong)).toBe(false);
  expect(slugProblem("")).toBeUndefined();
  expect(slugProblem("EU")).toBeDefined();
});
