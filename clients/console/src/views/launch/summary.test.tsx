import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import { problemFrom } from "../../api/problem";
import type { Sku } from "../../api/types";
import { Summary } from "./summary";

const refused = (reason: string) => problemFrom(409, { error: { message: "No.", details: [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason }] } }, null);

it("con_10_beside_a_refusal_of_the_place_nothing_says_that_it_would_fit", () => {
  const ordered = { sku: { code: "s" } as Sku, gpus: 1, names: ["web"], image: undefined, region: "a" };
  const show = (problem: Error | null) =>
    renderToStaticMarkup(
      <Summary ordered={ordered} fit="Fits on 1 of 1 node here" problem={problem} why="Each of these removes" busy={false} ready={true}>
        {null}
      </Summary>,
    );
  for (const reason of ["AFFINITY", "IMAGE_NOT_CACHED", "FRAGMENTED"]) {
    expect(show(refused(reason))).not.toContain("Fits on");
    expect(show(refused(reason))).toContain("Each of these removes");
  }
  for (const other of [null, refused("QUOTA")]) {
    expect(show(other)).toContain("Fits on 1 of 1 node here");
    expect(show(other)).not.toContain("Each of these removes");
  }
});

it("h_33_a_refusal_of_the_place_names_the_ways_out_and_can_be_asked_again", () => {
  const ordered = { sku: { code: "s" } as Sku, gpus: 1, names: ["web"], image: undefined, region: "a" };
  const show = (reason: string) =>
    renderToStaticMarkup(
      <Summary ordered={ordered} fit={null} problem={problemFrom(429, { error: { message: "No.", details: [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason }] } }, null)} ways={["tick this"]} retry={() => {}} why={null} busy={false} ready={false}>
        {null}
      </Summary>,
    );
  for (const text of ["<p>Tick this.</p>", "Try again"]) expect(show("NO_CAPACITY")).toContain(text);
  expect(show("NO_CAPACITY")).not.toContain("fewer GPUs");
  for (const text of ["Tick this", "Try again"]) expect(show("RATE_LIMITED")).not.toContain(text);
});

it("h_33_a_refusal_for_several_causes_tells_each_of_them_in_the_form", () => {
  const causes = { SLOTS_IN_USE: "8 GPUs on 1 node are in use by others; try again later.", HOST_NOT_READY: "8 GPUs on 1 node: The hosts are not ready at the moment." };
  const metadata = Object.fromEntries(Object.entries(causes).flatMap(([reason, text]) => [[`${reason}.gpus`, "8"], [`${reason}.nodes`, "1"], [`${reason}.message`, text]]));
  const problem = problemFrom(429, { error: { message: "No capacity is free.", details: [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason: "NO_CAPACITY", metadata }] } }, null);
  const ordered = { sku: { code: "s" } as Sku, gpus: 1, names: ["web"], image: undefined, region: "a" };
  const shown = renderToStaticMarkup(
    <Summary ordered={ordered} fit={null} problem={problem} why={null} busy={false} ready={true}>
      {null}
    </Summary>,
  );
  expect(shown).toContain("No capacity is free.");
  for (const text of Object.values(causes)) expect(shown.split(`<li>${text}</li>`)).toHaveLength(2);
});
