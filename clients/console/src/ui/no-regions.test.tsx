import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import type { ReactElement } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, it, vi } from "vitest";
import { Router } from "wouter";
import { Line } from "../views/capacity/line";
import { MakeRoom } from "../views/capacity/make-room";
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
  ["who waits", <Line />],
  ["make room", <MakeRoom />],
  ["the launch form", <Launch />],
  ["the form of a reservation", <Reserve side="operator" />],
])("without a region %s says what to do, and does not load for ever", (_, view) => {
  const text = shown(view);
  expect(text).toContain("There is no region yet");
  expect(text).toContain("gpuaas admin region put");
  expect(text).not.toContain("skeleton");
  expect(text).not.toContain("<form");
});

it("without a product there is nothing to reserve, and that is said in place of a form that cannot be sent", () => {
  const text = shown(<Reserve side="operator" />, [{ code: "a", enabled: true }]);
  for (const words of ["Nothing is on sale yet", "gpuaas admin sku put"]) expect(text).toContain(words);
  expect(text).not.toContain("<form");
});
