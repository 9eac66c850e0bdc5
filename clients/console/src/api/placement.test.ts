import { expect, it } from "vitest";
import { placementVerbs } from "./placement";

it.each([
  [undefined, []],
  [{ admin_state: "enabled" }, ["cordon", "drain"]],
  [{ admin_state: "cordoned" }, ["drain", "uncordon"]],
  [{ admin_state: "draining", drained: false }, ["uncordon"]],
  [{ admin_state: "draining", drained: true }, ["startMaintenance", "uncordon"]],
  [{ admin_state: "maintenance" }, ["uncordon"]],
  [{ admin_state: "broken" }, []],
  [{ admin_state: "retired" }, []],
] as const)("a node that is %o can be asked to %o", (placement, verbs) => {
  expect(placementVerbs(placement)).toEqual(verbs);
});
