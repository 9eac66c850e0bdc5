import { expect, it } from "vitest";
import { type Page, everyPage } from "./pages";
import { memberFilter } from "./tenancy";

it("all pages of a list are read, each with the token of the one before", async () => {
  const asked: string[] = [];
  const pages: Record<string, Page<number>> = { "": { items: [1, 2], next: "a" }, a: { items: [3], next: "b" }, b: { items: [], next: "" } };
  const load = (token: string) => {
    asked.push(token);
    return Promise.resolve(pages[token]!);
  };
  expect(await everyPage(load)).toEqual([1, 2, 3]);
  expect(asked).toEqual(["", "a", "b"]);
});

it("a search for members is a filter of the server, with what was typed as text", () => {
  expect(memberFilter(" ")).toBe("");
  expect(memberFilter(" Bob ")).toBe('(principal:"Bob" OR display_name:"Bob" OR email:"Bob")');
  expect(memberFilter('a"b\\c')).toBe('(principal:"a\\"bc" OR display_name:"a\\"bc" OR email:"a\\"bc")');
});
