import { expect, test } from "vitest";
import { changeOf, daysProblem, draftOf, namesProblem, wordsOf } from "./guardrail-rules";

const SET = { terminals_disabled: true, max_api_key_days: 30, allowed_regions: ["eu-1", "us-1"], etag: "3" };

test("a form that was not touched changes nothing", () => {
  expect(changeOf(SET, draftOf(SET))).toEqual({});
  expect(changeOf({}, draftOf({}))).toEqual({});
});

test("only what differs is sent, and what is emptied is lifted", () => {
  const draft = draftOf(SET);
  expect(changeOf(SET, { ...draft, on: { ...draft.on, terminals_disabled: false, webhooks_disabled: true }, days: "", regions: " us-1,eu-1, ", skus: "h200-slice" })).toEqual({
    terminals_disabled: false,
    webhooks_disabled: true,
    max_api_key_days: 0,
    allowed_skus: { names: ["h200-slice"] },
  });
  expect(changeOf(SET, { ...draft, regions: "" })).toEqual({ allowed_regions: { names: [] } });
});

test("what cannot be is said before it is sent", () => {
  expect([daysProblem(""), daysProblem(" 30 "), daysProblem("3650")]).toEqual([undefined, undefined, undefined]);
  for (const bad of ["-1", "1.5", "many", "3651"]) expect(daysProblem(bad)).toContain("3650");
  expect(namesProblem("eu-1, us-1")).toBeUndefined();
  expect(namesProblem("eu-1, US")).toContain("US");
});

test("each guardrail is said in words", () => {
  const words = new Map(wordsOf(SET));
  expect(words.get("Terminals")).toBe("Forbidden");
  expect(words.get("Webhooks")).toBe("Allowed");
  expect(words.get("API keys expire after")).toBe("30 days");
  expect([words.get("Allowed regions"), words.get("Allowed SKUs")]).toEqual(["eu-1, us-1", "All"]);
});
