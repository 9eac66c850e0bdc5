import { expect, it } from "vitest";
import { draftOf, inOrder, isChanged, issuerProblem, lastCall, projectFor } from "./scim-rules";

it("the settings are sent when they say another thing, and an issuer is a URL", () => {
  const settings = { issuer: "https://login.example.com", subject_attribute: "external_id" as const };
  const draft = draftOf(settings);
  expect(draft).toEqual({ issuer: "https://login.example.com", subject: "external_id" });
  expect(isChanged(settings, draft)).toBe(false);
  expect(isChanged(settings, { ...draft, subject: "user_name" })).toBe(true);
  expect(isChanged(settings, { ...draft, issuer: "https://other.example.com" })).toBe(true);
  expect(isChanged(settings, { ...draft, issuer: "login" })).toBe(false);
  expect(isChanged({}, draftOf({}))).toBe(false);
  expect([issuerProblem("login"), issuerProblem(""), issuerProblem("https://a.example")]).toEqual(["The issuer is a URL, exactly as in its tokens.", undefined, undefined]);
});

it("keys that are good come first, and the last call is the latest of any key", () => {
  const now = Date.parse("2026-11-01T00:00:00Z");
  const key = (id: string, change: object) => ({ api_key: { id, create_time: "2026-01-01T00:00:00Z", ...change } });
  const keys = [key("disabled", { disable_time: "2026-10-01T00:00:00Z", last_used_time: "2026-10-30T00:00:00Z" }), key("old", { last_used_time: "2026-10-02T00:00:00Z" }), key("new", { create_time: "2026-05-01T00:00:00Z" })];
  expect(inOrder(keys, now).map((one) => one.api_key?.id)).toEqual(["new", "old", "disabled"]);
  const ofDisabledAccount = { ...key("of a disabled account", { create_time: "2026-09-01T00:00:00Z" }), account_disabled: true };
  expect(inOrder([ofDisabledAccount, ...keys], now)[0]?.api_key?.id).toBe("new");
  expect(lastCall(keys)).toBe("2026-10-30T00:00:00Z");
  expect(lastCall(keys.slice(2))).toBeUndefined();
});

it("a key is made where there is one already, unless another project is chosen or that one is closed", () => {
  const projects = [{ id: "a" }, { id: "b" }, { id: "c" }];
  expect(projectFor([], projects, "")).toBe("a");
  expect(projectFor([{ project_id: "closed" }, { project_id: "b" }], projects, "")).toBe("b");
  expect(projectFor([{ project_id: "b" }], projects, "c")).toBe("c");
  expect(projectFor([], [], "")).toBe("");
});
