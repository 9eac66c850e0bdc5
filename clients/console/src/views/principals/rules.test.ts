import { expect, it } from "vitest";
import { queryOf } from "../../api/principals";
import { isComplete, issuerProblem, principalNameProblem } from "./rules";

it("a name begins with user: and an issuer is an address", () => {
  expect(principalNameProblem("user:alice.b@example.com")).toBeUndefined();
  expect(principalNameProblem("alice")).toBeDefined();
  expect(principalNameProblem("user:a b")).toBeDefined();
  expect(issuerProblem("https://login.example.com")).toBeUndefined();
  expect(issuerProblem("login")).toBeDefined();
});

it("a principal is registered once name, issuer and subject are there", () => {
  const whole = { name: "user:a", issuer: "https://login.example.com", subject: "1" };
  expect(isComplete(whole)).toBe(true);
  for (const change of [{ name: "" }, { issuer: "" }, { subject: " " }]) expect(isComplete({ ...whole, ...change })).toBe(false);
});

it("what is not filtered is not asked for", () => {
  expect(queryOf({ search: " ", platform_role: "", state: "" })).toEqual({});
  expect(queryOf({ search: "ali ", platform_role: "admin", state: "enabled" })).toEqual({ filter: '(name:"ali" OR display_name:"ali" OR email:"ali")', platform_role: "admin", disabled: false });
});
