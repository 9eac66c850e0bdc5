/** Cordon and drain of a node, and the progress of a drain. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { type ReactNode, useState } from "react";
import { type Verb, changePlacement, placementVerbs } from "../../api/placement";
import type { InventoryNode, NodePlacement } from "../../api/types";
import { plural } from "../../lib/text";
import { Badge, Button, Progress, Time } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { CircleOff, LogOut, Play, Wrench } from "../../ui/icons";
import { NodeBadge, Reason } from "./parts";

/** Whether launches can go to it: it is ready, and no operator took it out of service. */
export function isSchedulable(node: InventoryNode, placement: NodePlacement | undefined): boolean {
  return !!node.status?.schedulable && (placement?.admin_state ?? "enabled") === "enabled";
}

/** Readiness and what operators want of it, in one or two badges: a node that is out of service is not called ready. */
export function NodeState({ node, placement }: { node: InventoryNode; placement: NodePlacement | undefined }) {
  const isOutOfService = (placement?.admin_state ?? "enabled") !== "enabled";
  return (
    <>
      <PlacementBadge placement={placement} />
      {!(isOutOfService && node.status?.schedulable) && <NodeBadge node={node} />}
    </>
  );
}

/** Share of the slots without a claim, from 0 to 100. */
export function drainPercent(placement: NodePlacement, slots: number): number {
  if (placement.drained) return 100;
  return slots === 0 ? 0 : Math.max(0, Math.min(100, (1 - (placement.live_claims ?? 0) / slots) * 100));
}

export function PlacementBadge({ placement }: { placement: NodePlacement | undefined }) {
  if (placement?.admin_state === "cordoned") return <Badge tone="warn">Cordoned</Badge>;
  if (placement?.admin_state === "maintenance") return <Badge tone="warn">Maintenance</Badge>;
  if (placement?.admin_state === "broken") return <Badge tone="bad">Broken</Badge>;
  if (placement?.admin_state === "retired") return <Badge tone="idle">Retired</Badge>;
  if (placement?.admin_state === "draining") return placement.drained ? <Badge tone="idle">Drained</Badge> : <Badge tone="warn">Draining</Badge>;
  return null;
}

/** What it means that a node is out of service. */
const MEANINGS: Record<string, string> = {
  cordoned: "Cordoned: the node takes no new allocations. Existing ones continue.",
  maintenance: "Maintenance: the node is empty and out of service for work on its host. Uncordon it when the work is done.",
  broken: "Broken: the node takes no allocations while a break-fix record is open.",
  retired: "Retired: the node is out of service permanently.",
};

/** Why the node takes no new allocations, and what a drain still waits for. */
export function PlacementNote({ placement, slots }: { placement: NodePlacement; slots: number }) {
  const { admin_state, admin_reason, admin_principal, admin_time, drained, live_allocations = 0, live_claims = 0 } = placement;
  const meaning = MEANINGS[admin_state ?? ""];
  if (!meaning && admin_state !== "draining") return null;
  const why = (
    <small className="muted">
      {admin_reason && <>“{admin_reason}”, </>}
      {admin_principal && <>by {admin_principal}, </>}
      <Time value={admin_time} />
    </small>
  );
  if (meaning) {
    return (
      <div className="under-way quiet" role="status">
        <strong>{meaning}</strong>
        {why}
      </div>
    );
  }
  return (
    <div className="under-way" role="status">
      <div className="under-way-line">
        <strong>{drained ? "Drained: the node has no allocations." : "Draining: the node takes no new allocations and waits until owners release theirs."}</strong>
        {!drained && (
          <span className="muted">
            {plural(live_allocations, "allocation")}, {plural(live_claims, "claim")} left
          </span>
        )}
      </div>
      <Progress value={drainPercent(placement, slots)} label="Drain" />
      {why}
    </div>
  );
}

export function PlacementActions({ placement, hostname }: { placement: NodePlacement; hostname: string }) {
  const queries = useQueryClient();
  const [reason, setReason] = useState("");
  const node_id = placement.node_id ?? "";
  const change = useMutation({
    mutationFn: (verb: Verb) => changePlacement(queries, node_id, verb, reason.trim(), placement.etag),
    onSuccess: () => {
      setReason("");
      void queries.invalidateQueries({ queryKey: ["placements"] });
    },
  });
  const ask = (verb: Verb, icon: ReactNode, label: string, text: ReactNode) => (
    <Confirm
      needs="operate"
      trigger={<Button>{icon} {label}</Button>}
      title={`${label} ${hostname}?`}
      action={label}
      ready={verb === "uncordon" || reason.trim() !== ""}
      run={() => change.mutateAsync(verb)}
    >
      <p>{text}</p>
      <Reason id={`${verb}-why`} label={verb === "uncordon" ? "Reason (optional)" : "Reason"} value={reason} onChange={setReason} />
    </Confirm>
  );
  const verbs = placementVerbs(placement);
  return (
    <>
      {verbs.includes("cordon") && ask("cordon", <CircleOff size={15} aria-hidden="true" />, "Cordon", "The node takes no new allocations. Existing allocations continue.")}
      {verbs.includes("startMaintenance") && ask("startMaintenance", <Wrench size={15} aria-hidden="true" />, "Start maintenance", "The node stays out of service for work on its host, until you uncordon it.")}
      {verbs.includes("drain") && ask("drain", <LogOut size={15} aria-hidden="true" />, "Drain", "The node takes no new allocations. Nothing is stopped: the drain waits until owners release their allocations.")}
      {verbs.includes("uncordon") && ask("uncordon", <Play size={15} aria-hidden="true" />, "Uncordon", "The node takes new allocations again as soon as it is ready.")}
    </>
  );
}
