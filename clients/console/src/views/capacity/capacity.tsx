/** The fleet's capacity: how it was used, the queue, and what moving allocations would free. */
import { Tabs } from "radix-ui";
import { Page } from "../../ui/shell";
import { TabList } from "../../ui/tab-list";
import { useTab } from "../../ui/use-query-state";
import { BareMetal } from "./bare-metal";
import { DefragmentationTab } from "./defragmentation";
import { HistoryTab } from "./history-tab";
import { Queue } from "./queue";

const TABS = ["history", "queue", "defragmentation", "baremetal"];

export default function Capacity() {
  const [tab, setTab] = useTab(TABS);
  return (
    <Page title="Capacity">
      <Tabs.Root value={tab} onValueChange={setTab} className="tabs">
        <TabList label="Capacity views" chosen={tab}>
          <Tabs.Trigger value="history">History</Tabs.Trigger>
          <Tabs.Trigger value="queue">Queue</Tabs.Trigger>
          <Tabs.Trigger value="defragmentation">Defragmentation</Tabs.Trigger>
          <Tabs.Trigger value="baremetal">Bare metal</Tabs.Trigger>
        </TabList>
        <Tabs.Content value="history">
          <HistoryTab />
        </Tabs.Content>
        <Tabs.Content value="queue">
          <Queue />
        </Tabs.Content>
        <Tabs.Content value="defragmentation">
          <DefragmentationTab />
        </Tabs.Content>
        <Tabs.Content value="baremetal">
          <BareMetal />
        </Tabs.Content>
      </Tabs.Root>
    </Page>
  );
}
