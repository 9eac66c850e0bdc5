import { expect, it } from "vitest";
import { projectFlag } from "./equivalent";

it("a command names one of several projects by its slug, and by its id where another has the slug", () => {
  const [dev, other, ml] = [{ id: "1", slug: "dev" }, { id: "2", slug: "dev" }, { id: "3", slug: "ml" }];
  expect(projectFlag([dev], "1")).toBeUndefined();
  expect(projectFlag([dev, ml], "1")).toBe("dev");
  expect(projectFlag([dev, other, ml], "2")).toBe("2");
  expect(projectFlag([dev, ml])).toBeUndefined();
});
