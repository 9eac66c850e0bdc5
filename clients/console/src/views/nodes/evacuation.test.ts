import { expect, it } from "vitest";
import { outcomeOf } from "./evacuation";

it("b_49 an evacuated allocation has its planned placement, or the reasons against it", () => {
  expect(outcomeOf({ placement: { hostname: "h2", slot_indexes: [4, 5] } })).toBe("h2, slots 4, 5");
  expect(outcomeOf({ placement: { hostname: "h2", slot_indexes: [] } })).toBe("h2, bare metal");
  expect(outcomeOf({ allocation: { state: "releasing" } })).toBe("Being released");
  expect(outcomeOf({ reasons: [{ message: "2 GPUs are in use on 1 node." }, { message: "1 GPU is reserved for others on 1 node." }] })).toBe("Does not fit elsewhere. 2 GPUs are in use on 1 node. 1 GPU is reserved for others on 1 node.");
});
