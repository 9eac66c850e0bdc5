import { expect, it } from "vitest";
import { nameOf } from "./allocation-name";

it("an allocation is called by its display name, otherwise by its name", () => {
  expect(nameOf({ id: "a", display_name: "Run 7", config: { name: "web" } })).toBe("Run 7");
  expect(nameOf({ id: "a", display_name: "", config: { name: "web" } })).toBe("web");
  expect(nameOf({ id: "a" })).toBe("a");
});
