/** Stop and release of somebody's allocation by an operator, with a reason that its members read. */
import { useState } from "react";
import { useOperate } from "../../api/tenants";
import type { Allocation } from "../../api/types";
import { nameOf } from "../../lib/allocation-name";
import { Button } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { ReasonField } from "../project/parts";
import { open } from "./selection";

const WORDS = {
  stop: ["Stop", "The VM is shut down. It keeps its disk, address and GPUs, and billing continues. Members of the project can start the VM again: if the node must become empty, release the allocation."],
  release: ["Release", "Billing stops immediately. The VM is deleted, and its disks are wiped: all data is lost. This cannot be undone."],
} as const;

function Verb({ allocation, verb }: { allocation: Allocation; verb: "stop" | "release" }) {
  const id = allocation.id ?? "";
  const name = nameOf(allocation);
  const operate = useOperate(id);
  const [reason, setReason] = useState("");
  const [word, meaning] = WORDS[verb];
  return (
    <Confirm
      needs="operate"
      danger
      trigger={
        <Button small aria-label={`${word} ${name}`}>
          {word}
        </Button>
      }
      title={`${word} ${name}?`}
      action={word}
      ready={reason.trim() !== ""}
      run={() => operate.mutateAsync({ verb, reason: reason.trim() })}
    >
      <p>{meaning}</p>
      <ReasonField value={reason} onChange={setReason} />
    </Confirm>
  );
}

export function Operate({ allocation }: { allocation: Allocation }) {
  const verbs = (["stop", "release"] as const).filter((verb) => open(verb, [allocation]).length > 0);
  return verbs.map((verb) => <Verb key={verb} allocation={allocation} verb={verb} />);
}
