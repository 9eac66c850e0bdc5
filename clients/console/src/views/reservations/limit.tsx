/** How many GPUs the members of a project can reserve. */
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { limitKey, putReservationLimit, useReservationLimit } from "../../api/capacity";
import { useProjects } from "../../api/queries";
import type { ReservationLimit } from "../../api/types";
import { isId, plural } from "../../lib/text";
import { Button } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { Field } from "../../ui/form";
import { KeyRound } from "../../ui/icons";
import { ProblemNote } from "../../ui/problem";
import { useEtag } from "../../ui/use-etag";
import { ProjectField } from "./project-field";

/** The largest limit that the API accepts. */
const MAX_LIMIT = 2 ** 31 - 1;

/** What it is now; nothing for a project that is not known. */
export function nowText({ max_gpus = 0, reserved_gpus = 0 }: ReservationLimit): string {
  return `Now ${plural(max_gpus, "GPU")}; ${reserved_gpus} reserved.`;
}

export function LimitButton({ notify }: { notify: (text: string) => void }) {
  const [project, setProject] = useState("");
  const [gpus, setGpus] = useState("");
  const queries = useQueryClient();
  const id = project.trim();
  const isKnown = useProjects().some((one) => one.id === id) || isId(id);
  const limit = useReservationLimit(isKnown ? id : "");
  const [etag, renew] = useEtag(id, limit.data?.etag, gpus !== "");
  const count = Number(gpus);
  const legal = gpus !== "" && Number.isInteger(count) && count >= 0 && count <= MAX_LIMIT;
  const save = async () => {
    const next = await putReservationLimit(id, count, etag);
    queries.setQueryData(limitKey(id), next);
    const { max_gpus = 0, reserved_gpus = 0 } = next;
    notify(`Members of the project can now reserve ${plural(max_gpus, "GPU")}; ${reserved_gpus} reserved.`);
  };
  // after a reload what was typed stays, beside what is set now
  const reset = (reloaded: boolean) => {
    if (reloaded) return renew();
    setGpus("");
    void queries.invalidateQueries({ queryKey: limitKey(id) });
  };
  return (
    <Confirm
      needs="manage"
      trigger={
        <Button>
          <KeyRound size={15} aria-hidden="true" /> Set limit
        </Button>
      }
      title="Set reservation limit"
      action="Set limit"
      ready={legal && limit.data !== undefined}
      reset={reset}
      run={save}
    >
      <p>The number of GPUs that members of a project can reserve. Reservations take precedence over queued requests. With 0, only operators can reserve.</p>
      <ProjectField value={project} onChange={setProject} problem={id === "" || isKnown ? undefined : "No project has this name or id."} />
      {limit.error && <ProblemNote error={limit.error} retry={() => limit.refetch()} />}
      {limit.data && <p className="field-hint">{nowText(limit.data)}</p>}
      <Field label="Maximum GPUs" problem={gpus !== "" && !legal ? "Enter an integer, 0 or more." : undefined} hint="Over all active reservations that members of the project created.">
        {({ id, describedBy }) => <input id={id} aria-describedby={describedBy} inputMode="numeric" value={gpus} onChange={(event) => setGpus(event.target.value)} />}
      </Field>
    </Confirm>
  );
}
