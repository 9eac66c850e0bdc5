import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import { Router } from "wouter";
import { Named } from "./named";

const ID = "01930000-1000-7000-8000-0000000000ab";
const shown = (view: Record<string, object> | undefined, ended?: object) => {
  const queries = new QueryClient();
  if (ended) queries.setQueryData(["allocation", ID], ended);
  return renderToStaticMarkup(
    <QueryClientProvider client={queries}>
      <Router ssrPath="/">
        <Named id={ID} view={view} />
      </Router>
    </QueryClientProvider>,
  );
};

it("a health event names its allocation, also one that has ended", () => {
  expect(shown({ [ID]: { id: ID, config: { name: "train" } } })).toContain(">train</a>");
  expect(shown({}, { id: ID, config: { name: "old-train" } })).toContain(">old-train</a>");
  for (const view of [undefined, {}]) expect(shown(view)).toContain(">000000ab</a>");
});
