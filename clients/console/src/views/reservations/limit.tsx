/** How many GPUs the members of a project can reserve. */
import { useState } from "react";
import { putReservationLimit } from "../../api/capacity";
import { plural } from "../../lib/text";
import { Button } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { Field } from "../../ui/form";
import { KeyRound } from "../../ui/icons";
import { ProjectField } from "./project-field";

/** The largest limit that the API accepts. */
const MAX_LIMIT = 2 ** 31 - 1;

export function LimitButton({ notify }: { notify: (text: string) => void }) {
  const [project, setProject] = useState("");
  const [gpus, setGpus] = useState("");
  const count = Number(gpus);
  const legal = gpus !== "" && Number.isInteger(count) && count >= 0 && count <= MAX_LIMIT;
  const save = async () => {
    const { max_gpus = 0, reserved_gpus = 0 } = await putReservationLimit(project.trim(), count);
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
        ready={legal && project.trim() !== ""}
        run={save}
      >
        <p>The number of GPUs that members of a project can reserve. Reservations take precedence over queued requests. With 0, only operators can reserve.</p>
        <ProjectField value={project} onChange={setProject} />
        <Field label="Maximum GPUs" problem={gpus !== "" && !legal ? "Enter an integer, 0 or more." : undefined} hint="Over all active reservations that members of the project created.">
          {({ id, describedBy }) => <input id={id} aria-describedby={describedBy} inputMode="numeric" value={gpus} onChange={(event) => setGpus(event.target.value)} />}
        </Field>
      </Confirm>
  );
}
