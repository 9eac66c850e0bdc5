import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import type { NodePlacement } from "../../api/types";
import { NodeState, PlacementActions, PlacementNote } from "./placement";

const shown = (placement: NodePlacement) =>
  renderToStaticMarkup(
    <QueryClientProvider client={new QueryClient()}>
      <NodeState node={{ status: { schedulable: true } }} placement={placement} />
      <PlacementNote placement={placement} slots={4} />
      <PlacementActions placement={placement} hostname="h1" />
    </QueryClientProvider>,
  );

it("a node in maintenance, broken or retired says so, why, and what ends it", () => {
  const maintenance = shown({ admin_state: "maintenance", admin_reason: "new power supply" });
  for (const part of ["Maintenance", "new power supply", "Uncordon"]) expect(maintenance).toContain(part);
  expect(maintenance).not.toContain("Ready");
  const broken = shown({ admin_state: "broken" });
  expect(broken).toContain("open break-fix record");
  // closing the record returns it, and nothing returns a retired node
  for (const text of [broken, shown({ admin_state: "retired" })]) expect(text).not.toContain("<button");
});

it("maintenance is offered for a node that is drained", () => {
  expect(shown({ admin_state: "draining", drained: true })).toContain("Start maintenance");
  expect(shown({ admin_state: "draining", drained: false })).not.toContain("Start maintenance");
  expect(shown({ admin_state: "enabled" })).not.toContain("Start maintenance");
});
