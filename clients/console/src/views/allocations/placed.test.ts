import { expect, it } from "vitest";
import { placedWords } from "./placed";

it("con_10_where_an_allocation_was_asked_to_run_is_said_in_words", () => {
  expect([placedWords(undefined), placedWords({}), placedWords({ anti_affinity: [] })]).toEqual([undefined, undefined, undefined]);
  expect(placedWords({ affinity: "1", anti_affinity: ["2", "3"], require_prewarmed: true })).toBe("beside 1, apart from 2 and 3, where its image is cached");
  expect(placedWords({ affinity_label: "app=db", anti_affinity_label: "app=web" })).toBe("beside app=db, apart from app=web");
});
