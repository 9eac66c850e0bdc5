import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import type { UnavailableReason } from "../../api/types";
import { FitNote, FitWord, type Judged, LeftOut, PrewarmedChoice, Why } from "./parts";

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
  expect(renderToStaticMarkup(<FitWord room={1} count={2} />)).toContain("1 of 2 would fit now");
  expect(renderToStaticMarkup(<FitWord room={2} count={2} />)).toContain("2 available");
});

it("h_33_what_goes_to_those_in_line_is_not_called_available_and_the_way_out_is_named", () => {
  const ahead = { reason: "WAITING_AHEAD", gpus: 1, nodes: 1, message: "1 GPU on 1 node goes to requests that wait in line." };
  const show = (nodes_fit: number, ways: string[]) =>
    renderToStaticMarkup(<FitNote fit={{ fits: 1 }} explanation={{ nodes: 1, nodes_fit, removed: nodes_fit ? [] : [ahead] }} ways={ways} />);
  const shown = show(0, ["tick this", "ask for fewer GPUs"]);
  for (const text of ["None fits now", "Fits on 0 of 1 node here", ahead.message, "Tick this or ask for fewer GPUs."]) expect(shown).toContain(text);
  expect(shown).not.toContain("available");
  expect(show(1, ["tick this"])).toContain("1 available");
  expect(show(1, ["tick this"])).not.toContain("Tick this");
  expect(show(0, [])).not.toContain("field-hint");
});

it("h_33_where_no_node_has_gpus_of_the_kind_that_is_said_and_no_node_is_counted", () => {
  const text = "No node of lab-1 has GPUs of this kind.";
  const show = (removed: UnavailableReason[], nodes = 0) => renderToStaticMarkup(<FitNote fit={{ fits: 0 }} explanation={{ nodes, nodes_fit: 0, removed }} />);
  const told = show([{ reason: "NO_CAPACITY", message: text, nodes: 0, gpus: 0 }]);
  expect(told).toContain(`<li>${text}</li>`);
  expect(show([])).toContain("No node here has GPUs of this kind.");
  for (const shown of [told, show([]), show([], 1)]) {
    expect(shown).toContain("None fits now");
    expect(shown).not.toContain("Nothing keeps it");
  }
  for (const shown of [told, show([])]) expect(shown).not.toContain("Fits on");
  // nor in the table below a refusal
  expect(renderToStaticMarkup(<Why explanation={{ nodes: 0, removed: [{ reason: "NO_CAPACITY", message: text }] }} />)).toBe("");
});

it("several that the server would launch beside a line are not called too many", () => {
  const line = { nodes: 2, nodes_fit: 1, removed: [{ reason: "WAITING_AHEAD", message: "One waits." }] };
  const show = (judged: Judged | undefined) => renderToStaticMarkup(<FitNote fit={{ fits: 8 }} count={2} explanation={line} judged={judged} ways={["tick this"]} />);
  for (const text of ["1 of 2 would fit now", "Tick this."]) expect(show(undefined)).toContain(text);
  expect(show({ fits: true })).toContain("2 available");
});

it("con_10_only_where_the_image_is_cached_says_what_it_brings_and_what_it_costs", () => {
  const show = (chosen: boolean) => renderToStaticMarkup(<PrewarmedChoice chosen={chosen} choose={() => {}} />);
  for (const text of ["Only on nodes that have the image in their cache", "starts sooner", "fewer nodes qualify"]) expect(show(false)).toContain(text);
  expect([show(false), show(true)].map((shown) => shown.includes("checked"))).toEqual([false, true]);
});

it("con_10_where_it_would_fit_is_counted_with_the_place_that_was_chosen_or_said_to_be_without", () => {
  const anywhere = { nodes: 9, nodes_fit: 9 };
  const show = (constrained: boolean, judged: Judged | undefined, count = 1) =>
    renderToStaticMarkup(<FitNote fit={{ fits: 12 }} count={count} explanation={anywhere} judged={judged} constrained={constrained} />);
  const here = { nodes: 9, nodes_fit: 1, removed: [{ reason: "AFFINITY", message: "88 GPUs on 8 nodes that the placement constraints rule out." }] };
  const chosen = show(true, { fits: true, placement: here });
  for (const text of ["Fits where it may run", "Fits on 1 of 9 nodes here", "88 GPUs on 8 nodes"]) expect(chosen).toContain(text);
  expect(chosen).not.toContain("12 available");
  // one that may wait is judged, too, when it does not fit now
  const waits = show(true, { fits: false, placement: { nodes: 9, nodes_fit: 0 } });
  for (const text of ["Does not fit now where it may run", "Fits on 0 of 9 nodes here"]) expect(waits).toContain(text);
  expect(show(true, { fits: true }, 2)).toContain("All 2 fit where they may run");
  expect(show(true, { fits: true }, 2)).not.toContain("of 9 nodes");
  const unknown = show(true, undefined);
  for (const text of ["12 available", "Fits on 9 of 9 nodes here", "Counted as if it could run anywhere"]) expect(unknown).toContain(text);
  const free = show(false, { fits: true, placement: here });
  for (const text of ["12 available", "Fits on 9 of 9 nodes here"]) expect(free).toContain(text);
  expect(free).not.toContain("Counted as if");
});

it("what of an earlier launch is left out is said, and nothing where nothing is", () => {
  expect(renderToStaticMarkup(<LeftOut left={[]} name="web" />)).toBe("");
  const shown = renderToStaticMarkup(<LeftOut left={["One.", "Two."]} name="web" />);
  for (const text of ["Filled in as web was launched, but", "<li>One.</li>", "<li>Two.</li>"]) expect(shown).toContain(text);
});

it("b_57_why_a_refused_launch_fits_nowhere_is_told_constraint_by_constraint_with_its_nodes", () => {
  const ruled = { reason: "AFFINITY", gpus: 64, nodes: 8, message: "64 GPUs on 8 nodes that the placement constraints rule out." };
  const shown = renderToStaticMarkup(<Why explanation={{ nodes: 17, nodes_fit: 0, removed: [...fragmented, ruled] }} />);
  expect(shown).toContain("Of 17 nodes here");
  expect(shown).toContain('aria-label="What keeps it from the nodes"');
  for (const row of [`<td>${message}</td><td class="number">9</td>`, `<td>${ruled.message}</td><td class="number">8</td>`]) expect(shown).toContain(row);
  for (const nothing of [undefined, { nodes: 3, nodes_fit: 3, removed: [] }]) expect(renderToStaticMarkup(<Why explanation={nothing} />)).toBe("");
});
