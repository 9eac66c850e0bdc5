/** What the project may hold at once, and how much of it it holds. */
import { useQuotas } from "../../api/queries";
import type { ProjectQuotas } from "../../api/types";
import { Card } from "../../ui/basics";
import { Loaded } from "../../ui/loaded";
import { Meter, type Part } from "../../ui/meter";
import { type Column, Table } from "../../ui/table";

const COLUMNS: Column[] = ["Limit", ["In use", "number"], ["At most", "number"], ["Use", "optional"]];

interface Limit {
  name: string;
  used: number;
  most: number;
}

/** Allocations first, then the GPUs of each product. */
export function limitsOf({ used_allocations = 0, max_allocations = 0, quotas = [] }: ProjectQuotas): Limit[] {
  const gpus = quotas.map(({ sku = "", used_gpus = 0, max_gpus = 0 }) => ({ name: `GPUs of ${sku}`, used: used_gpus, most: max_gpus }));
  return [{ name: "Allocations", used: used_allocations, most: max_allocations }, ...gpus];
}

/** A limit that was lowered stops nothing that runs: more may be in use than it allows. */
export function partsOf({ used, most }: Limit): Part[] {
  return [
    { label: "in use", value: used, tone: used < most ? "busy" : "warn" },
    { label: "left", value: Math.max(0, most - used), tone: "idle", hollow: true },
  ];
}

export function Limits() {
  const quotas = useQuotas();
  return (
    <Card title="What the project may hold at once">
      <Loaded of={[quotas]} lines={3} label="Loading the limits">
        {(data) => (
          <>
            <Table label="Limits" columns={COLUMNS}>
              {limitsOf(data).map((limit) => (
                <tr key={limit.name}>
                  <td className="tight">{limit.name}</td>
                  <td className="number">{limit.used}</td>
                  <td className="number">{limit.most}</td>
                  <td className="optional">
                    <Meter parts={partsOf(limit)} label={limit.name} />
                  </td>
                </tr>
              ))}
            </Table>
            <p className="muted">Of every product that is not named: {data.default_max_gpus ?? 0} GPUs. Ask an operator for more. What waits for capacity does not count.</p>
          </>
        )}
      </Loaded>
    </Card>
  );
}
