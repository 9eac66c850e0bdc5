/** Protection of an allocation from release, and the time of its release. */
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { client, unwrap } from "../../api/client";
import type { Allocation } from "../../api/types";
import { learn } from "../../api/watches";
import { nameOf } from "../../lib/allocation-name";
import { fromField, toField, zone } from "../../lib/time";
import { Button } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { Field } from "../../ui/form";

/** What is sent; undefined while the time is not one to come. */
export function endingOf(isProtected: boolean, at: string, now: number): { termination_protection: boolean; auto_release_time?: string; no_auto_release?: boolean } | undefined {
  if (isProtected || at === "") return { termination_protection: isProtected, no_auto_release: true };
  const time = fromField(at);
  return time !== undefined && time > now ? { termination_protection: false, auto_release_time: new Date(time).toISOString() } : undefined;
}

/** What is typed, with the etag of the allocation that it was typed for. */
interface Draft {
  isProtected: boolean;
  at: string;
  etag: string | undefined;
}

function draftOf({ termination_protection = false, auto_release_time, etag }: Allocation): Draft {
  return { isProtected: termination_protection, at: auto_release_time ? toField(Date.parse(auto_release_time)) : "", etag };
}

export function Ending({ allocation }: { allocation: Allocation }) {
  const { id: allocation_id = "" } = allocation;
  const queries = useQueryClient();
  const [draft, setDraft] = useState<Draft>();
  const { isProtected, at, etag } = draft ?? draftOf(allocation);
  const body = endingOf(isProtected, at, Date.now());
  const run = async () => {
    if (!body) return;
    learn(queries, await unwrap(client.PATCH("/api/v1/allocations/{allocation_id}", { params: { path: { allocation_id } }, body: { ...body, etag } })));
  };
  return (
    <Confirm trigger={<Button small>Termination settings</Button>} title={`Termination protection and scheduled release of ${nameOf(allocation)}`} action="Save" ready={body !== undefined} reset={() => setDraft(undefined)} run={run}>
      <label className="check">
        <input type="checkbox" checked={isProtected} onChange={(event) => setDraft({ isProtected: event.target.checked, at, etag })} /> <span>Protect from release</span>
      </label>
      <Field label="Release at (optional)" hint={isProtected ? "A protected allocation has no scheduled release." : `Times in ${zone}. Its disks are wiped then.`} problem={body ? undefined : "Choose a time in the future."}>
        {({ id, describedBy }) => <input id={id} aria-describedby={describedBy} type="datetime-local" disabled={isProtected} value={isProtected ? "" : at} onChange={(event) => setDraft({ isProtected, at: event.target.value, etag })} />}
      </Field>
    </Confirm>
  );
}
