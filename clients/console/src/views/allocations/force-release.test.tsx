import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import type { Allocation } from "../../api/types";
import { signInAs } from "../../session/fixture";
import type { PlatformRole } from "../../session/rights";
import { Conditions } from "./conditions";
import { requestOf } from "./force-release";
import { StateBadge } from "./state";

const lost: Allocation = {
  id: "a",
  config: { name: "train" },
  status: { state: "active", power: "running", conditions: [{ type: "host_lost", message: "The host does not answer.", since: "2026-01-02T03:04:05Z" }] },
};
const shown = (role: PlatformRole, allocation: Allocation) => {
  signInAs(role);
  return renderToStaticMarkup(
    <QueryClientProvider client={new QueryClient()}>
      <Conditions allocation={allocation} />
    </QueryClientProvider>,
  );
};

it("b_28_a_forced_release_needs_the_fate_of_the_host_and_a_reason", () => {
  expect(requestOf("", "fire", "")).toBeUndefined();
  expect(requestOf("powered_off", "  ", "")).toBeUndefined();
  expect(requestOf("powered_off", "fire", "not a time")).toBeUndefined();
  expect(requestOf("powered_off", " fire ", "")).toEqual({ host_fate: "powered_off", reason: "fire" });
  const at = requestOf("written_off", "fire", "2026-01-02T03:04")?.billing_end_time;
  expect(at).toBe(new Date("2026-01-02T03:04").toISOString());
});

it("b_28_a_lost_host_shows_on_the_page_and_in_the_list_and_only_who_runs_the_platform_is_offered_the_way_out", () => {
  expect(renderToStaticMarkup(<StateBadge allocation={lost} />)).toContain("Host lost");
  expect(shown("unspecified", lost)).toContain("The host does not answer.");
  expect(shown("unspecified", lost)).toContain('dateTime="2026-01-02T03:04:05Z"');
  expect(shown("auditor", lost)).not.toContain("Force release");
  expect(shown("operator", lost)).toContain("Force release");
  const fine: Allocation = { ...lost, status: { state: "active", power: "running" } };
  expect(shown("admin", fine)).toBe("");
  expect(renderToStaticMarkup(<StateBadge allocation={fine} />)).not.toContain("Host lost");
});
