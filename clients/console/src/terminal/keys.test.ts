import { expect, it } from "vitest";
import { SIZES, controlOf, stepped } from "./keys";

it("Ctrl changes single letters only", () => {
  expect(controlOf("c")).toBe("\x03");
  expect(controlOf("D")).toBe("\x04");
  expect(controlOf("[")).toBe("\x1b");
  expect(controlOf(" ")).toBe("\0");
  for (const same of ["1", "é", "paste", "\r"]) expect(controlOf(same)).toBe(same);
});

it("letters grow and shrink within limits", () => {
  expect(stepped(13.5, 1)).toBe(14.5);
  expect(stepped(SIZES.most, 1)).toBe(SIZES.most);
  expect(stepped(SIZES.least, -1)).toBe(SIZES.least);
});
