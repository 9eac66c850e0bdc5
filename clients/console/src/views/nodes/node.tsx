/** One node: readiness, slots, topology, checks, images. */
import { Tabs } from "radix-ui";
import { useEffect } from "react";
import { useNode, useNodeImages, usePlacement } from "../../api/queries";
import { slotsOf, useFleetWatch } from "../../api/watches";
import { Badge, Empty, Facts, LabMark, Skeleton, Time } from "../../ui/basics";
import { ProblemNote } from "../../ui/problem";
import { Back, Page } from "../../ui/shell";
import { TabList } from "../../ui/tab-list";
import { type Column, TableCard } from "../../ui/table";
import { useTab } from "../../ui/use-query-state";
import { LiveMark, WatchProblem, isTold } from "../../watch/live";
import { NodeHealth } from "./node-health";
import { Checks } from "./checks";
import { EnrolNode } from "./enrol";
import { DiscoveryPanel } from "./discovery";
import { Evacuation } from "./evacuation";
import { Hardware } from "./hardware";
import { AttachedReport } from "./host-report";
import { History, Onboarding } from "./history";
import { blockerText, evidenceCounts } from "./parts";
import { NodeState, PlacementActions, PlacementNote } from "./placement";
import { EndNode } from "./removal";
import { Slots } from "./slots";
import { ThreeWay } from "./three-way-view";

const IMAGE_COLUMNS: Column[] = ["Image", "State", "Digest", ["Verified", "number"]];

function Images({ nodeId }: { nodeId: string }) {
  const images = useNodeImages(nodeId);
  if (images.isPending) return <Skeleton lines={3} label="Loading images" />;
  if (images.error) return <ProblemNote error={images.error} retry={() => images.refetch()} />;
  if (images.data.length === 0) return <Empty title="No cached images">The first launch of an image pulls it to the node.</Empty>;
  return (
    <TableCard label="Cached images" columns={IMAGE_COLUMNS}>
      {images.data.map((image) => (
        <tr key={image.image_slug}>
          <td>
            <strong>{image.image_slug}</strong>
          </td>
          <td>
            <Badge tone={image.status === "verified" ? "good" : "idle"}>{image.status}</Badge>
          </td>
          <td>
            <code title={image.digest}>{image.digest?.slice(0, 19)}…</code>
          </td>
          <td className="number">
            <Time value={image.verified_time} />
          </td>
        </tr>
      ))}
    </TableCard>
  );
}

const TABS = ["slots", "topology", "evidence", "history", "images", "comparison", "evacuation"];

export default function NodeView({ id }: { id: string }) {
  const watched = useFleetWatch();
  const found = useNode(id);
  const placement = usePlacement(id);
  const [tab, setTab] = useTab(TABS);
  const { refetch } = placement;
  const slots = watched.view ? slotsOf(watched.view, id) : [];
  // slot changes drive the progress of a drain
  const states = slots.map(({ status }) => status).join();
  useEffect(() => void refetch(), [states, refetch]);
  const crumb = <Back to="/admin/nodes">Nodes</Back>;
  const node = watched.view?.nodes[id];
  if (!watched.view || !node) {
    return (
      <Page title="Node" crumb={crumb}>
        <WatchProblem watched={watched} />
        {found.error && !isTold(watched, found.error) && <ProblemNote error={found.error} retry={() => found.refetch()} />}
        {!found.error && !watched.problem && <Skeleton lines={8} label="Loading the node" />}
      </Page>
    );
  }
  const { config, status } = node;
  const evidence = status?.evidence ?? [];
  const failing = evidenceCounts(evidence).fail;
  const isLost = status?.state === "lost";
  return (
    <Page
      crumb={crumb}
      name={config?.hostname ?? "Node"}
      title={
        <>
          {config?.hostname} <NodeState node={node} placement={placement.data ?? undefined} /> {status?.lab && <LabMark />}
        </>
      }
      actions={
        <>
          <LiveMark watched={watched} />
          {placement.data && <PlacementActions placement={placement.data} hostname={config?.hostname ?? id} />}
          <EnrolNode node={node} />
          <EndNode node={node} placement={placement.data} slots={slots.length} />
        </>
      }
    >
      <WatchProblem watched={watched} />
      {placement.error && !isTold(watched, placement.error) && <ProblemNote error={placement.error} retry={() => placement.refetch()} />}
      {placement.data && <PlacementNote placement={placement.data} slots={slots.length} />}
      {status?.blockers?.map((blocker) => (
        <p key={blocker} className="blocker">
          {blockerText(blocker)}
        </p>
      ))}
      <Onboarding steps={status?.onboarding ?? []} outOfService={placement.data?.admin_state !== undefined && placement.data.admin_state !== "enabled"} />
      <div className="card strip">
        <Facts
          rows={[
            ["Region", config?.region_code],
            ["Mode", config?.mode],
            ["Profile", status?.host_profile || "–"],
            ["Hypervisor", status?.hypervisor || "–"],
            ["Agent", <span title={status?.instance?.agent_address}>{status?.instance?.agent_version ?? "–"}</span>],
            ["Agent built", <Time value={status?.instance?.agent_built_time} />],
            ["Last heartbeat", <Time value={found.data?.status?.last_heartbeat_time ?? status?.last_heartbeat_time} />],
            ["Boot ID", <code title={status?.instance?.boot_id}>{status?.instance?.boot_id?.slice(0, 8) ?? "–"}</code>],
          ]}
        />
      </div>
      <Tabs.Root value={tab} onValueChange={setTab} className="tabs">
        <TabList label="Node views" chosen={tab}>
          <Tabs.Trigger value="slots">Slots</Tabs.Trigger>
          <Tabs.Trigger value="topology">Topology</Tabs.Trigger>
          <Tabs.Trigger value="evidence">Checks {failing > 0 && <span className="count bad">{failing}</span>}</Tabs.Trigger>
          <Tabs.Trigger value="history">History</Tabs.Trigger>
          <Tabs.Trigger value="images">Images</Tabs.Trigger>
          <Tabs.Trigger value="comparison">Comparison</Tabs.Trigger>
          <Tabs.Trigger value="evacuation">Evacuation plan</Tabs.Trigger>
        </TabList>
        <Tabs.Content value="slots">
          <Hardware nodeId={id} slots={slots} />
          <Slots slots={slots} isLost={isLost} isPending={status?.state === "pending"} />
        </Tabs.Content>
        <Tabs.Content value="topology">
          <DiscoveryPanel nodeId={id} hostname={config?.hostname ?? id} slots={slots} />
        </Tabs.Content>
        <Tabs.Content value="evidence">
          <Checks evidence={evidence} />
          <AttachedReport nodeId={id} hostname={config?.hostname ?? id} />
        </Tabs.Content>
        <Tabs.Content value="history">
          <NodeHealth nodeId={id} hostname={config?.hostname ?? id} slots={slots} />
          <History nodeId={id} hostname={config?.hostname ?? id} />
        </Tabs.Content>
        <Tabs.Content value="images">
          <Images nodeId={id} />
        </Tabs.Content>
        <Tabs.Content value="comparison">
          <ThreeWay nodeId={id} slots={slots} />
        </Tabs.Content>
        <Tabs.Content value="evacuation">
          <Evacuation nodeId={id} isLost={isLost} />
        </Tabs.Content>
      </Tabs.Root>
    </Page>
  );
}
