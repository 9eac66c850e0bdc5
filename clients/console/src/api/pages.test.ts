import { expect, it } from "vitest";
import { imageFilter } from "./catalog";
import { MOST_SEARCHED, type Page, everyFilter, everyPage, namedProjects, projectsFilter, textFilter, wordsFilter } from "./pages";

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

it("a long text is searched by its beginning, which the API takes however it is quoted", () => {
  const long = "x".repeat(MOST_SEARCHED);
  expect(textFilter(["url"], `${long}y`)).toBe(`(url:"${long}")`);
  for (const text of ['"', "😀", "x"]) {
    const filter = everyFilter(textFilter(["principal", "display_name", "description"], text.repeat(600)), "status = disabled");
    expect([...filter].length).toBeLessThanOrEqual(1000);
    expect(() => encodeURIComponent(filter)).not.toThrow();
  }
});

it("images are searched and chosen by status at once", () => {
  expect(imageFilter("", "")).toBe("");
  expect(imageFilter("cuda", "")).toBe('(slug:"cuda" OR display_name:"cuda")');
  expect(imageFilter("", "disabled")).toBe("status = disabled");
  expect(imageFilter("cuda", "active")).toBe('(slug:"cuda" OR display_name:"cuda") AND status = active');
});

it("every word of a search has to match, in a text or as what it stands for", () => {
  expect(wordsFilter(["name"], "  \\ ")).toEqual({ filter: "", cut: "" });
  expect(wordsFilter(["name", "sku"], ' a"  \\ b a"', { rest: ["", "state = active"] })).toEqual({ filter: '(name:"a\\"" OR sku:"a\\"") AND (name:"b" OR sku:"b") AND state = active', cut: "" });
  const id = "01930001-0000-7000-8000-000000000001";
  expect(wordsFilter(["name"], `0193 ${id}`, { ids: ["id", "node_id"] }).filter).toBe(`(name:"0193") AND (name:"${id}" OR id = ${id} OR node_id = ${id})`);
  expect(projectsFilter([{ id: "p", slug: "Team-39" }], "TEAM-3")).toEqual(["project_id = p"]);
  const shown = [{ id: "p", slug: "vis-2", display_name: "Vision Models" }, { id: "q", slug: "models" }, { id: "r", slug: "r", display_name: "Research" }];
  expect(projectsFilter(shown, "MODELS")).toEqual(["project_id = p", "project_id = q"]);
});

const LONG = "01930001-0000-7000-8000-0000000000";
const team = (count: number) => namedProjects(Array.from({ length: count }, (_, number) => ({ id: `${LONG}${String(number).padStart(2, "0")}`, slug: `Team-${number}` })));
const comparisons = (filter: string) => filter.split(/ OR | AND /).length;

it("a filter takes as much of a search as the API does, and what it does not is said", () => {
  const fields = ["name", "display_name", "sku", "image", "creator"];
  const seven = wordsFilter(fields, "a b c d e f g", { rest: ["state = active"] });
  expect([comparisons(seven.filter), seven.cut]).toEqual([31, "Only the first 6 words are searched. Use fewer."]);
  const all = wordsFilter(["name"], "team", { named: team(17) });
  expect([comparisons(all.filter), all.cut]).toEqual([18, ""]);
  const part = wordsFilter(["name"], "team", { named: team(40) });
  expect([comparisons(part.filter), part.cut]).toEqual([19, "Only the first 18 of 40 projects with “team” in their name are searched. Write more of the name."]);
  // each word has its part
  const two = wordsFilter(["name"], "team tea", { named: team(40) });
  expect(two.filter.split(" AND ").map(comparisons)).toEqual([10, 10]);
  expect(two.cut).toContain("Only the first 9 of 40 projects with “tea” in their name");
  const short = namedProjects(Array.from({ length: 60 }, (_, number) => ({ id: `${number}`, slug: "team" })));
  for (const [rest, most] of [[[], 32], [["a = 1", "b = 2"], 32]] as [string[], number][]) expect(comparisons(wordsFilter(["name"], "team", { named: short, rest }).filter)).toBe(most);
  expect(wordsFilter(fields, "x".repeat(300))).toEqual({ filter: "", cut: "This search is too long to be applied. Shorten it." });
});

it("no filter is longer than the API takes", () => {
  for (const word of ["t", "team", "te\"am", "t".repeat(90)]) {
    for (let count = 1; count < 40; count++) {
      for (const rest of [[], ["state = active", "unused_gpus > 0"]]) {
        const search = Array.from({ length: count }, (_, number) => `${word}${count > 1 ? number : ""}`).join(" ");
        const { filter } = wordsFilter(["name", "sku"], search, { ids: ["id"], named: team(count), rest });
        expect([filter.length <= 1000, comparisons(filter) <= 32]).toEqual([true, true]);
      }
    }
  }
});
