/** What the platform offers: regions, SKUs with their prices, images. For operators. */
import { Tabs } from "radix-ui";
import { Page } from "../../ui/shell";
import { TabList } from "../../ui/tab-list";
import { useTab } from "../../ui/use-query-state";
import { Images } from "./images";
import { Prices } from "./prices";
import { Regions } from "./regions";
import { Skus } from "./skus";

const TABS = ["regions", "skus", "prices", "images"];

export default function Catalog() {
  const [tab, setTab] = useTab(TABS);
  return (
    <Page title="Catalog">
      <Tabs.Root value={tab} onValueChange={setTab} className="tabs">
        <TabList label="Catalog views" chosen={tab}>
          <Tabs.Trigger value="regions">Regions</Tabs.Trigger>
          <Tabs.Trigger value="skus">SKUs</Tabs.Trigger>
          <Tabs.Trigger value="prices">Prices</Tabs.Trigger>
          <Tabs.Trigger value="images">Images</Tabs.Trigger>
        </TabList>
        <Tabs.Content value="regions">
          <Regions />
        </Tabs.Content>
        <Tabs.Content value="skus">
          <Skus />
        </Tabs.Content>
        <Tabs.Content value="prices">
          <Prices />
        </Tabs.Content>
        <Tabs.Content value="images">
          <Images />
        </Tabs.Content>
      </Tabs.Root>
    </Page>
  );
}
