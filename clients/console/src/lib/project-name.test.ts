import { expect, it } from "vitest";
import { projectNames } from "./project-name";

it("a project is called by its slug, and by its organisation too where another has the same slug", () => {
  const names = projectNames([
    { id: "1", slug: "dev", organisation: "acme" },
    { id: "2", slug: "dev", organisation: "globex" },
    { id: "3", slug: "ml", organisation: "acme" },
    { id: "4", slug: "dev" },
  ]);
  expect([...names]).toEqual([["1", "acme/dev"], ["2", "globex/dev"], ["3", "ml"], ["4", "dev"]]);
});

it("the names of one list are counted once", () => {
  const projects = [{ id: "1", slug: "dev" }];
  expect(projectNames(projects)).toBe(projectNames(projects));
  expect(projectNames([...projects, { id: "2", slug: "dev", organisation: "acme" }])).not.toBe(projectNames(projects));
});
