/** An allocation by its name: from the list of what runs, or by itself where it has ended. */
import { Link } from "wouter";
import { useAllocation } from "../../api/queries";
import type { Allocation } from "../../api/types";
import type { ById } from "../../api/watches";
import { nameOf } from "../../lib/allocation-name";
import { shortId } from "../../lib/text";

export function Named({ id, view }: { id: string; view: ById<Allocation> | undefined }) {
  const ended = useAllocation(view && !view[id] ? id : "").data;
  const found = view?.[id] ?? ended;
  return <Link href={`/allocations/${id}`}>{found ? nameOf(found) : shortId(id)}</Link>;
}
