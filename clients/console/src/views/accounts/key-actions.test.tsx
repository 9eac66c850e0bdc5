import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, it, vi } from "vitest";
import { KeyActions } from "./key-actions";

vi.hoisted(() => vi.stubGlobal("matchMedia", () => ({ matches: false, addEventListener: () => {} })));

/** The actions that a key is offered. */
function offered(disabled: boolean, bounds: object): string[] {
  const markup = renderToStaticMarkup(
    <QueryClientProvider client={new QueryClient()}>
      <KeyActions account={{ id: "a", project_id: "p" }} disabled={disabled} api_key={{ id: "k", display_name: "SCIM" }} made={() => undefined} bounds={bounds} />
    </QueryClientProvider>,
  );
  return [...markup.matchAll(/aria-label="(\w+) SCIM"/g)].map(([, word = ""]) => word);
}

it("a key is rotated only where the new one would work, and always disabled", () => {
  expect(offered(false, {})).toEqual(["Rotate", "Disable"]);
  expect(offered(true, {})).toEqual(["Disable"]);
  expect(offered(false, { api_keys_disabled: true, organisation: "acme" })).toEqual(["Disable"]);
});
