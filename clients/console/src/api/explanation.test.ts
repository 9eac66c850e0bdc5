import { expect, it } from "vitest";
import { queryOf } from "./explanation";

it("b_57_an_explanation_is_asked_of_all_that_was_chosen", () => {
  const anywhere = { region_code: "a", sku: "s", gpu_count: 2 };
  const said = (asked: Parameters<typeof queryOf>[0]) => Object.fromEntries(Object.entries(queryOf(asked)).filter(([, value]) => value !== undefined));
  expect(said(anywhere)).toEqual(anywhere);
  const chosen = { image_digest: "sha256:a", placement: { same_node_as: "i", spread_from: ["j", "k"], require_prewarmed: true } };
  expect(said({ ...anywhere, ...chosen })).toEqual({
    ...anywhere,
    image_digest: "sha256:a",
    "placement.same_node_as": "i",
    "placement.spread_from": ["j", "k"],
    "placement.require_prewarmed": true,
  });
  expect(said({ ...anywhere, placement: { same_node_as_label: "app=web", spread_from_label: "app=db" } })).toEqual({
    ...anywhere,
    "placement.same_node_as_label": "app=web",
    "placement.spread_from_label": "app=db",
  });
});
