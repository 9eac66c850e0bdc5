/** What stands where a region must be chosen and there is none. */
import { Empty } from "./basics";
import { Server } from "./icons";

export function NoRegions() {
  return (
    <Empty icon={<Server size={28} />} title="There is no region yet">
      All capacity is in regions. An operator makes the first one with <code>gpuaas admin region put</code>, and registers hosts in it.
    </Empty>
  );
}
