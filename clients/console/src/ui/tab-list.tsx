/** The row of tabs. Where it is too narrow for all of them it scrolls, and the chosen one is in sight. */
import { Tabs } from "radix-ui";
import { type ReactNode, useEffect, useRef } from "react";

export function TabList({ label, chosen, children }: { label: string; chosen: string; children: ReactNode }) {
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const row = list.current;
    const tab = row?.querySelector("[data-state=active]");
    if (!row || !tab) return;
    const [outer, inner] = [row.getBoundingClientRect(), tab.getBoundingClientRect()];
    // not scrollIntoView, which moves the page too
    row.scrollLeft += inner.left + inner.width / 2 - (outer.left + outer.width / 2);
  }, [chosen]);
  return (
    <Tabs.List ref={list} aria-label={label}>
      {children}
    </Tabs.List>
  );
}
