import { expect, it } from "vitest";
import { outcomeOf } from "./evacuation";

it("b_49 an evacuated allocation has its place, or why it has none", () => {
  expect(outcomeOf({ place: { hostname: "h2", slot_indexes: [4, 5] } })).toBe("h2, slots 4, 5");
  expect(outcomeOf({ place: { hostname: "h2", slot_indexes: [] } })).toBe("h2, the whole node");
  expect(outcomeOf({ allocation: { state: "releasing" } })).toBe("Ends by itself");
  expect(outcomeOf({ reasons: [{ message: "All are in use." }, { message: "One is kept." }] })).toBe("Nowhere. All are in use. One is kept.");
});
