/** The discovered candidates of a node, and their approval as slots. */
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { approveSlots, discover } from "../../api/nodes";
import { useDiscovery } from "../../api/queries";
import type { Discovery, Slot, SlotCandidate } from "../../api/types";
import { bytes, plural, sentence } from "../../lib/text";
import { useMay } from "../../session/rights";
import { Badge, Button, Empty, Skeleton, Time, type Tone } from "../../ui/basics";
import { Confirm } from "../../ui/dialog";
import { Select } from "../../ui/form";
import { Radar } from "../../ui/icons";
import { ProblemNote } from "../../ui/problem";
import { type Column, Table } from "../../ui/table";
import { blockersOf, CHOICES, type Chosen, choicesOf, optionsOf, type SlotChoice } from "./choose";
import { Comparison } from "./compare";
import { fieldName, isNew } from "./drift";

const COLUMNS: Column[] = [[<span className="visually-hidden">Approve</span>], "Slot", "GPU", "Disk", ["Address", "optional"], "Status"];
const TONES: Record<string, Tone> = { queued: "busy", running: "busy", completed: "good", failed: "bad" };

function Counts({ discovery }: { discovery: Discovery }) {
  const s = discovery.candidate_summary;
  if (!s) return null;
  const parts: [number | undefined, string][] = [
    [s.gpu_devices, "GPUs"],
    [s.fabric_devices, "fabric devices"],
    [s.nvme_devices, "disks"],
    [s.mounted_nvme_devices, "mounted disks"],
    [s.hugepages_1g_free, "free 1 GiB pages"],
    [s.candidate_slots, "candidates"],
  ];
  return (
    <ul className="counts-line">
      {parts.map(([count, label]) => (
        <li key={label}>
          <strong>{count ?? 0}</strong> {label}
        </li>
      ))}
      {s.reboot_required && <li className="bad-text">reboot required</li>}
    </ul>
  );
}

/** Other devices for a slot, and another way to wipe its disk. */
function Choices({ candidate, discovery, slots, choice, choose }: { candidate: SlotCandidate; discovery: Discovery; slots: Slot[]; choice: SlotChoice; choose: (choice: SlotChoice) => void }) {
  const options = optionsOf(candidate, discovery, slots, choice);
  return (
    <details>
      <summary>Change</summary>
      {CHOICES.map((field) => (
        <Select
          key={field}
          label={fieldName(field)}
          options={options[field]}
          value={choice[field] ?? ""}
          // another disk may be wiped in other ways
          onChoose={(value) => choose({ ...choice, ...(field === "nvme_device" && { destructive_wipe_policy: "" }), [field]: value })}
        />
      ))}
    </details>
  );
}

function CandidateRow({ candidate, discovery, slots, picked, toggle, choice, choose }: { candidate: SlotCandidate; discovery: Discovery; slots: Slot[]; picked: boolean; toggle: () => void; choice: SlotChoice; choose: (choice: SlotChoice) => void }) {
  const { slot_index = 0, slot_class, bindings } = candidate;
  const blockers = blockersOf(candidate, discovery, choice);
  const changed = Object.values(choice).some(Boolean);
  const fresh = isNew(candidate, slots);
  const approvable = fresh && blockers.length === 0;
  return (
    <tr>
      <td>
        <input type="checkbox" aria-label={`Candidate ${slot_index}`} checked={picked && approvable} disabled={!approvable} onChange={toggle} />
      </td>
      <td>
        <strong>{slot_index}</strong> <span className="muted">{slot_class}</span>
      </td>
      <td>
        <code>{bindings?.gpu_pci_address || "no GPU"}</code>
      </td>
      <td>
        <code>{bindings?.nvme_device}</code> {bindings?.nvme_bytes && <span className="muted">{bytes(Number(bindings.nvme_bytes))}</span>}
        {fresh && bindings?.gpu_pci_address && <Choices candidate={candidate} discovery={discovery} slots={slots} choice={choice} choose={choose} />}
      </td>
      <td className="optional">
        {bindings?.private_ip} <span className="muted">{bindings?.management_mac}</span>
        {candidate.ovs_interface_id && (
          <p className="muted">
            Port <code>{candidate.ovs_interface_id}</code>
          </p>
        )}
      </td>
      <td>
        {!fresh && <Badge tone="idle">Approved</Badge>}
        {fresh && blockers.length === 0 && <Badge tone="good">{changed ? "Changed" : "New"}</Badge>}
        {blockers.map((blocker) => (
          <p key={blocker} className="blocker">
            {blocker}
          </p>
        ))}
      </td>
    </tr>
  );
}

export function DiscoveryPanel({ nodeId, hostname, slots }: { nodeId: string; hostname: string; slots: Slot[] }) {
  const queries = useQueryClient();
  const mayDiscover = useMay("operate");
  const found = useDiscovery(nodeId);
  const [left, setLeft] = useState<Set<number>>(new Set());
  const [choices, setChoices] = useState<Chosen>({});
  const discovering = useMutation({
    mutationFn: () => discover(nodeId),
    onSuccess: (discovery) => {
      setLeft(new Set());
      setChoices({});
      queries.setQueryData(["discovery", nodeId], discovery);
    },
  });
  const discovery = found.data;
  const busy = ["queued", "running"].includes(discovery?.state ?? "");
  const candidates = discovery?.candidates ?? [];
  const isApprovable = (c: SlotCandidate) => discovery && isNew(c, slots) && blockersOf(c, discovery, choices[c.slot_index ?? 0]).length === 0;
  const chosen = candidates.filter((c) => isApprovable(c) && !left.has(c.slot_index ?? 0)).map((c) => c.slot_index ?? 0);
  const changed = choicesOf(choices, chosen);
  const approve = () => approveSlots(nodeId, { discovery_id: discovery?.id ?? "", slot_indexes: chosen, ...(changed.length > 0 && { choices: changed }) });
  const toggle = (index: number) => {
    const next = new Set(left);
    if (!next.delete(index)) next.add(index);
    setLeft(next);
  };
  return (
    <>
    <div className="card">
      <header>
        <h2>
          Discovery {discovery && <Badge tone={TONES[discovery.state ?? ""] ?? "idle"}>{sentence(discovery.state ?? "")}</Badge>}
        </h2>
        <div className="page-actions">
          {mayDiscover && (
            <Button busy={discovering.isPending || busy} onClick={() => discovering.mutate()}>
              <Radar size={15} aria-hidden="true" /> Discover
            </Button>
          )}
          {discovery?.state === "completed" && (
            <Confirm
      needs="operate"
              trigger={
                <Button kind="primary" disabled={chosen.length === 0}>
                  Approve {chosen.length > 0 ? chosen.length : ""}
                </Button>
              }
              title={`Approve ${plural(chosen.length, "slot")} of ${hostname}?`}
              action="Approve"
              run={approve}
            >
              <p>
                {chosen.length === 1 ? "Slot" : "Slots"} {chosen.join(", ")}: this binds the devices, addresses and disks as shown. The disks will be wiped. Either all slots are approved or none.
              </p>
              {changed.map(({ slot_index, ...fields }) => (
                <p key={slot_index}>
                  Slot {slot_index} gets{" "}
                  {Object.entries(fields)
                    .map(([field, value]) => `${fieldName(field).toLowerCase()} ${value}`)
                    .join(", ")}
                  .
                </p>
              ))}
            </Confirm>
          )}
        </div>
      </header>
      {discovering.error && <ProblemNote error={discovering.error} />}
      {found.isPending && <Skeleton lines={4} label="Loading the discovery" />}
      {found.error && <ProblemNote error={found.error} retry={() => found.refetch()} />}
      {discovery === null && <Empty title="No discovery yet">A discovery inspects the host and changes nothing.</Empty>}
      {discovery?.error && (
        <p className="blocker" role="alert">
          {discovery.error}
        </p>
      )}
      {discovery && <Counts discovery={discovery} />}
      {discovery?.candidate_summary?.blockers?.map((blocker) => (
        <p key={blocker} className="blocker">
          {blocker}
        </p>
      ))}
      {discovery && candidates.length > 0 && (
        <Table label="Candidates" columns={COLUMNS}>
          {candidates.map((candidate) => (
            <CandidateRow
              key={candidate.slot_index}
              candidate={candidate}
              discovery={discovery}
              slots={slots}
              picked={!left.has(candidate.slot_index ?? 0)}
              toggle={() => toggle(candidate.slot_index ?? 0)}
              choice={choices[candidate.slot_index ?? 0] ?? {}}
              choose={(choice) => setChoices({ ...choices, [candidate.slot_index ?? 0]: choice })}
            />
          ))}
        </Table>
      )}
      {discovery && (
        <p className="muted">
          Discovered <Time value={discovery.end_time ?? discovery.create_time} />. You can only approve the latest discovery.
        </p>
      )}
    </div>
    <Comparison comparisons={discovery?.comparisons ?? []} />
    </>
  );
}
