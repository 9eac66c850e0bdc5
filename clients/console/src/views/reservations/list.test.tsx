import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, it, vi } from "vitest";
import { Router } from "wouter";
import { signInAs } from "../../session/fixture";
import ReservationList from "./list";

vi.hoisted(() => vi.stubGlobal("matchMedia", () => ({ matches: false, addEventListener: () => {} })));

/** The page of an operator who has loaded two reservations and searches. */
function shown(search: string, next_page_token: string): string {
  signInAs("operator");
  const queries = new QueryClient();
  const reservations = ["train", "serve"].map((name) => ({ id: name, config: { name, project_id: "p" }, status: { state: "active" } }));
  queries.setQueryData(["reservations", "operator", "", false], { pages: [{ reservations, next_page_token }], pageParams: [""] });
  return renderToStaticMarkup(
    <QueryClientProvider client={queries}>
      <Router ssrPath="/admin/reservations" ssrSearch={`search=${search}`}>
        <ReservationList side="operator" />
      </Router>
    </QueryClientProvider>,
  );
}

it("a search that finds nothing in what is loaded says so, and loads more where there is more", () => {
  const more = shown("absent", "next");
  expect(more).toContain("No reservation matches");
  expect(more).toContain("Only the 2 reservations loaded so far were searched.");
  expect(more.match(/Show more<\/button>/g)).toHaveLength(1);
  const all = shown("absent", "");
  expect(all).toContain("No reservation matches");
  expect(all).not.toContain("Show more");
  expect(all).not.toContain("loaded so far");
  const found = shown("train", "next");
  expect(found).toContain("1 of 2 reservations, and more");
  expect(found.match(/Show more<\/button>/g)).toHaveLength(1);
});
