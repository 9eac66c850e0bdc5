import { expect, it } from "vitest";
import { isOneOfSeveral } from "./members";

it("who looks at the list is not changed with others, nor is who has a role by a group", () => {
  expect(isOneOfSeveral({ principal: "user:bob" }, "user:ann")).toBe(true);
  expect(isOneOfSeveral({ principal: "user:ann" }, "user:ann")).toBe(false);
  expect(isOneOfSeveral({ principal: "user:bob", scim: true }, "user:ann")).toBe(false);
});
