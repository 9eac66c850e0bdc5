/** How many GPUs a project may reserve by itself. */
import { useState } from "react";
import { putReservationLimit } from "../../api/capacity";
import { plural } from "../../lib/words";
import { Button } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { Field } from "../../ui/form";
import { KeyRound } from "../../ui/icons";
import { ProjectField } from "./project-field";

/** The largest number that is taken. */
const MOST_LIMIT = 2 ** 31 - 1;

export function LimitButton({ told }: { told: (text: string) => void }) {
  const [project, setProject] = useState("");
  const [gpus, setGpus] = useState("");
  const count = Number(gpus);
  const legal = gpus !== "" && Number.isInteger(count) && count >= 0 && count <= MOST_LIMIT;
  const save = async () => {
    const { max_gpus = 0, reserved_gpus = 0 } = await putReservationLimit(project.trim(), count);
    told(`The project may reserve ${plural(max_gpus, "GPU")} by itself now; ${reserved_gpus} are reserved.`);
  };
  return (
      <Confirm
        trigger={
          <Button>
            <KeyRound size={15} aria-hidden="true" /> Set a limit
          </Button>
        }
        title="What a project may reserve by itself"
        action="Set the limit"
        ready={legal && project.trim() !== ""}
        run={save}
      >
        <p>Reservations come before those who wait in line, so a limit is a right to pass it. 0 leaves reserving to operators.</p>
        <ProjectField value={project} onChange={setProject} />
        <Field label="GPUs at most" problem={gpus !== "" && !legal ? "A whole number, 0 or more." : undefined} hint="Of all reservations that the project made and that are not over.">
          {({ id, describedBy }) => <input id={id} aria-describedby={describedBy} inputMode="numeric" value={gpus} onChange={(event) => setGpus(event.target.value)} />}
        </Field>
      </Confirm>
  );
}
