import { expect, it } from "vitest";
import { placedWords } from "./placed";

it("con_10_where_an_allocation_was_asked_to_run_is_said_in_words", () => {
  expect([placedWords(undefined), placedWords({}), placedWords({ spread_from: [] })]).toEqual([undefined, undefined, undefined]);
  expect(placedWords({ same_node_as: "1", spread_from: ["2", "3"], require_prewarmed: true })).toBe("beside 1, apart from 2 and 3, where its image is cached");
  expect(placedWords({ same_node_as_label: "app=db", spread_from_label: "app=web" })).toBe("beside app=db, apart from app=web");
});
