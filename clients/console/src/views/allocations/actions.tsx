/** What the owner can do to an allocation: power and release. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { client, unwrap } from "../../api/client";
import type { Allocation } from "../../api/types";
import { learn } from "../../api/watches";
import { Button } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { Play, RotateCw, Square, Trash2 } from "../../ui/icons";
import { ProblemNote } from "../../ui/problem";
import { isWhole } from "./state";

type PowerVerb = "stop" | "start" | "reboot";

function changePower(allocation_id: string, verb: PowerVerb): Promise<Allocation> {
  return unwrap(client.POST(`/api/v1/allocations/{allocation_id}:${verb}`, { params: { path: { allocation_id } }, body: {} }));
}

export function Actions({ allocation }: { allocation: Allocation }) {
  const queries = useQueryClient();
  const id = allocation.id ?? "";
  const name = allocation.config?.name ?? id;
  const { state, power } = allocation.status ?? {};
  const changed = (next: Allocation) => {
    learn(queries, next);
    void queries.invalidateQueries({ queryKey: ["allocations"] });
  };
  const turn = useMutation({ mutationFn: (verb: PowerVerb) => changePower(id, verb), onSuccess: changed });
  const release = async () => {
    const call = client.POST("/api/v1/allocations/{allocation_id}:release", { params: { path: { allocation_id: id } }, body: {} });
    changed(await unwrap(call));
  };
  if (state === "requested") {
    return (
      <Confirm danger trigger={<Button kind="danger">Stop waiting</Button>} title={`Stop waiting for ${name}?`} action="Stop waiting" run={release}>
        It leaves the line. Nothing was billed; a new launch joins at the end.
      </Confirm>
    );
  }
  if (!["reserved", "provisioning", "active"].includes(state ?? "")) return null;
  const busy = turn.isPending;
  const whole = isWhole(allocation);
  return (
    <>
      {!whole && state === "active" && power === "stopped" && (
        <Button busy={busy} onClick={() => turn.mutate("start")}>
          <Play size={15} aria-hidden="true" /> Start
        </Button>
      )}
      {!whole && state === "active" && power === "running" && (
        <Confirm trigger={<Button busy={busy}><RotateCw size={15} aria-hidden="true" /> Reboot</Button>} title={`Reboot ${name}?`} action="Reboot" run={() => turn.mutateAsync("reboot")}>
          Everyone who is logged in is cut off for the time of a restart. Disk and address stay.
        </Confirm>
      )}
      {!whole && state === "active" && power === "running" && (
        <Confirm trigger={<Button busy={busy}><Square size={14} aria-hidden="true" /> Stop</Button>} title={`Stop ${name}?`} action="Stop" run={() => turn.mutateAsync("stop")}>
          <p>The machine is shut down; disk and address stay, and you can start it again.</p>
          <p>
            <strong>It is billed on:</strong> its GPUs stay yours. Release it to end the cost.
          </p>
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
        {whole ? (
          <p>Billing stops at once. The node is erased, and sold to nobody until its disks are approved anew.</p>
        ) : (
          <p>Billing stops at once. The machine is shut down and its disk is wiped and proven empty.</p>
        )}
        <p>
          <strong>All data on it is lost.</strong> This cannot be undone.
        </p>
      </Confirm>
      {turn.error && <ProblemNote error={turn.error} />}
    </>
  );
}
