import { expect, it } from "vitest";
import { callerOf } from "./caller";
import { type PlatformRole, type Right, may } from "./rights";

const RIGHTS: Right[] = ["read", "operate", "manage"];
const rightsOf = (platform_role?: PlatformRole) => RIGHTS.filter((right) => may(callerOf({ principal: "user:a", platform_role }).platformRole, right));

it("the owner of a pasted token has the role that the server says, with its projects", () => {
  const projects = [{ id: "p1", slug: "ml", role: "viewer" as const, organisation_id: "o1", organisation: "acme" }];
  const organisations = [{ id: "o1", slug: "acme", role: "owner" as const }];
  expect(callerOf({ principal: "user:a", projects, organisations })).toEqual({ principal: "user:a", platformRole: "unspecified", projects, organisations });
  expect(callerOf({ principal: "user:b", platform_role: "operator" })).toEqual({ principal: "user:b", platformRole: "operator", projects: [], organisations: [] });
  expect(callerOf({ principal: "user:c", projects: [{ id: "p2", slug: "x" }] }).projects).toEqual([{ id: "p2", slug: "x", role: "unspecified" }]);
});

it("auditors read the platform, operators run it, administrators manage it, and nobody else sees it", () => {
  expect(rightsOf()).toEqual([]);
  expect(rightsOf("unspecified")).toEqual([]);
  expect(rightsOf("auditor")).toEqual(["read"]);
  expect(rightsOf("operator")).toEqual(["read", "operate"]);
  expect(rightsOf("admin")).toEqual(["read", "operate", "manage"]);
  expect(rightsOf("of a later server" as PlatformRole)).toEqual([]);
});
