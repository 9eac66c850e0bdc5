import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, it, vi } from "vitest";
import { Projects } from "./projects";

vi.hoisted(() => vi.stubGlobal("matchMedia", () => ({ matches: false, addEventListener: () => {} })));
const api = vi.hoisted(() => ({ found: {} as object }));
vi.mock("../../api/tenancy", async (original) => ({ ...(await original<object>()), useOrganisationProjects: () => ({ refetch: () => undefined, more: false, error: null, ...api.found }) }));

/** How often a project can be added, and whether above the list. */
function offered(data: object[] | undefined): [number, boolean] {
  api.found = { data };
  const page = renderToStaticMarkup(
    <QueryClientProvider client={new QueryClient()}>
      <Projects organisation={{ id: "o", slug: "acme", state: "active" }} owner />
    </QueryClientProvider>,
  );
  return [page.match(/Add a project/g)?.length ?? 0, page.includes("tab-actions")];
}

it("a project is added above the list, or in place of an empty one, and not before it is known which", () => {
  expect([offered(undefined), offered([]), offered([{ id: "p", slug: "vision" }])]).toEqual([
    [0, false],
    [1, false],
    [1, true],
  ]);
});
