/** The quotas of the project and their use. */
import { useQuotas } from "../../api/queries";
import type { ProjectQuotas } from "../../api/types";
import { useMay } from "../../session/rights";
import { Card } from "../../ui/basics";
import { Loaded } from "../../ui/loaded";
import { Meter, type Part } from "../../ui/meter";
import { type Column, Table } from "../../ui/table";

const COLUMNS: Column[] = ["Resource", ["Limit", "number"], ["Used", "number"], ["Available", "number"], ["Utilization", "optional"]];

interface Quota {
  name: string;
  used: number;
  limit: number;
}

/** Allocations first, then the GPUs of each SKU. */
export function quotasOf({ used_allocations = 0, max_allocations = 0, quotas = [] }: ProjectQuotas): Quota[] {
  const gpus = quotas.map(({ sku = "", used_gpus = 0, max_gpus = 0 }) => ({ name: `GPUs of ${sku}`, used: used_gpus, limit: max_gpus }));
  return [{ name: "Allocations", used: used_allocations, limit: max_allocations }, ...gpus];
}

/** Never below zero: lowering a limit stops nothing, so more may be in use than it allows. */
function availableOf({ used, limit }: Pick<Quota, "used" | "limit">): number {
  return Math.max(0, limit - used);
}

/** The choice of the limit over all SKUs, beside the codes of those. */
export const ALLOCATIONS = "";

/** The limit that a choice stands for, and what is used of it. */
export function nowText({ max_allocations = 0, used_allocations = 0, quotas = [], default_max_gpus = 0 }: ProjectQuotas, sku: string): string {
  if (sku === ALLOCATIONS) return `Now ${max_allocations}, ${used_allocations} used.`;
  const { max_gpus = 0, used_gpus = 0 } = quotas.find((quota) => quota.sku === sku) ?? { max_gpus: default_max_gpus };
  return `Now ${max_gpus}, ${used_gpus} used.`;
}

export function partsOf({ used, limit }: Quota): Part[] {
  return [
    { label: "in use", value: used, tone: used < limit ? "busy" : "warn" },
    { label: "available", value: availableOf({ used, limit }), tone: "idle", hollow: true },
  ];
}

export function Quotas() {
  const found = useQuotas();
  const admin = useMay("manage");
  return (
    <Card title="Quotas">
      <Loaded of={[found]} lines={3} label="Loading quotas">
        {(data) => (
          <>
            <Table label="Quotas" columns={COLUMNS}>
              {quotasOf(data).map((quota) => (
                <tr key={quota.name}>
                  <td className="tight">{quota.name}</td>
                  <td className="number">{quota.limit}</td>
                  <td className="number">{quota.used}</td>
                  <td className="number">{availableOf(quota)}</td>
                  <td className="optional">
                    <Meter parts={partsOf(quota)} label={quota.name} />
                  </td>
                </tr>
              ))}
            </Table>
            <p className="muted">The limit of every other SKU is {data.default_max_gpus ?? 0} GPUs. Queued requests do not count. {admin ? "Raise a limit under Quotas." : "Ask an administrator to raise a limit."}</p>
          </>
        )}
      </Loaded>
    </Card>
  );
}
