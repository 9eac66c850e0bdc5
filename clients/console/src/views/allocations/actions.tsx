/** Actions on an allocation: power and release. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { client, unwrap } from "../../api/client";
import type { Allocation } from "../../api/types";
import { learn } from "../../api/watches";
import { nameOf } from "../../lib/allocation-name";
import { Button } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { Play, RotateCw, Square, Trash2 } from "../../ui/icons";
import { ProblemNote } from "../../ui/problem";
import { Rescue } from "./rescue";
import { isBaremetal, isReachable } from "./state";

type PowerVerb = "stop" | "start" | "reboot" | "unrescue";

function changePower(allocation_id: string, verb: PowerVerb, force: boolean): Promise<Allocation> {
  const body = verb !== "start" && force ? { force } : {};
  return unwrap(client.POST(`/api/v1/allocations/{allocation_id}:${verb}`, { params: { path: { allocation_id } }, body }));
}

/** Whether the VM is turned off without a shutdown; it is not, until somebody chooses so. */
function Force({ force, choose }: { force: boolean; choose: (force: boolean) => void }) {
  return (
    <label className="check">
      <input type="checkbox" checked={force} onChange={(event) => choose(event.target.checked)} />
      <span>
        Force: turn the VM off without shutting it down
        <small>For a VM that hangs. Data that is not on disk yet is lost.</small>
      </span>
    </label>
  );
}

export function Actions({ allocation }: { allocation: Allocation }) {
  const queries = useQueryClient();
  const [force, setForce] = useState(false);
  const id = allocation.id ?? "";
  const name = nameOf(allocation);
  const { state, power } = allocation.status ?? {};
  const changed = (next: Allocation) => {
    learn(queries, next);
    void queries.invalidateQueries({ queryKey: ["allocations"] });
  };
  const turn = useMutation({ mutationFn: (verb: PowerVerb) => changePower(id, verb, force), onSuccess: changed });
  const release = async () => {
    const call = client.POST("/api/v1/allocations/{allocation_id}:release", { params: { path: { allocation_id: id } }, body: {} });
    changed(await unwrap(call));
  };
  if (state === "requested") {
    return (
      <Confirm danger trigger={<Button kind="danger">Cancel request</Button>} title={`Cancel ${name}?`} action="Cancel request" run={release}>
        The request leaves the queue. Nothing was billed. A new launch joins at the end of the queue.
      </Confirm>
    );
  }
  if (!["reserved", "provisioning", "active"].includes(state ?? "")) return null;
  const busy = turn.isPending;
  const baremetal = isBaremetal(allocation);
  return (
    <>
      {!baremetal && state === "active" && power === "stopped" && (
        <Button busy={busy} onClick={() => turn.mutate("start")}>
          <Play size={15} aria-hidden="true" /> Start
        </Button>
      )}
      {!baremetal && state === "active" && power === "running" && (
        <Confirm trigger={<Button busy={busy} onClick={() => setForce(false)}><RotateCw size={15} aria-hidden="true" /> Reboot</Button>} title={`Reboot ${name}?`} action="Reboot" run={() => turn.mutateAsync("reboot")}>
          <p>All sessions are disconnected during the restart. The VM keeps its disk and address.</p>
          <Force force={force} choose={setForce} />
        </Confirm>
      )}
      {!baremetal && state === "active" && power === "rescued" && (
        <Confirm trigger={<Button busy={busy} onClick={() => setForce(false)}><RotateCw size={15} aria-hidden="true" /> End rescue</Button>} title={`End the rescue of ${name}?`} action="End rescue" run={() => turn.mutateAsync("unrescue")}>
          <p>The VM starts from its own disk again. The rescue disk is deleted.</p>
          <Force force={force} choose={setForce} />
        </Confirm>
      )}
      {!baremetal && state === "active" && (power === "running" || power === "stopped") && <Rescue allocation={allocation} done={changed} />}
      {!baremetal && state === "active" && isReachable(allocation) && (
        <Confirm trigger={<Button busy={busy} onClick={() => setForce(false)}><Square size={14} aria-hidden="true" /> Stop</Button>} title={`Stop ${name}?`} action="Stop" run={() => turn.mutateAsync("stop")}>
          <p>The VM is shut down. It keeps its disk and address, and you can start it again.</p>
          <p>
            <strong>Billing continues</strong> because its GPUs stay allocated. Release it to stop billing.
          </p>
          <Force force={force} choose={setForce} />
        </Confirm>
      )}
      <Confirm
        danger
        trigger={
          <Button kind="danger">
            <Trash2 size={15} aria-hidden="true" /> Release
          </Button>
        }
        title={`Release ${name}?`}
        action="Release"
        run={release}
      >
        {baremetal ? (
          <p>Billing stops immediately. The node is erased and stays unschedulable until an operator approves its disks again.</p>
        ) : (
          <p>Billing stops immediately. The VM is shut down, and its disk is wiped and verified empty.</p>
        )}
        <p>
          <strong>All data on the disk is lost.</strong> This cannot be undone.
        </p>
      </Confirm>
      {turn.error && <ProblemNote error={turn.error} />}
    </>
  );
}
