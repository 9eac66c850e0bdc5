/** The disks and the network that a launch gets: those come with its SKU, and one setting of the project is a choice. */
import { useProjectNetwork, useSetProjectNetwork } from "../../api/network";
import { useProjectId } from "../../api/tenancy";
import type { Sku } from "../../api/types";
import { plural } from "../../lib/text";
import { refusal, useProjectMay, useProjectRole } from "../../session/roles";
import { Button, Card, Facts } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { Loaded } from "../../ui/loaded";
import { useAsked } from "../../ui/use-asked";

/** What of disks and network comes with so many GPUs of a SKU. */
export function givenBy(sku: Sku, gpus: number): [string, string][] {
  if (sku.capacity_shape === "baremetal") {
    return [
      ["Disks", "All disks of the node, erased before and after use"],
      ["Network", "The node's own interfaces; login is not available yet"],
    ];
  }
  return [
    ["Disks", `${plural(gpus, "dedicated disk")}, one per GPU, wiped and verified empty before and after use. The size is shown after placement`],
    ["Network", "One private IPv4 address and one SSH port"],
    ["When stopped", "Disks and address are kept"],
  ];
}

export function Reach({ reach, project, etag }: { reach: boolean; project: string; etag: string | undefined }) {
  const set = useSetProjectNetwork(project);
  const mayChange = useProjectMay("write");
  const role = useProjectRole();
  const [asked, askAnew] = useAsked({ reach, etag });
  return (
    <>
      <span>{reach ? "VMs of the project on the same host can connect (IPv4)" : "VMs cannot connect to each other"} </span>
      {mayChange ? (
        <Confirm
          trigger={<Button small>{reach ? "Isolate VMs" : "Connect VMs"}</Button>}
          title={asked.reach ? "Isolate the VMs of the project?" : "Allow connections between the VMs of the project?"}
          action={asked.reach ? "Isolate" : "Allow"}
          reset={askAnew}
          run={() => set.mutateAsync({ vms_reach_each_other: !asked.reach, etag: asked.etag })}
        >
          <p>
            {asked.reach ? "VMs of the project can no longer connect to each other." : "VMs of the project on the same host can connect to each other at their private IPv4 addresses. To place VMs on the same host, choose Affinity above."} The setting applies to all VMs of the
            project; running VMs change within a minute. VMs of other projects can never connect.
          </p>
        </Confirm>
      ) : (
        <small className="muted">{refusal(role, "write")}</small>
      )}
    </>
  );
}

export function StorageAndNetwork({ sku, gpus }: { sku: Sku | undefined; gpus: number }) {
  const project = useProjectId();
  const network = useProjectNetwork(project);
  return (
    <Card title="Storage and network">
      {sku ? <Facts rows={givenBy(sku, gpus)} /> : <p className="muted">Choose a SKU first.</p>}
      {sku && sku.capacity_shape !== "baremetal" && (
        <Loaded of={[network]} lines={1} label="Loading the network of the project">
          {({ vms_reach_each_other = false, etag }) => <Facts rows={[["Between VMs", <Reach reach={vms_reach_each_other} project={project} etag={etag} />]]} />}
        </Loaded>
      )}
    </Card>
  );
}
