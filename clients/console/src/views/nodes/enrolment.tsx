/** How several nodes come into the fleet at once, or go before they did: tokens for their agents, discovery, approval, deletion. */
import type { components } from "@gpuaas/sdk";
import { createEnrolmentToken } from "../../api/catalog";
import { approveSlots, deleteNode, discover } from "../../api/nodes";
import type { Discovery, InventoryNode, Slot } from "../../api/types";
import { csvOf, download } from "../../lib/csv";
import { plural } from "../../lib/text";
import { Button, Card, Code, Planned } from "../../ui/basics";
import type { BulkAction } from "../../ui/bulk";
import { Table } from "../../ui/table";
import { blockersOf } from "./choose";
import { isNew } from "./drift";
import { Reason } from "./parts";
import { endOf } from "./removal";

type EnrolmentToken = components["schemas"]["inventory.EnrolmentToken"];

/** A token that was made just now, with the node that it is for. */
export interface NodeToken extends EnrolmentToken {
  hostname: string;
}

export const hostnameOf = ({ config, id = "" }: InventoryNode) => config?.hostname ?? id;

/** What can be approved of a node's latest discovery as it stands: new candidates that nothing stands against. */
export function approvable(discovery: Discovery | undefined, slots: Slot[]): number[] {
  if (discovery?.state !== "completed") return [];
  const open = (discovery.candidates ?? []).filter((candidate) => isNew(candidate, slots) && blockersOf(candidate, discovery).length === 0);
  return open.map(({ slot_index = 0 }) => slot_index);
}

interface Known {
  slots: (node: string) => Slot[];
  discoveries: ReadonlyMap<string, Discovery>;
  /** Is given each token that was made. */
  made: (token: NodeToken) => void;
}

/** What can be done with several nodes before they take allocations; without what applies to none of them. */
export function enrolmentActions(selected: InventoryNode[], { slots, discoveries, made }: Known): BulkAction<InventoryNode>[] {
  const indexes = ({ id = "" }: InventoryNode) => approvable(discoveries.get(id), slots(id));
  const pending = selected.filter(({ status }) => status?.state === "pending");
  const approved = selected.filter((node) => indexes(node).length > 0);
  const actions: BulkAction<InventoryNode>[] = [
    {
      word: "Enrol",
      open: pending,
      text: "Each node gets a new enrolment token for its agent, shown once. Earlier tokens of these nodes stop working.",
      run: async (node) => made({ ...(await createEnrolmentToken(node.id ?? "")), hostname: hostnameOf(node) }),
    },
    {
      word: "Discover",
      open: selected.filter(({ status, config }) => status?.state === "enrolled" && config?.mode !== "baremetal"),
      text: "Inspects the hosts of these nodes for slots. The hosts are not changed.",
      run: ({ id = "" }) => discover(id),
    },
    {
      word: "Approve",
      open: approved,
      text: (
        <>
          Approves all candidates of the latest discovery, per node all or none, with devices, addresses and disks as discovered. The disks will be wiped.
          {approved.map((node) => (
            <span key={node.id} className="block">
              {hostnameOf(node)}: {plural(indexes(node).length, "slot")} ({indexes(node).join(", ")})
            </span>
          ))}
        </>
      ),
      run: (node) => approveSlots(node.id ?? "", { discovery_id: discoveries.get(node.id ?? "")?.id ?? "", slot_indexes: indexes(node) }),
    },
    {
      word: "Delete",
      danger: true,
      // placement knows no node that has not enrolled
      open: pending.filter((node) => endOf(node, null, slots(node.id ?? "").length) === "delete"),
      text: "These nodes never enrolled. Their enrolment tokens stop working.",
      optional: true,
      reason: (value, onChange) => <Reason id="delete-selected-why" label="Reason (optional)" value={value} onChange={onChange} />,
      run: deleteNode,
    },
  ];
  return actions.filter(({ open }) => open.length > 0);
}

/** In the order of the list, whichever was made first. */
const inOrder = (tokens: NodeToken[]) => [...tokens].sort((a, b) => a.hostname.localeCompare(b.hostname, "en", { numeric: true }));

/** Tokens that were made just now; whoever leaves the page before they are saved makes new ones. */
export function Tokens({ tokens, done }: { tokens: NodeToken[]; done: () => void }) {
  const save = () => download("enrolment-tokens.csv", csvOf(["hostname", "token", "expire_time"], inOrder(tokens).map(({ hostname, token = "", expire_time = "" }) => [hostname, token, expire_time])));
  return (
    <Card
      title="Enrolment tokens"
      aside={
        <span className="page-actions">
          <Button small onClick={save}>
            Export CSV
          </Button>
          <Button small kind="primary" onClick={done}>
            I have saved them
          </Button>
        </span>
      }
    >
      <p>
        On each host, write its token into the file that <code>agent.enrolment.token_file</code> names, mode 0600, then start <code>gpuaas-node-agent</code>. <strong>The tokens are shown once</strong> and each works once.
      </p>
      <Table label="Enrolment tokens" columns={["Node", "Token", "Expires"]}>
        {inOrder(tokens).map(({ hostname, token = "", expire_time }) => (
          <tr key={hostname}>
            <td className="tight">{hostname}</td>
            <td>
              <Code text={token} label={`token of ${hostname}`} />
            </td>
            <td className="tight">
              <Planned value={expire_time} />
            </td>
          </tr>
        ))}
      </Table>
    </Card>
  );
}
