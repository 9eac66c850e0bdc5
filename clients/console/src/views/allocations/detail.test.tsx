import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, it, vi } from "vitest";
import { signInAs } from "../../session/fixture";
import { Cost } from "./detail";

vi.hoisted(() => vi.stubGlobal("matchMedia", () => ({ matches: false, addEventListener: () => {} })));

it("the cost of an allocation is that in its own project, whichever is looked at", () => {
  signInAs("unspecified", { projects: [{ id: "p", slug: "p" }, { id: "q", slug: "q" }], project: "p" });
  const queries = new QueryClient();
  queries.setQueryData(["usage", "p", "of", "a", ""], { intervals: [], totals: [] });
  queries.setQueryData(["usage", "q", "of", "a", ""], { intervals: [], totals: [{ amount: { currency_code: "EUR", units: "7", nanos: 0 } }] });
  const shown = renderToStaticMarkup(
    <QueryClientProvider client={queries}>
      <Cost id="a" project="q" open />
    </QueryClientProvider>,
  );
  expect(shown).toContain("€7.00");
  expect(shown).not.toContain("Billing starts");
});
