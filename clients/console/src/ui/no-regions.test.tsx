import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import type { ReactElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, it, vi } from "vitest";
import { Router } from "wouter";
import { Queue } from "../views/capacity/queue";
import { DefragmentationTab } from "../views/capacity/defragmentation";
import Launch from "../views/launch/launch";
import Reserve from "../views/reservations/create";

// the frame of a view asks the browser for its theme
vi.hoisted(() => vi.stubGlobal("matchMedia", () => ({ matches: false, addEventListener: () => {} })));

/** A view of a platform that has answered with nothing in its lists but these regions. */
function shown(view: ReactElement, regions: object[] = []): string {
  const queries = new QueryClient();
  for (const key of [["skus"], ["images"], ["availability", ""]]) queries.setQueryData(key, []);
  queries.setQueryData(["regions"], regions);
  return renderToStaticMarkup(
    <QueryClientProvider client={queries}>
      <Router ssrPath="/">{view}</Router>
    </QueryClientProvider>,
  );
}

it.each<[string, ReactElement]>([
  ["the queue", <Queue />],
  ["defragmentation", <DefragmentationTab />],
  ["the launch form", <Launch />],
  ["the form of a reservation", <Reserve side="operator" />],
])("without a region %s shows what to do, and does not load forever", (_, view) => {
  const text = shown(view);
  expect(text).toContain("No region yet");
  expect(text).toContain("gpuaas admin region set");
  expect(text).not.toContain("skeleton");
  expect(text).not.toContain("<form");
});

it("without a SKU there is nothing to reserve, and a message replaces the form", () => {
  const text = shown(<Reserve side="operator" />, [{ code: "a", enabled: true }]);
  for (const line of ["No SKU is available", "gpuaas admin sku set"]) expect(text).toContain(line);
  expect(text).not.toContain("<form");
});
