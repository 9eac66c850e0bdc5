import { expect, it } from "vitest";
import { keyNameProblem, nameFrom } from "./names";

it("a name is made from the comment", () => {
  expect(nameFrom("ssh-ed25519 AAAA alice@laptop")).toBe("alice-laptop");
  expect(nameFrom("ssh-ed25519 AAAA _ my key!")).toBe("my-key");
  expect(nameFrom("ssh-ed25519 AAAA")).toBe("");
});

it("a name has no spaces and begins with a letter or digit", () => {
  expect(keyNameProblem("laptop_1.home")).toBeUndefined();
  for (const wrong of ["", "-a", "a b", "ä", "x".repeat(64)]) expect(keyNameProblem(wrong)).toBeDefined();
});
