import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, it, vi } from "vitest";
import { Router } from "wouter";
import { textFilter } from "../../api/pages";
import { ServiceAccounts } from "../accounts/accounts";
import { Images } from "../catalog/images";
import { Grants } from "./grants";
import { Webhooks } from "./webhooks";

const deferred = vi.hoisted(() => ({ search: "" }));
vi.mock("react", async (original) => ({ ...(await original<object>()), useDeferredValue: () => deferred.search }));

const LISTS: [string[], string[], ReactNode][] = [
  [["allocation-grants", "p"], ["principal", "creator"], <Grants project="p" manages />],
  [["webhooks", "project", "p"], ["url", "description"], <Webhooks tenant={{ kind: "project", id: "p" }} manages />],
  [["service-accounts", "p"], ["slug", "principal", "description"], <ServiceAccounts project="p" />],
  [["all-images"], ["slug", "display_name"], <Images />],
];

/** The lists while nothing is typed, and nothing was found of what was asked for. */
function shown(search: string): string[] {
  deferred.search = search;
  return LISTS.map(([key, fields, list]) => {
    const queries = new QueryClient();
    queries.setQueryData([...key, textFilter(fields, search)], { pages: [{ items: [] }], pageParams: [""] });
    return renderToStaticMarkup(<Router ssrPath="/"><QueryClientProvider client={queries}>{list}</QueryClientProvider></Router>);
  });
}

it("the search stays while one that matched nothing is cleared, and is not there where there is nothing to search", () => {
  for (const list of shown("nothing")) expect(list).toContain('type="search"');
  for (const list of shown("")) expect(list).not.toContain('type="search"');
});
