import { expect, it } from "vitest";
import { suspensionOf } from "./suspension";

const OWNER = { owner: true, admin: false };
const MEMBER = { owner: false, admin: false };
const ADMIN = { owner: false, admin: true };
const suspended = { slug: "vision", organisation: "acme", state: "suspended" as const, state_reason: "the budget is used" };
const acme = { slug: "acme", display_name: "Acme Research", state: "active" as const };

it("what an owner suspended, an owner resumes; others are told to ask one", () => {
  expect(suspensionOf(suspended, acme, OWNER)).toMatchObject({ reason: "the budget is used", resumable: true });
  expect(suspensionOf(suspended, acme, ADMIN)?.resumable).toBe(true);
  expect(suspensionOf(suspended, acme, MEMBER)).toMatchObject({ resumable: false, advice: "Owners of the project resume it. Ask one." });
});

it("what an administrator suspended, only an administrator resumes", () => {
  const by = { ...suspended, suspended_by_platform: true };
  expect(suspensionOf(by, acme, OWNER)).toMatchObject({ title: "An administrator of the platform suspended this project", resumable: false, advice: "Only an administrator of the platform resumes it. Ask one." });
  expect(suspensionOf(by, undefined, ADMIN)?.resumable).toBe(true);
});

it("nobody resumes a project of a suspended organisation: the organisation comes first, with its reason", () => {
  const unpaid = { ...acme, state: "suspended" as const, state_reason: "unpaid" };
  for (const reader of [OWNER, MEMBER, ADMIN]) expect(suspensionOf({ ...suspended, suspended_by_platform: true }, unpaid, reader)).toMatchObject({ title: "The organisation Acme Research is suspended", reason: "unpaid", resumable: false });
  expect(suspensionOf(suspended, unpaid, ADMIN)?.advice).toBe("Resume the organisation under Organisations.");
});

it("an active or a closed project is not suspended, whatever was before", () => {
  for (const state of ["active", "closed"] as const) expect(suspensionOf({ ...suspended, state }, acme, OWNER)).toBeUndefined();
});
