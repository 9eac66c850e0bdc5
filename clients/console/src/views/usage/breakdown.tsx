/** Cost by SKU, allocation or project, as bars and numbers. */
import { placesFor } from "../../lib/money";
import { Card, MoneyText } from "../../ui/basics";
import { Segments } from "../../ui/form";
import { Table } from "../../ui/table";
import type { Group } from "./groups";

const MOST = 12;

const WAYS = [
  { value: "sku", label: "SKU" },
  { value: "allocation", label: "Allocation" },
];
const PROJECT = { value: "project", label: "Project" };

/** Length of a bar, from 0 to 100, against the longest of its currency. */
export function shareOf({ amount }: Group, groups: Group[]): number {
  const most = groups.reduce((max, other) => (other.amount.currency === amount.currency && other.amount.nanos > max ? other.amount.nanos : max), 0n);
  return most === 0n ? 0 : Number((amount.nanos * 100n) / most);
}

export function Breakdown({ groups, by, setBy, projects }: { groups: Group[]; by: string; setBy: (by: string) => void; /** There are several projects. */ projects: boolean }) {
  const ways = projects ? [...WAYS, PROJECT] : WAYS;
  const shown = groups.slice(0, MOST);
  const places = placesFor(shown.map(({ amount }) => amount));
  const title = ways.find(({ value }) => value === by)?.label ?? "SKU";
  return (
    <Card title={`Cost by ${title === "SKU" ? title : title.toLowerCase()}`} aside={<Segments label="Group by" options={ways} value={by} onChoose={setBy} />}>
      <Table label="Cost in groups" columns={[title, ["Share", "optional"], ["Amount", "number"]]}>
        {shown.map((group) => (
          <tr key={`${group.id} ${group.amount.currency}`}>
            <td>{group.name}</td>
            <td className="optional share">
              <span className="bar" style={{ width: `${Math.max(1, shareOf(group, groups))}%` }} />
            </td>
            <td className="number">
              <MoneyText amount={group.amount} places={places} />
            </td>
          </tr>
        ))}
      </Table>
      {groups.length > MOST && <p className="muted">The first {MOST} of {groups.length}. The export has all.</p>}
    </Card>
  );
}
