import { describe, expect, it } from "vitest";
import { ownOf } from "../../api/grants";
import { chosen, permissionWord } from "./grants";

describe("access to allocations", () => {
  it("names what a grant is for", () => {
    expect(["terminal", "serial_log", "flying", undefined].map(permissionWord)).toEqual(["Terminal", "Serial log", "–", "–"]);
  });

  it("who reads no allocations finds those of its own grants, each once", () => {
    const grant = (allocation_id: string, principal: string, permission: "terminal" | "serial_log") => ({ allocation_id, principal, permission });
    const grants = [grant("a", "user:bill", "terminal"), grant("a", "user:bill", "serial_log"), grant("b", "user:vera", "terminal"), grant("c", "user:bill", "terminal")];
    expect(ownOf(grants, "user:bill")).toEqual(["a", "c"]);
    expect(ownOf(grants, undefined)).toEqual([]);
  });

  it("takes the first until something is chosen that is there", () => {
    const options: [string, string][] = [
      ["a", "A"],
      ["b", "B"],
    ];
    expect([chosen(options, ""), chosen(options, "b"), chosen(options, "gone"), chosen([], "a")]).toEqual(["a", "b", "a", ""]);
  });
});
