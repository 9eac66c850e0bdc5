import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import { Chains } from "./chains";
import type { TrailWork } from "./trail-work";

const of = (findings: string[]) =>
  ({ outcome: { verified: { chains: [{ source: "edge", records: 2, head: { position: 2, digest: "ab" }, findings: [] }], findings } } }) as unknown as TrailWork;

it("what was found of no chain that was read is said, too", () => {
  const text = renderToStaticMarkup(<Chains of={of(["billing: the chain is missing; checkpoint billing:1:cd is expected"])} />);
  expect(text).toContain("billing: the chain is missing");
  expect(text).not.toContain("No record was changed");
  expect(renderToStaticMarkup(<Chains of={of([])} />)).toContain("No record was changed, removed or moved.");
});
