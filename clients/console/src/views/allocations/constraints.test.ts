import { expect, it } from "vitest";
import { constraintsText } from "./constraints";

it("con_10_the_placement_constraints_of_an_allocation_are_shown_as_text", () => {
  expect([constraintsText(undefined), constraintsText({}), constraintsText({ anti_affinity: [] })]).toEqual([undefined, undefined, undefined]);
  expect(constraintsText({ affinity: "1", anti_affinity: ["2", "3"], require_prewarmed: true })).toBe("affinity to 1, anti-affinity to 2 and 3, image cached");
  expect(constraintsText({ affinity_label: "app=db", anti_affinity_label: "app=web" })).toBe("affinity to app=db, anti-affinity to app=web");
});
