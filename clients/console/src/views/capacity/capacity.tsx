/** The fleet's capacity: how it was used, who waits for it, and what moving allocations would bring. */
import { Tabs } from "radix-ui";
import { Page } from "../../ui/shell";
import { Line } from "./line";
import { MakeRoom } from "./make-room";
import { OverTime } from "./over-time";
import { WholeNodes } from "./whole-nodes";

export default function Capacity() {
  return (
    <Page title="Capacity">
      <Tabs.Root defaultValue="time" className="tabs">
        <Tabs.List aria-label="About the capacity">
          <Tabs.Trigger value="time">Over time</Tabs.Trigger>
          <Tabs.Trigger value="line">Who waits</Tabs.Trigger>
          <Tabs.Trigger value="room">Make room</Tabs.Trigger>
          <Tabs.Trigger value="whole">Whole nodes</Tabs.Trigger>
        </Tabs.List>
        <Tabs.Content value="time">
          <OverTime />
        </Tabs.Content>
        <Tabs.Content value="line">
          <Line />
        </Tabs.Content>
        <Tabs.Content value="room">
          <MakeRoom />
        </Tabs.Content>
        <Tabs.Content value="whole">
          <WholeNodes />
        </Tabs.Content>
      </Tabs.Root>
    </Page>
  );
}
