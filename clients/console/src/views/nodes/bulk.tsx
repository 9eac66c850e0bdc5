/** Changes of several nodes, or of several slots of one, at once, with one reason for all. */
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { type Verb, changePlacement, placementVerbs } from "../../api/placement";
import { changeSlot } from "../../api/nodes";
import { useDiscoveries } from "../../api/queries";
import type { InventoryNode, Slot } from "../../api/types";
import { Bulk, type BulkAction } from "../../ui/bulk";
import { type NodeToken, Tokens, enrolmentActions, hostnameOf } from "./enrolment";
import type { Placements } from "./fleet";
import { Reason } from "./parts";
import { isRepairable } from "./three-way";

const WORDS: [Verb, string, string][] = [
  ["cordon", "Cordon", "These nodes take no new allocations. Existing allocations continue."],
  ["drain", "Drain", "These nodes take no new allocations. Nothing is stopped: each drain waits until owners release their allocations."],
  ["uncordon", "Uncordon", "These nodes take new allocations again as soon as they are ready."],
];

/** What of a choice does not depend on what is chosen. */
interface Chosen {
  /** The ids that are chosen, shown or not. */
  chosen: ReadonlySet<string>;
  /** Leaves only these ids selected. */
  keep: (ids: string[]) => void;
}

/** What can be done with several nodes; as with one, to end it needs no reason. */
export function nodeActions(selected: InventoryNode[], placements: Placements, change: (id: string, verb: Verb, reason: string) => Promise<unknown>): BulkAction<InventoryNode>[] {
  return WORDS.map(([verb, word, text]) => {
    const optional = verb === "uncordon";
    return {
      word,
      open: selected.filter(({ id = "" }) => placementVerbs(placements.get(id)).includes(verb)),
      text,
      optional,
      reason: (value, onChange) => <Reason id={`${verb}-selected-why`} label={optional ? "Reason (optional)" : "Reason"} value={value} onChange={onChange} />,
      run: ({ id = "" }, reason) => change(id, verb, reason),
    };
  });
}

export function NodesBulk({ selected, chosen, keep, placements, slots }: Chosen & { selected: InventoryNode[]; placements: Placements; slots: (node: string) => Slot[] }) {
  const queries = useQueryClient();
  const [tokens, setTokens] = useState<NodeToken[]>([]);
  const discoveries = useDiscoveries(selected.filter(({ status }) => status?.state === "enrolled").map(({ id = "" }) => id));
  const made = (token: NodeToken) => setTokens((before) => [...before.filter(({ hostname }) => hostname !== token.hostname), token]);
  const actions = [
    ...nodeActions(selected, placements, (id, verb, reason) => changePlacement(queries, id, verb, reason, placements.get(id)?.etag)),
    ...enrolmentActions(selected, { slots, discoveries, made }),
  ];
  return (
    <>
      <Bulk
        label="Selected nodes"
        noun="node"
        needs="operate"
        selected={selected}
        chosen={chosen}
        id={({ id = "" }) => id}
        name={hostnameOf}
        keep={keep}
        actions={actions}
        after={() => Promise.all(["placements", "discovery"].map((key) => queries.invalidateQueries({ queryKey: [key] })))}
      />
      {tokens.length > 0 && <Tokens tokens={tokens} done={() => setTokens([])} />}
    </>
  );
}

/** Which of several slots a change applies to. Pure. */
export function openSlots(verb: "disable" | "enable" | "repair", slots: Slot[]): Slot[] {
  if (verb === "repair") return slots.filter(isRepairable);
  return slots.filter(({ status, disabled = false }) => status !== "retired" && disabled === (verb === "enable"));
}

export function SlotsBulk({ selected, chosen, keep }: Chosen & { selected: Slot[] }) {
  const why = (verb: string) => (value: string, onChange: (value: string) => void) => <Reason id={`${verb}-selected-why`} label="Reason" value={value} onChange={onChange} />;
  return (
    <Bulk
      label="Selected slots"
      noun="slot"
      needs="operate"
      selected={selected}
      chosen={chosen}
      id={({ id = "" }) => id}
      name={({ slot_index }) => `slot ${slot_index}`}
      keep={keep}
      after={() => undefined}
      actions={[
        { word: "Disable", open: openSlots("disable", selected), text: "These slots become unschedulable. Their allocations continue until release.", reason: why("disable"), run: (slot, reason) => changeSlot(slot, "disable", reason) },
        { word: "Enable", open: openSlots("enable", selected), text: "These slots are schedulable again as soon as they are healthy and clean.", run: (slot) => changeSlot(slot, "enable") },
        { word: "Repair", danger: true, open: openSlots("repair", selected), text: "The disks of these slots are wiped and verified empty. Then the slots are schedulable again.", reason: why("repair"), run: (slot, reason) => changeSlot(slot, "repair", reason) },
      ]}
    />
  );
}
