import { expect, it } from "vitest";
import { namesOf, projectOf } from "./project-field";

it("a project is named by its name, or by its id where several have the name or none is known", () => {
  const names = namesOf([
    { id: "1", slug: "vision" },
    { id: "2", slug: "demo" },
    { id: "3", slug: "demo" },
    { id: "4", slug: "" },
  ]);
  expect([...names.values()]).toEqual(["vision", "2", "3", "4"]);
  expect(["vision", " vision ", "1", "2", "demo", "vis"].map((typed) => projectOf(typed, names))).toEqual(["1", "1", "1", "2", "demo", "vis"]);
});
