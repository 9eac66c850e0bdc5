import { expect, it } from "vitest";
import { bandwidthText, countOf, countsOf, isSlug, limitOf, slugProblem } from "./parts";

it("counts are whole numbers, each once", () => {
  expect(countsOf("4, 1 2,2")).toEqual([1, 2, 4]);
  for (const wrong of ["", "1, x", "0", "1.5"]) expect(countsOf(wrong)).toBeUndefined();
  expect(countOf("0", 0)).toBe(0);
  expect(countOf("-1", 0)).toBeUndefined();
});

it("a limit may be left out, and is a number otherwise", () => {
  expect(limitOf(" ")).toEqual({});
  expect(limitOf("2500")).toEqual({ limit: 2500 });
  for (const wrong of ["0", "x", "-1"]) expect(limitOf(wrong).problem).toBeDefined();
  expect(bandwidthText({})).toBeUndefined();
  expect(bandwidthText({ network_mbps: 10_000 })).toBe("10 Gbit/s");
  expect(bandwidthText({ network_mbps: 2500 })).toBe("2500 Mbit/s");
});

it("a code is a slug", () => {
  expect(isSlug("eu-west.1")).toBe(true);
  for (const wrong of ["", "EU", "a b", "-a", "a/b"]) expect(isSlug(wrong)).toBe(false);
  expect(slugProblem("")).toBeUndefined();
  expect(slugProblem("EU")).toBeDefined();
});
