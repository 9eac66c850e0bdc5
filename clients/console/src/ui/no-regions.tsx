/** Empty state of views that need a region. */
import { Empty } from "./basics";
import { Server } from "./icons";

export function NoRegions() {
  return (
    <Empty icon={<Server size={28} />} title="No region yet">
      An operator creates a region with <code>gpuaas admin region set</code> and registers nodes in it.
    </Empty>
  );
}
