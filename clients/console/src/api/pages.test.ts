import { expect, it } from "vitest";
import { imageFilter } from "./catalog";
import { type Page, everyPage, idsFilter, projectsFilter, textFilter, wordsFilter } from "./pages";

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

it("a search is a filter of the server, with what was typed as text", () => {
  const members = (search: string) => textFilter(["principal", "email"], search);
  expect(members(" ")).toBe("");
  expect(members(" Bob ")).toBe('(principal:"Bob" OR email:"Bob")');
  expect(members('a"b\\c')).toBe('(principal:"a\\"bc" OR email:"a\\"bc")');
});

it("images are searched and chosen by status at once", () => {
  expect(imageFilter("", "")).toBe("");
  expect(imageFilter("cuda", "")).toBe('(slug:"cuda" OR display_name:"cuda")');
  expect(imageFilter("", "disabled")).toBe("status = disabled");
  expect(imageFilter("cuda", "active")).toBe('(slug:"cuda" OR display_name:"cuda") AND status = active');
});

it("every word of a search has to match, in a text or as what it stands for", () => {
  expect(wordsFilter(["name"], "  ")).toBe("");
  expect(wordsFilter(["name", "sku"], ' a"  \\ b')).toBe('(name:"a\\"" OR sku:"a\\"") AND (name:"b" OR sku:"b")');
  const projects = Array.from({ length: 40 }, (_, number) => ({ id: `p${number}`, slug: `Team-${number}` }));
  // the API takes so many comparisons, and no more
  expect(wordsFilter(["name"], "team", (word) => projectsFilter(projects, word)).split(" OR ")).toHaveLength(7);
  expect(projectsFilter(projects, "TEAM-39")).toEqual(["project_id = p39"]);
  expect(idsFilter(["id"], "0193")).toEqual([]);
});
