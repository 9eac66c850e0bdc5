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
import { useAsked } from "../../ui/use-asked";
import { TextField, isSlug, slugProblem } from "./parts";

const draftOf = (region?: Region) => ({ code: region?.code ?? "", name: region?.display_name ?? "", enabled: region?.enabled ?? true, reason: region?.unavailable_reason ?? "" });

export function RegionForm({ region, trigger }: { region?: Region; trigger: React.ReactNode }) {
  const put = usePutRegion();
  const [asked, askAnew] = useAsked(region);
  const [typed, setTyped] = useState<ReturnType<typeof draftOf>>();
  const draft = typed ?? draftOf(asked);
  const { code, name, enabled, reason } = draft;
  const set = (part: Partial<typeof draft>) => setTyped({ ...draft, ...part });
  const reset = () => {
    askAnew();
    setTyped(undefined);
  };
  const run = () => put.mutateAsync({ code, display_name: name.trim() || code, enabled, unavailable_reason: enabled ? "" : reason.trim(), etag: asked?.etag });
  return (
    <Confirm needs="manage" trigger={trigger} title={asked ? `Edit ${asked.display_name || asked.code}` : "Add a region"} action="Save" ready={isSlug(code)} changed={asked?.etag !== region?.etag} reset={reset} run={run}>
      {!asked && <TextField label="Code" mono value={code} onChange={(code) => set({ code })} problem={slugProblem(code)} hint="For example eu-west. It cannot be changed later." />}
      <TextField label="Display name" value={name} onChange={(name) => set({ name })} />
      <label className="check">
        <input type="checkbox" checked={enabled} onChange={(event) => set({ enabled: event.target.checked })} /> <span>Open for launches</span>
      </label>
      {!enabled && <TextField label="Reason, shown to users" value={reason} onChange={(reason) => set({ reason })} hint="Existing allocations continue." />}
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
                      <RegionForm region={region} trigger={<Button small aria-label={`Edit ${region.code}`}>Edit</Button>} />
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
