import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, it, vi } from "vitest";
import { Router } from "wouter";
import { Problem } from "../../api/problem";
import { signInAs } from "../../session/fixture";
import ReservationList from "./list";
import { filterOf } from "./rules";

vi.hoisted(() => vi.stubGlobal("matchMedia", () => ({ matches: false, addEventListener: () => {} })));

/** The page of an operator that loaded all and what the server found of a search. */
function shown(search: string, found: string[], next_page_token: string): string {
  signInAs("operator");
  const queries = new QueryClient();
  const those = (names: string[]) => names.map((name) => ({ id: name, config: { name, project_id: "p", gpu_count: 8 }, status: { state: "active", used_gpus: 8 } }));
  const of = (names: string[], next = "") => ({ pages: [{ reservations: those(names), next_page_token: next }], pageParams: [""] });
  queries.setQueryData(["reservations", "operator", "", false, ""], of(["train", "serve"]));
  // one of them is on a page that the list has not loaded
  queries.setQueryData(["reservations", "operator", "", "running"], those(["train", "serve", "old"]));
  queries.setQueryData(["reservations", "operator", "", false, filterOf({ search: search.replaceAll("+", " "), state: "", idle: false }, []).filter], of(found, next_page_token));
  return renderToStaticMarkup(
    <QueryClientProvider client={queries}>
      <Router ssrPath="/admin/reservations" ssrSearch={`search=${search}`}>
        <ReservationList side="operator" />
      </Router>
    </QueryClientProvider>,
  );
}

it("what the server found of a search is shown, below the GPUs of all", () => {
  const none = shown("absent", [], "");
  expect(none).toContain("No reservation matches");
  expect(none).not.toContain("Show more");
  const found = shown("train", ["train"], "next");
  expect(found).toContain("1 reservation, and more");
  expect(found.match(/Show more<\/button>/g)).toHaveLength(1);
  for (const page of [none, found]) {
    expect(page).toContain("<strong>24</strong> in use");
    expect(page).not.toContain("are searched");
  }
  expect(shown("a+b+c+d+e+f+g+h+i+j+k", [], "")).toContain("Only the first 10 words are searched. Use fewer.");
});

it("operators without a reservation are told nothing of one project's limit", () => {
  const empty = (side: "operator" | "project") => {
    const queries = new QueryClient();
    queries.setQueryData(["reservations", side, side === "project" ? "p" : "", false, ""], { pages: [{ reservations: [], next_page_token: "" }], pageParams: [""] });
    queries.setQueryData(["quotas", "p"], { max_reserved_gpus: 0 });
    return renderToStaticMarkup(
      <QueryClientProvider client={queries}>
        <Router ssrPath="/reservations">
          <ReservationList side={side} />
        </Router>
      </QueryClientProvider>,
    );
  };
  signInAs("operator", { projects: [{ id: "p", slug: "p" }], project: "p" });
  expect(empty("operator")).toContain("No active reservations");
  expect(empty("operator")).not.toContain("The reservation limit of this project");
  expect(empty("project")).toContain("The reservation limit of this project is 0");
});

it("where the reservations could not be read, that is said, also beside what the server found of a search", () => {
  signInAs("operator");
  const queries = new QueryClient({ defaultOptions: { queries: { retryOnMount: false, staleTime: Number.POSITIVE_INFINITY } } });
  const key = (filter: string) => ["reservations", "operator", "", false, filter];
  queries.setQueryData(key(filterOf({ search: "train", state: "", idle: false }, []).filter), { pages: [{ reservations: [], next_page_token: "" }], pageParams: [""] });
  const whole = queries.getQueryCache().build(queries, { queryKey: key("") });
  whole.setState({ status: "error", error: new Problem({ status: 503, message: "The scheduler does not answer." }), fetchStatus: "idle", errorUpdatedAt: Date.now(), errorUpdateCount: 1 });
  const page = renderToStaticMarkup(
    <QueryClientProvider client={queries}>
      <Router ssrPath="/admin/reservations" ssrSearch="search=train">
        <ReservationList side="operator" />
      </Router>
    </QueryClientProvider>,
  );
  expect(page).toContain("The scheduler does not answer.");
  expect(page).toContain("Try again");
});
