import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import { signInAs } from "../session/fixture";
import { Bulk, Chooser, runEach, shownFailures } from "./bulk";

it("each is asked for on its own, and those that are refused are shown with what was said", async () => {
  const asked: string[] = [];
  const run = async (one: string) => {
    asked.push(one);
    if (one === "b") throw new Error("no");
  };
  expect(await runEach(["a", "b", "c"], run)).toEqual([{ one: "b", error: new Error("no") }]);
  expect(asked).toEqual(["a", "b", "c"]);
});

it("failures are shown until another choice is made, and not shorter", () => {
  const failed = [{ one: "b", error: new Error("no") }, { one: "c", error: new Error("no") }];
  const shown = (...chosen: string[]) => shownFailures(failed, new Set(chosen), (one) => one);
  expect(shown("c", "b")).toBe(failed);
  for (const chosen of [[], ["b"], ["b", "c", "d"], ["b", "d"]]) expect(shown(...chosen)).toEqual([]);
  // the same array, or the view would never come to rest
  const none: typeof failed = [];
  expect(shownFailures(none, new Set("a"), (one) => one)).toBe(none);
});

const bar = (selected: string[]) =>
  renderToStaticMarkup(
    <Bulk
      label="Selected nodes"
      noun="node"
      needs="operate"
      selected={selected}
      chosen={new Set(selected)}
      id={(one) => one}
      name={(one) => one}
      keep={() => undefined}
      after={() => undefined}
      actions={[
        { word: "Cordon", open: selected, text: "Cordons them.", run: () => Promise.resolve() },
        { word: "Uncordon", open: [], text: "Uncordons them.", run: () => Promise.resolve() },
      ]}
    />,
  );

it("an action says to how many it applies, and is off where it applies to none", () => {
  signInAs("operator");
  const text = bar(["gpu-01", "gpu-02"]);
  expect(text).toContain('role="group" aria-label="Selected nodes"');
  expect(text).toContain("2 selected");
  expect(text).toMatch(/Cordon 2<\/button>/);
  expect(text).toMatch(/disabled=""[^>]*>Uncordon /);
  expect(bar([])).toBe("");
});

it("who only reads is offered nothing", () => {
  signInAs("auditor");
  expect(bar(["gpu-01"])).toBe("");
  expect(renderToStaticMarkup(<Chooser name="gpu-01" checked choose={() => undefined} />)).toContain('aria-label="Select gpu-01" checked=""');
});
