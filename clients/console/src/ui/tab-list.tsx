/** The row of tabs. Where it is too narrow for all of them it scrolls, and the chosen one is in sight. */
import { Tabs } from "radix-ui";
import { type ReactNode, useRef } from "react";
import { useInSight } from "./in-sight";

export function TabList({ label, chosen, children }: { label: string; chosen: string; children: ReactNode }) {
  const list = useRef<HTMLDivElement>(null);
  useInSight(list, "[data-state=active]", chosen);
  return (
    <Tabs.List ref={list} aria-label={label}>
      {children}
    </Tabs.List>
  );
}
