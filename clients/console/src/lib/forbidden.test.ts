import { expect, it } from "vitest";
import { organisationOf } from "../api/guardrails";
import { allowedOf, forbidden, forbiddenOf } from "./forbidden";

it("what a guardrail forbids is said in words, and what none does is not", () => {
  expect(forbidden({ terminals_disabled: true }, "terminals_disabled")).toBe("Your organisation does not allow terminals.");
  expect(forbidden({ terminals_disabled: true }, "webhooks_disabled")).toBeUndefined();
  expect(forbidden({ terminals_disabled: false }, "terminals_disabled")).toBeUndefined();
  expect(forbidden(undefined, "terminals_disabled")).toBeUndefined();
});

it("an empty list allows every region and SKU", () => {
  const guardrails = { allowed_regions: ["eu-1"], allowed_skus: [] };
  expect(forbiddenOf(guardrails, "region", "eu-1")).toBeUndefined();
  expect(forbiddenOf(guardrails, "region", "us-1")).toBe("Your organisation does not allow this region.");
  expect(forbiddenOf(guardrails, "SKU", "any")).toBeUndefined();
  expect(forbiddenOf({ allowed_skus: ["small"] }, "SKU", "big")).toBe("Your organisation does not allow this SKU.");
  expect(forbiddenOf(undefined, "region", "us-1")).toBeUndefined();
});

it("a form opens on what is allowed, and where nothing is it shows all", () => {
  const regions = [{ code: "us-1" }, { code: "eu-1" }];
  expect(allowedOf({ allowed_regions: ["eu-1"] }, "region", regions)).toEqual([{ code: "eu-1" }]);
  expect(allowedOf({ allowed_regions: ["ap-1"] }, "region", regions)).toEqual(regions);
  expect(allowedOf(undefined, "region", regions)).toEqual(regions);
});

it("the guardrails are those of the organisation of a project of one's own", () => {
  const session = { project: "q", projects: [{ id: "p", slug: "p", organisation_id: "o" }, { id: "q", slug: "q", organisation_id: "r" }, { id: "s", slug: "s" }] };
  expect(organisationOf(session)).toBe("r");
  expect(organisationOf(session, "p")).toBe("o");
  // nothing is known of one that an operator looks at, nor by a session of an earlier console
  expect([organisationOf(session, "foreign"), organisationOf(session, "s"), organisationOf(undefined)]).toEqual(["", "", ""]);
});
