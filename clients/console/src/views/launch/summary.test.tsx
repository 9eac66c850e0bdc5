import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import { problemFrom } from "../../api/fixture";
import type { Sku } from "../../api/types";
import { Summary } from "./summary";

const refused = (reason: string) => problemFrom(409, { error: { message: "No.", details: [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason }] } });

it("con_10_beside_an_unschedulable_launch_nothing_claims_that_it_would_fit", () => {
  const ordered = { sku: { code: "s" } as Sku, gpus: 1, names: ["web"], image: undefined, region: "a" };
  const show = (problem: Error | null) =>
    renderToStaticMarkup(
      <Summary ordered={ordered} fit="Fits on 1 of 1 node" problem={problem} why="Unschedulable reasons" busy={false} ready={true}>
        {null}
      </Summary>,
    );
  for (const reason of ["AFFINITY", "IMAGE_NOT_CACHED", "FRAGMENTED"]) {
    expect(show(refused(reason))).not.toContain("Fits on");
    expect(show(refused(reason))).toContain("Unschedulable reasons");
  }
  for (const other of [null, refused("QUOTA")]) {
    expect(show(other)).toContain("Fits on 1 of 1 node");
    expect(show(other)).not.toContain("Unschedulable reasons");
  }
});

it("h_33_an_unschedulable_launch_names_the_ways_out_and_can_be_retried", () => {
  const ordered = { sku: { code: "s" } as Sku, gpus: 1, names: ["web"], image: undefined, region: "a" };
  const show = (reason: string) =>
    renderToStaticMarkup(
      <Summary ordered={ordered} fit={null} problem={problemFrom(409, { error: { message: "No.", details: [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason }] } })} ways={["select this"]} retry={() => {}} why={null} busy={false} ready={false}>
        {null}
      </Summary>,
    );
  for (const text of ["<p>Select this.</p>", "Try again"]) expect(show("NO_CAPACITY")).toContain(text);
  expect(show("NO_CAPACITY")).not.toContain("fewer GPUs");
  for (const text of ["Select this", ">Try again<"]) expect(show("RATE_LIMITED")).not.toContain(text);
});

it("h_33_a_refusal_for_several_reasons_lists_each_of_them_in_the_form", () => {
  const causes = { SLOTS_IN_USE: "8 GPUs are in use on 1 node.", HOST_NOT_READY: "8 GPUs are on 1 node that is not ready." };
  const metadata = Object.fromEntries(Object.entries(causes).flatMap(([reason, text]) => [[`${reason}.gpus`, "8"], [`${reason}.nodes`, "1"], [`${reason}.message`, text]]));
  const problem = problemFrom(409, { error: { message: "No capacity is free.", details: [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason: "NO_CAPACITY", metadata }] } });
  const ordered = { sku: { code: "s" } as Sku, gpus: 1, names: ["web"], image: undefined, region: "a" };
  const shown = renderToStaticMarkup(
    <Summary ordered={ordered} fit={null} problem={problem} why={null} busy={false} ready={true}>
      {null}
    </Summary>,
  );
  expect(shown).toContain("No capacity is free.");
  for (const text of Object.values(causes)) expect(shown.split(`<li>${text}</li>`)).toHaveLength(2);
});
