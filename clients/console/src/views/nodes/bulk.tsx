/** Cordon, drain and uncordon of several nodes at once, with one reason for all. */
import { useQueryClient } from "@tanstack/react-query";
import { type Verb, changePlacement, placementVerbs } from "../../api/placement";
import type { InventoryNode } from "../../api/types";
import { Bulk } from "../../ui/bulk";
import type { Placements } from "./fleet";
import { Reason } from "./parts";

const WORDS: [Verb, string, string][] = [
  ["cordon", "Cordon", "They take no new allocations. Existing allocations continue."],
  ["drain", "Drain", "They take no new allocations. Nothing is stopped: each drain waits until owners release their allocations."],
  ["uncordon", "Uncordon", "They take new allocations again as soon as they are ready."],
];

export function NodesBulk({ selected, keep, placements }: { selected: InventoryNode[]; /** Leaves only these ids selected. */ keep: (ids: string[]) => void; placements: Placements }) {
  const queries = useQueryClient();
  const actions = WORDS.map(([verb, word, text]) => ({
    word,
    open: selected.filter(({ id = "" }) => placementVerbs(placements.get(id)).includes(verb)),
    text,
    reason: (value: string, onChange: (value: string) => void) => <Reason id={`${verb}-selected-why`} label="Reason" value={value} onChange={onChange} />,
    run: ({ id = "" }: InventoryNode, reason: string) => changePlacement(queries, id, verb, reason, placements.get(id)?.etag),
  }));
  return (
    <Bulk
      label="Selected nodes"
      noun="node"
      needs="operate"
      selected={selected}
      id={({ id = "" }) => id}
      name={({ config, id = "" }) => config?.hostname ?? id}
      keep={keep}
      actions={actions}
      after={() => queries.invalidateQueries({ queryKey: ["placements"] })}
    />
  );
}
