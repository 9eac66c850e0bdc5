import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import { FitNote, FitWord, PrewarmedChoice } from "./parts";

const message = "12 GPUs free on 9 nodes, none has 4 in one legal group.";
const fragmented = [{ reason: "FRAGMENTED", gpus: 12, nodes: 9, message }];

it("h_33_free_gpus_that_no_node_can_sell_together_are_explained", () => {
  const shown = renderToStaticMarkup(<FitNote fit={{ fits: 0, reasons: fragmented }} explanation={{ nodes: 9, nodes_fit: 0, removed: fragmented }} />);
  expect(shown).toContain("None fits now");
  expect(shown).toContain("Fits on 0 of 9 nodes here");
  // without a click, and once
  expect(shown).toContain("<details class=\"explanation\" open");
  expect(shown.split(message)).toHaveLength(2);
});

it("without an explanation the reasons of the availability are told, and none where it fits", () => {
  expect(renderToStaticMarkup(<FitNote fit={{ fits: 0, reasons: fragmented }} explanation={undefined} />)).toContain(message);
  expect(renderToStaticMarkup(<FitNote fit={{ fits: 2, reasons: fragmented }} explanation={undefined} />)).not.toContain(message);
});

it("of several it is told how many of them would fit", () => {
  expect(renderToStaticMarkup(<FitWord fit={{ fits: 1 }} count={2} />)).toContain("1 of 2 would fit now");
  expect(renderToStaticMarkup(<FitWord fit={{ fits: 2 }} count={2} />)).toContain("2 available");
});

it("con_10_only_where_the_image_is_cached_says_what_it_brings_and_what_it_costs", () => {
  const show = (chosen: boolean) => renderToStaticMarkup(<PrewarmedChoice chosen={chosen} choose={() => {}} />);
  for (const text of ["Only on nodes that have the image in their cache", "starts sooner", "fewer nodes qualify"]) expect(show(false)).toContain(text);
  expect([show(false), show(true)].map((shown) => shown.includes("checked"))).toEqual([false, true]);
});
