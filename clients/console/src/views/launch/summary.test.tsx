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
      <Summary ordered={ordered} fit="Fits on 1 of 1 node here" problem={problem} busy={false} ready={true}>
        {null}
      </Summary>,
    );
  for (const reason of ["AFFINITY", "IMAGE_NOT_CACHED", "FRAGMENTED"]) expect(show(refused(reason))).not.toContain("Fits on");
  for (const other of [null, refused("QUOTA")]) expect(show(other)).toContain("Fits on 1 of 1 node here");
});
