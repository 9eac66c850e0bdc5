import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import type { UnavailableReason } from "../../api/types";
import { FitNote, FitWord, type Judged, LeftOut, PrewarmedChoice, Why } from "./parts";

const message = "12 GPUs are free on 9 nodes, but no node has 4 that can be used together.";
const fragmented = [{ reason: "FRAGMENTED", gpus: 12, nodes: 9, message }];

it("h_33_fragmented_gpus_are_explained", () => {
  const shown = renderToStaticMarkup(<FitNote fit={{ fits: 0, reasons: fragmented }} explanation={{ nodes: 9, nodes_fit: 0, removed: fragmented }} />);
  expect(shown).toContain("None fits now");
  expect(shown).toContain("Fits on 0 of 9 nodes");
  // without a click, and once
  expect(shown).toContain("<details class=\"explanation\" open");
  expect(shown.split(message)).toHaveLength(2);
});

it("without an explanation it shows the reasons of the availability, and none where it fits", () => {
  expect(renderToStaticMarkup(<FitNote fit={{ fits: 0, reasons: fragmented }} explanation={undefined} />)).toContain(message);
  expect(renderToStaticMarkup(<FitNote fit={{ fits: 2, reasons: fragmented }} explanation={undefined} />)).not.toContain(message);
});

it("of several it shows how many fit", () => {
  expect(renderToStaticMarkup(<FitWord capacity={1} count={2} />)).toContain("1 of 2 fit now");
  expect(renderToStaticMarkup(<FitWord capacity={2} count={2} />)).toContain("2 available");
});

it("h_33_what_goes_to_queued_requests_is_not_called_available_and_the_way_out_is_named", () => {
  const ahead = { reason: "QUEUED_AHEAD", gpus: 1, nodes: 1, message: "1 GPU on 1 node goes to requests ahead in the queue." };
  const show = (nodes_fit: number, ways: string[]) =>
    renderToStaticMarkup(<FitNote fit={{ fits: 1 }} explanation={{ nodes: 1, nodes_fit, removed: nodes_fit ? [] : [ahead] }} ways={ways} />);
  const shown = show(0, ["select this", "ask for fewer GPUs"]);
  for (const text of ["None fits now", "Fits on 0 of 1 node", ahead.message, "Select this or ask for fewer GPUs."]) expect(shown).toContain(text);
  expect(shown).not.toContain("available");
  expect(show(1, ["select this"])).toContain("1 available");
  expect(show(1, ["select this"])).not.toContain("Select this");
  expect(show(0, [])).not.toContain("field-hint");
});

it("h_33_where_no_node_has_gpus_of_the_class_no_node_is_counted", () => {
  const text = "No node in lab-1 offers lab-slice.";
  const show = (removed: UnavailableReason[], nodes = 0) => renderToStaticMarkup(<FitNote fit={{ fits: 0 }} explanation={{ nodes, nodes_fit: 0, removed }} />);
  const reported = show([{ reason: "NO_CAPACITY", message: text, nodes: 0, gpus: 0 }]);
  expect(reported).toContain(`<li>${text}</li>`);
  expect(show([])).toContain("No node in this region has GPUs of this class.");
  for (const shown of [reported, show([]), show([], 1)]) {
    expect(shown).toContain("None fits now");
    expect(shown).not.toContain("All nodes qualify");
  }
  for (const shown of [reported, show([])]) expect(shown).not.toContain("Fits on");
  // nor in the table below a refusal
  expect(renderToStaticMarkup(<Why explanation={{ nodes: 0, removed: [{ reason: "NO_CAPACITY", message: text }] }} />)).toBe("");
});

it("several that the server would launch despite a queue are not called too many", () => {
  const line = { nodes: 2, nodes_fit: 1, removed: [{ reason: "QUEUED_AHEAD", message: "One waits." }] };
  const show = (judged: Judged | undefined) => renderToStaticMarkup(<FitNote fit={{ fits: 8 }} count={2} explanation={line} judged={judged} ways={["select this"]} />);
  for (const text of ["1 of 2 fit now", "Select this."]) expect(show(undefined)).toContain(text);
  expect(show({ fits: true })).toContain("2 available");
});

it("con_10_only_where_the_image_is_cached_says_what_it_brings_and_what_it_costs", () => {
  const show = (chosen: boolean) => renderToStaticMarkup(<PrewarmedChoice chosen={chosen} choose={() => {}} />);
  for (const text of ["Only on nodes with the image cached", "Starts faster", "Fewer nodes qualify"]) expect(show(false)).toContain(text);
  expect([show(false), show(true)].map((shown) => shown.includes("checked"))).toEqual([false, true]);
});

it("con_10_the_fit_is_counted_with_the_placement_constraint_or_marked_as_without", () => {
  const anywhere = { nodes: 9, nodes_fit: 9 };
  const show = (constrained: boolean, judged: Judged | undefined, count = 1) =>
    renderToStaticMarkup(<FitNote fit={{ fits: 12 }} count={count} explanation={anywhere} judged={judged} constrained={constrained} />);
  const here = { nodes: 9, nodes_fit: 1, removed: [{ reason: "AFFINITY", message: "88 GPUs on 8 nodes are excluded by the placement constraints." }] };
  const chosen = show(true, { fits: true, placement: here });
  for (const text of ["Fits with the placement constraint", "Fits on 1 of 9 nodes", "88 GPUs on 8 nodes"]) expect(chosen).toContain(text);
  expect(chosen).not.toContain("12 available");
  // one that may wait is judged, too, when it does not fit now
  const waits = show(true, { fits: false, placement: { nodes: 9, nodes_fit: 0 } });
  for (const text of ["Does not fit now with the placement constraint", "Fits on 0 of 9 nodes"]) expect(waits).toContain(text);
  expect(show(true, { fits: true }, 2)).toContain("All 2 fit with the placement constraint");
  expect(show(true, { fits: true }, 2)).not.toContain("of 9 nodes");
  const unknown = show(true, undefined);
  for (const text of ["12 available", "Fits on 9 of 9 nodes", "Counted without the placement constraint"]) expect(unknown).toContain(text);
  const free = show(false, { fits: true, placement: here });
  for (const text of ["12 available", "Fits on 9 of 9 nodes"]) expect(free).toContain(text);
  expect(free).not.toContain("Counted without");
});

it("what is not copied from an earlier launch is listed", () => {
  expect(renderToStaticMarkup(<LeftOut left={[]} name="web" />)).toBe("");
  const shown = renderToStaticMarkup(<LeftOut left={["One.", "Two."]} name="web" />);
  for (const text of ["Copied from web, except", "<li>One.</li>", "<li>Two.</li>"]) expect(shown).toContain(text);
});

it("b_57_the_unschedulable_reasons_of_a_refused_launch_are_listed_with_their_nodes", () => {
  const ruled = { reason: "AFFINITY", gpus: 64, nodes: 8, message: "64 GPUs on 8 nodes are excluded by the placement constraints." };
  const shown = renderToStaticMarkup(<Why explanation={{ nodes: 17, nodes_fit: 0, removed: [...fragmented, ruled] }} />);
  expect(shown).toContain("on 17 nodes");
  expect(shown).toContain('aria-label="Reasons why it does not fit"');
  for (const row of [`<td>${message}</td><td class="number">9</td>`, `<td>${ruled.message}</td><td class="number">8</td>`]) expect(shown).toContain(row);
  for (const nothing of [undefined, { nodes: 3, nodes_fit: 3, removed: [] }]) expect(renderToStaticMarkup(<Why explanation={nothing} />)).toBe("");
});
