import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import type { NodePlacement } from "../../api/types";
import { isReady } from "../../ui/bulk";
import { nodeActions } from "./bulk";

it("to uncordon several nodes needs no reason, as with one, and to cordon or drain them does", async () => {
  const placements = new Map<string, NodePlacement>([["n1", { node_id: "n1", admin_state: "cordoned" }]]);
  const asked: unknown[] = [];
  const actions = nodeActions([{ id: "n1" }], placements, async (...all) => asked.push(all));
  const of = (word: string) => actions.find((action) => action.word === word)!;
  const label = (word: string) => /<label[^>]*>([^<]*)/.exec(renderToStaticMarkup(<>{of(word).reason?.("", () => undefined)}</>))?.[1];
  for (const word of ["Cordon", "Drain"]) {
    expect([label(word), isReady(of(word), " "), isReady(of(word), "why")]).toEqual(["Reason", false, true]);
  }
  expect([label("Uncordon"), isReady(of("Uncordon"), "")]).toEqual(["Reason (optional)", true]);
  for (const one of of("Uncordon").open) await of("Uncordon").run(one, "");
  expect(asked).toEqual([["n1", "uncordon", ""]]);
  expect(isReady({}, ""), "an action that takes no reason").toBe(true);
});
