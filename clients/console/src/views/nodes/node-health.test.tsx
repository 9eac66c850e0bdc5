import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { renderToStaticMarkup } from "react-dom/server";
import { beforeAll, expect, it } from "vitest";
import { signInAs } from "../../session/fixture";
import type { NodePlacement } from "../../api/types";
import { Finding, Record } from "./node-health";
import { NodeState, PlacementActions, PlacementNote } from "./placement";

beforeAll(() => signInAs("operator"));

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
  expect(broken).toContain("while a break-fix record is open");
  // closing the record returns it, and nothing returns a retired node
  for (const text of [broken, shown({ admin_state: "retired" })]) expect(text).not.toContain("<button");
});

it("maintenance is offered for a node that is drained", () => {
  expect(shown({ admin_state: "draining", drained: true })).toContain("Start maintenance");
  expect(shown({ admin_state: "draining", drained: false })).not.toContain("Start maintenance");
  expect(shown({ admin_state: "enabled" })).not.toContain("Start maintenance");
});

it("a break-fix record tells what was broken, what was done, by whom and what became of it", () => {
  const slots = [{ id: "s3", slot_index: 3 }];
  const show = (what: React.ReactNode) => renderToStaticMarkup(<QueryClientProvider client={new QueryClient()}>{what}</QueryClientProvider>);
  const record = { id: "b", node_id: "n", slot_id: "s3", fault: "GPU fell off the bus", opened_by: "user:admin", open_time: "2026-01-02T03:04:05Z", actions: [{ time: "2026-01-02T04:04:05Z", principal: "user:tech", action: "Reseated the board" }] };
  const open = show(<Record record={record} slots={slots} />);
  for (const part of ["Slot 3: GPU fell off the bus", "Reseated the board", "user:tech", "Open", "Add action", "Close"]) expect(open).toContain(part);
  const closed = show(<Record record={{ ...record, close_time: "2026-01-03T03:04:05Z", closed_by: "user:admin", outcome: "Works again" }} slots={slots} />);
  expect(closed).toContain("Works again");
  expect(closed).not.toContain("<button");
  const found = show(<Finding finding={{ id: "f", node_id: "n", source: "dcgm", code: "XID_79", severity: "critical", message: "GPU is lost", count: "4" }} slots={slots} />);
  for (const part of ["Node: GPU is lost", "XID_79 of dcgm", "Seen 4 times", "Critical", "Resolve"]) expect(found).toContain(part);
});
