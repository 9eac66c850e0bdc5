/** The end of a node: retired permanently after a drain, or deleted when it was registered by mistake. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useLocation } from "wouter";
import { client, unwrap } from "../../api/client";
import { deleteNode } from "../../api/nodes";
import type { InventoryNode, NodePlacement } from "../../api/types";
import { Button } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { CircleOff, Trash2 } from "../../ui/icons";
import { Reason } from "./parts";

/** What can end a node: one that placement has never had is deleted, one that is empty is retired. */
export function endOf(node: InventoryNode, placement: NodePlacement | null | undefined, slots: number): "delete" | "retire" | undefined {
  const state = placement?.admin_state;
  if (state === "retired" || placement === undefined) return undefined;
  if (node.status?.state === "pending" && slots === 0) return "delete";
  return placement?.drained && (state === "draining" || state === "maintenance" || state === "broken") ? "retire" : undefined;
}

export function EndNode({ node, placement, slots }: { node: InventoryNode; placement: NodePlacement | null | undefined; slots: number }) {
  const queries = useQueryClient();
  const [, navigate] = useLocation();
  const [reason, setReason] = useState("");
  const node_id = node.id ?? "";
  const hostname = node.config?.hostname ?? node_id;
  const retire = useMutation({
    mutationFn: () => unwrap(client.POST("/api/v1/admin/nodes/{node_id}:retire", { params: { path: { node_id } }, body: { reason: reason.trim(), etag: node.etag } })),
    onSuccess: () => Promise.all(["placement", "placements", "node", "node-history"].map((key) => queries.invalidateQueries({ queryKey: [key] }))),
  });
  const remove = useMutation({
    mutationFn: () => deleteNode(node, reason.trim()),
    onSuccess: () => navigate("/admin/nodes"),
  });
  const end = endOf(node, placement, slots);
  if (end === "retire") {
    return (
      <Confirm needs="operate" danger trigger={<Button kind="danger"><CircleOff size={15} aria-hidden="true" /> Retire</Button>} title={`Retire ${hostname}?`} action="Retire" ready={reason.trim() !== ""} run={() => retire.mutateAsync()}>
        <p>
          The node and all its slots are out of service <strong>permanently</strong>, and its host can no longer connect. This cannot be undone.
        </p>
        <Reason id="retire-why" label="Reason" value={reason} onChange={setReason} />
      </Confirm>
    );
  }
  if (end === "delete") {
    return (
      <Confirm needs="operate" danger trigger={<Button kind="danger"><Trash2 size={15} aria-hidden="true" /> Delete</Button>} title={`Delete ${hostname}?`} action="Delete" run={() => remove.mutateAsync()}>
        <p>This node never enrolled. Its enrolment tokens stop working.</p>
        <Reason id="delete-why" label="Reason (optional)" value={reason} onChange={setReason} />
      </Confirm>
    );
  }
  return null;
}
