/** Actions on several allocations at once, for their members and, with a reason, for operators. */
import { useQueryClient } from "@tanstack/react-query";
import { client, unwrap } from "../../api/client";
import { operate, refreshOperated } from "../../api/tenants";
import type { Allocation } from "../../api/types";
import { learn } from "../../api/watches";
import { nameOf } from "../../lib/allocation-name";
import { Bulk } from "../../ui/bulk";
import { ReasonField } from "../project/parts";
import { VERBS, type Verb, open } from "./selection";
import { isHostLost } from "./state";

const WORDS: Record<Verb, string> = { start: "Start", stop: "Stop", release: "Release" };
const MEANINGS: Record<Verb, string> = {
  start: "The VMs start.",
  stop: "The VMs are shut down and keep their disks and addresses. Billing continues, because the GPUs stay allocated.",
  release: "Billing stops immediately. The VMs are deleted and their disks are wiped: all data is lost. This cannot be undone.",
};
const OPERATORS_VERBS = ["stop", "release"] as const;

function change(verb: Verb, allocation_id: string): Promise<Allocation> {
  return unwrap(client.POST(`/api/v1/allocations/{allocation_id}:${verb}`, { params: { path: { allocation_id } }, body: {} }));
}

interface Props {
  selected: Allocation[];
  /** The ids that are chosen, shown or not. */
  chosen: ReadonlySet<string>;
  /** Leaves only these ids selected. */
  keep: (ids: string[]) => void;
}

const OF = { label: "Selected allocations", noun: "allocation", id: ({ id = "" }: Allocation) => id, name: nameOf };

export function BulkActions({ selected, chosen, keep }: Props) {
  const queries = useQueryClient();
  const actions = VERBS.map((verb) => ({
    word: WORDS[verb],
    danger: verb === "release",
    open: open(verb, selected),
    text: MEANINGS[verb],
    run: async ({ id = "" }: Allocation) => learn(queries, await change(verb, id)),
  }));
  return <Bulk {...OF} selected={selected} chosen={chosen} keep={keep} actions={actions} after={() => queries.invalidateQueries({ queryKey: ["allocations"] })} />;
}

/** The same for operators, of allocations of any project. */
export function OperatorsBulk({ selected, chosen, keep }: Props) {
  const queries = useQueryClient();
  const actions = OPERATORS_VERBS.map((verb) => ({
    word: WORDS[verb],
    danger: verb === "release",
    // what a lost host has is only released by force, one by one
    open: open(verb, selected).filter((one) => !isHostLost(one)),
    text: MEANINGS[verb],
    reason: (value: string, onChange: (value: string) => void) => <ReasonField value={value} onChange={onChange} />,
    run: ({ id = "" }: Allocation, reason: string) => operate(id, verb, reason),
  }));
  return <Bulk {...OF} needs="operate" selected={selected} chosen={chosen} keep={keep} actions={actions} after={() => refreshOperated(queries)} />;
}
