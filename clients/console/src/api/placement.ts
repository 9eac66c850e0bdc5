/** Cordon, drain, maintenance and their end, of a node. */
import type { QueryClient } from "@tanstack/react-query";
import { client, unwrap } from "./client";
import type { NodePlacement } from "./types";

export type Verb = "cordon" | "uncordon" | "drain" | "startMaintenance";

/** What an operator can ask for of a node as it is; nothing of one whose placement is not known. */
export function placementVerbs(placement: NodePlacement | undefined): Verb[] {
  const { admin_state: state, drained } = placement ?? {};
  if (!placement || state === "broken" || state === "retired") return [];
  return [
    ...(state === "enabled" ? (["cordon"] as const) : []),
    ...(state === "draining" && drained ? (["startMaintenance"] as const) : []),
    ...(state !== "draining" && state !== "maintenance" ? (["drain"] as const) : []),
    ...(state !== "enabled" ? (["uncordon"] as const) : []),
  ];
}

export async function changePlacement(queries: QueryClient, node_id: string, verb: Verb, reason: string, etag: string | undefined): Promise<NodePlacement> {
  const next = await unwrap(client.POST(`/api/v1/admin/nodes/{node_id}:${verb}`, { params: { path: { node_id } }, body: { reason, ...(etag && { etag }) } }));
  queries.setQueryData(["placement", node_id], next);
  return next;
}
