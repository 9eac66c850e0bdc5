import { expect, it } from "vitest";
import { callerOf } from "./caller";

it("only the role makes an administrator of the owner of a pasted token", () => {
  const projects = [{ id: "p1", slug: "ml" }];
  expect(callerOf({ principal: "user:a", projects })).toEqual({ principal: "user:a", admin: false, projects });
  expect(callerOf({ principal: "user:b", roles: ["platform_admin"] })).toEqual({ principal: "user:b", admin: true, projects: [] });
  expect(callerOf({ roles: ["unspecified"] }).admin).toBe(false);
});
