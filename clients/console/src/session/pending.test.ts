import { expect, it } from "vitest";
import { ownPath } from "./pending";

it("a sign-in leads to a page of the console and nowhere else", () => {
  for (const own of ["/", "/allocations", "/allocations/1?tab=timeline"]) expect(ownPath(own)).toBe(own);
  for (const foreign of ["//evil.example", "/\\evil.example", "https://evil.example", "javascript:alert(1)", "", "/sign-in/callback?code=x"]) expect(ownPath(foreign)).toBe("/");
});
