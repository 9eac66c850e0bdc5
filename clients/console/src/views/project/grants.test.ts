import { describe, expect, it } from "vitest";
import { chosen, permissionWord } from "./grants";

describe("access to allocations", () => {
  it("names what a grant is for", () => {
    expect(["terminal", "serial_log", "flying", undefined].map(permissionWord)).toEqual(["Terminal", "Serial log", "–", "–"]);
  });

  it("takes the first until something is chosen that is there", () => {
    const options: [string, string][] = [
      ["a", "A"],
      ["b", "B"],
    ];
    expect([chosen(options, ""), chosen(options, "b"), chosen(options, "gone"), chosen([], "a")]).toEqual(["a", "b", "a", ""]);
  });
});
