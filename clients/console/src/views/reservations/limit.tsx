/** How many GPUs the members of a project can reserve. */
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { limitKey, putReservationLimit, useReservationLimit } from "../../api/capacity";
import { useProjects } from "../../api/queries";
import type { ReservationLimit } from "../../api/types";
import { plural } from "../../lib/text";
import { Button } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { Field } from "../../ui/form";
import { KeyRound } from "../../ui/icons";
import { ProjectField } from "./project-field";

/** The largest limit that the API accepts. */
const MAX_LIMIT = 2 ** 31 - 1;

/** What it is now; nothing for a project that is not known. */
function Now({ project }: { project: string }) {
  const limit = useReservationLimit(project).data;
  if (!limit) return null;
  return <p className="field-hint">Now {plural(limit.max_gpus ?? 0, "GPU")}; {limit.reserved_gpus ?? 0} reserved.</p>;
}

export function LimitButton({ notify }: { notify: (text: string) => void }) {
  const [project, setProject] = useState("");
  const [gpus, setGpus] = useState("");
  const queries = useQueryClient();
  const id = project.trim();
  const isKnown = useProjects().some((one) => one.id === id);
  const count = Number(gpus);
  const legal = gpus !== "" && Number.isInteger(count) && count >= 0 && count <= MAX_LIMIT;
  const save = async () => {
    const next = await putReservationLimit(id, count, queries.getQueryData<ReservationLimit>(limitKey(id))?.etag);
    queries.setQueryData(limitKey(id), next);
    const { max_gpus = 0, reserved_gpus = 0 } = next;
    notify(`Members of the project can now reserve ${plural(max_gpus, "GPU")}; ${reserved_gpus} reserved.`);
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
        ready={legal && id !== ""}
        run={save}
      >
        <p>The number of GPUs that members of a project can reserve. Reservations take precedence over queued requests. With 0, only operators can reserve.</p>
        <ProjectField value={project} onChange={setProject} />
        <Now project={isKnown ? id : ""} />
        <Field label="Maximum GPUs" problem={gpus !== "" && !legal ? "Enter an integer, 0 or more." : undefined} hint="Over all active reservations that members of the project created.">
          {({ id, describedBy }) => <input id={id} aria-describedby={describedBy} inputMode="numeric" value={gpus} onChange={(event) => setGpus(event.target.value)} />}
        </Field>
      </Confirm>
  );
}
