import { expect, it } from "vitest";
import { queryOf } from "./explanation";

it("b_57_an_explanation_is_asked_of_all_that_was_chosen", () => {
  const anywhere = { region_code: "a", sku: "s", gpu_count: 2 };
  const said = (asked: Parameters<typeof queryOf>[0]) => Object.fromEntries(Object.entries(queryOf(asked)).filter(([, value]) => value !== undefined));
  expect(said(anywhere)).toEqual(anywhere);
  const chosen = { image_digest: "sha256:a", placement: { affinity: "i", anti_affinity: ["j", "k"], require_prewarmed: true } };
  expect(said({ ...anywhere, ...chosen })).toEqual({
    ...anywhere,
    image_digest: "sha256:a",
    "placement.affinity": "i",
    "placement.anti_affinity": ["j", "k"],
    "placement.require_prewarmed": true,
  });
  expect(said({ ...anywhere, placement: { affinity_label: "app=web", anti_affinity_label: "app=db" } })).toEqual({
    ...anywhere,
    "placement.affinity_label": "app=web",
    "placement.anti_affinity_label": "app=db",
  });
});
