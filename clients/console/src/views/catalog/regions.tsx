/** Regions: open or closed for launches, and deleted when they were made by mistake. */
import { useState } from "react";
import { useDeleteRegion, usePutRegion } from "../../api/catalog";
import { useRegions } from "../../api/queries";
import type { Region } from "../../api/types";
import { Badge, Button, Empty } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { Plus, Server } from "../../ui/icons";
import { Loaded } from "../../ui/loaded";
import { TableCard } from "../../ui/table";
import { TextField, isSlug, slugProblem } from "./parts";

function RegionForm({ region, trigger }: { region?: Region; trigger: React.ReactNode }) {
  const put = usePutRegion();
  const [code, setCode] = useState(region?.code ?? "");
  const [name, setName] = useState(region?.display_name ?? "");
  const [enabled, setEnabled] = useState(region?.enabled ?? true);
  const [reason, setReason] = useState(region?.unavailable_reason ?? "");
  const run = () => put.mutateAsync({ code, display_name: name.trim() || code, enabled, unavailable_reason: enabled ? "" : reason.trim(), etag: region?.etag });
  return (
    <Confirm needs="manage" trigger={trigger} title={region ? `Edit ${region.display_name || region.code}` : "Add a region"} action="Save" ready={isSlug(code)} run={run}>
      {!region && <TextField label="Code" mono value={code} onChange={setCode} problem={slugProblem(code)} hint="For example eu-west. It cannot be changed later." />}
      <TextField label="Display name" value={name} onChange={setName} />
      <label className="check">
        <input type="checkbox" checked={enabled} onChange={(event) => setEnabled(event.target.checked)} /> <span>Open for launches</span>
      </label>
      {!enabled && <TextField label="Reason, shown to users" value={reason} onChange={setReason} hint="Existing allocations continue." />}
    </Confirm>
  );
}

/** The end of a region that was made by mistake. */
export function DeleteRegion({ region }: { region: Region }) {
  const remove = useDeleteRegion();
  const [reason, setReason] = useState("");
  const { code = "", display_name, etag } = region;
  return (
    <Confirm needs="manage" danger trigger={<Button small aria-label={`Delete ${code}`}>Delete</Button>} title={`Delete ${display_name || code}?`} action="Delete" run={() => remove.mutateAsync({ code, etag, reason: reason.trim() })}>
      <p>Only for a region that you added by mistake. A region that has a node, or ever had an allocation, a reservation or an enrolled host, cannot be deleted. To stop launches, edit the region and close it.</p>
      <TextField label="Reason (optional)" value={reason} onChange={setReason} />
    </Confirm>
  );
}

export function Regions() {
  const add = (
    <RegionForm
      trigger={
        <Button kind="primary">
          <Plus size={16} aria-hidden="true" /> Add a region
        </Button>
      }
    />
  );
  return (
    <Loaded of={[useRegions()]} lines={4} label="Loading regions">
      {(regions) =>
        regions.length === 0 ? (
          <Empty icon={<Server size={28} />} title="No region yet" action={add}>
            A region is a site with nodes. Add one, then register nodes in it.
          </Empty>
        ) : (
          <>
            <div className="tab-actions">{add}</div>
            <TableCard label="Regions" columns={["Code", "Name", "State", ["Actions", "number"]]}>
              {regions.map((region) => (
                <tr key={region.code}>
                  <td className="tight">
                    <code>{region.code}</code>
                  </td>
                  <td>{region.display_name}</td>
                  <td>
                    {region.enabled ? <Badge tone="good">Open</Badge> : <Badge tone="warn">Closed</Badge>} {!region.enabled && <small className="muted">{region.unavailable_reason}</small>}
                  </td>
                  <td className="number">
                    <span className="page-actions">
                      <RegionForm key={JSON.stringify(region)} region={region} trigger={<Button small aria-label={`Edit ${region.code}`}>Edit</Button>} />
                      <DeleteRegion region={region} />
                    </span>
                  </td>
                </tr>
              ))}
            </TableCard>
          </>
        )
      }
    </Loaded>
  );
}
