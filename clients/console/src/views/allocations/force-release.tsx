/** The way out for an allocation whose host is lost: an administrator attests what became of the host (B-28). */
import type { components } from "@gpuaas/sdk";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { client, unwrap } from "../../api/client";
import { fromField, zone } from "../../lib/time";
import { plural } from "../../lib/text";
import { Button, Planned, Skeleton } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { Field } from "../../ui/form";
import { TriangleAlert } from "../../ui/icons";
import { ProblemNote } from "../../ui/problem";

type Schemas = components["schemas"];
type Fate = Exclude<Schemas["allocation.HostFate"], "unspecified">;

interface Body {
  host_fate: Fate;
  reason: string;
  billing_end_time?: string;
}

const FATES: [Fate, string][] = [
  ["powered_off", "The host is powered off and will stay off"],
  ["disks_destroyed", "The disks of the host are destroyed"],
  ["reinstalled", "The host was reinstalled and has enrolled again"],
  ["written_off", "The host is unreachable and written off"],
];

/** What is sent; undefined while something is missing or is not a time. */
export function requestOf(fate: Fate | "", reason: string, billingEnd: string): Body | undefined {
  const end = fromField(billingEnd);
  if (fate === "" || reason.trim() === "" || (billingEnd !== "" && end === undefined)) return undefined;
  return { host_fate: fate, reason: reason.trim(), ...(end !== undefined && { billing_end_time: new Date(end).toISOString() }) };
}

const call = (allocation_id: string, body: Body, validate_only: boolean) =>
  unwrap(client.POST("/api/v1/admin/allocations/{allocation_id}:forceRelease", { params: { path: { allocation_id } }, body: { ...body, validate_only } }));

/** What the release would do, by a dry run. */
function Outcome({ id, body }: { id: string; body: Body }) {
  // the reason changes with each key that is pressed, and nothing depends on it
  const { reason: _, ...asked } = body;
  const judged = useQuery({ queryKey: ["force-release", id, asked], retry: false, queryFn: () => call(id, body, true) });
  if (judged.error) return <ProblemNote error={judged.error} retry={() => judged.refetch()} />;
  if (!judged.data) return <Skeleton lines={1} label="Checking the release" />;
  const { billing_end_time, slot_ids = [] } = judged.data;
  return (
    <p role="status">
      {billing_end_time ? (
        <>
          Billing ends <Planned value={billing_end_time} />.
        </>
      ) : (
        "It is not billed."
      )}{" "}
      {slot_ids.length > 0 && `${plural(slot_ids.length, "slot stays", "slots stay")} disabled until a repair has wiped ${slot_ids.length === 1 ? "its disk" : "their disks"}.`}
    </p>
  );
}

export function ForceRelease({ id, name, small = false }: { /** Id of the allocation. */ id: string; name: string; small?: boolean }) {
  const queries = useQueryClient();
  const [fate, setFate] = useState<Fate | "">("");
  const [reason, setReason] = useState("");
  const [billingEnd, setBillingEnd] = useState("");
  const body = requestOf(fate, reason, billingEnd);
  const run = async () => {
    if (!body) return;
    await call(id, body, false);
    for (const key of ["admin-allocation", "evacuation", "placement"]) void queries.invalidateQueries({ queryKey: [key] });
  };
  return (
    <Confirm
      needs="operate"
      danger
      trigger={
        <Button small={small} kind="danger">
          <TriangleAlert size={14} aria-hidden="true" /> Force release
        </Button>
      }
      title={`Force release ${name}?`}
      action="Force release"
      ready={body !== undefined}
      run={run}
    >
      <p>
        The allocation ends although its host does not answer. You attest the state of the host, and your name is recorded in the audit trail. <strong>This cannot be undone.</strong>
      </p>
      <Field label="State of the host">
        {({ id: field }) => (
          <select id={field} value={fate} onChange={(event) => setFate(event.target.value as Fate | "")}>
            <option value="">Choose</option>
            {FATES.map(([value, text]) => (
              <option key={value} value={value}>
                {text}
              </option>
            ))}
          </select>
        )}
      </Field>
      <Field label="Reason">{({ id: field }) => <input id={field} value={reason} maxLength={500} autoComplete="off" onChange={(event) => setReason(event.target.value)} />}</Field>
      <Field label="Billing ends (optional)" hint={`Times in ${zone}. Empty: the time of the last report of the host, for bare metal now.`}>
        {({ id: field, describedBy }) => <input id={field} aria-describedby={describedBy} type="datetime-local" value={billingEnd} onChange={(event) => setBillingEnd(event.target.value)} />}
      </Field>
      {body && <Outcome id={id} body={body} />}
    </Confirm>
  );
}
