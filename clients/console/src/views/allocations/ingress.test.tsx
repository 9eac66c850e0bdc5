import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, it, vi } from "vitest";
import type { IngressMapping } from "../../api/ingress";
import { signInAs } from "../../session/fixture";
import type { Allocation } from "../../api/types";
import { Ingress, configOf, externalOf, portOf } from "./ingress";

let may: string[] = [];
vi.mock("../../session/roles", () => ({ useProjectMay: (what: string) => may.includes(what) }));

const one: IngressMapping = {
  id: "m1",
  config: { protocol: "tcp", vm_port: 443, source_cidrs: ["198.51.100.0/24"] },
  status: { state: "active", external_address: "203.0.113.7", external_port: 30017 },
};

function shown(allocation: Allocation, mappings: IngressMapping[], rights = ["read", "write"], guardrails: object = {}): string {
  may = rights;
  const queries = new QueryClient();
  queries.setQueryData(["ingress-mappings", "a"], mappings);
  queries.setQueryData(["guardrails", "o"], guardrails);
  return renderToStaticMarkup(
    <QueryClientProvider client={queries}>
      <Ingress allocation={{ id: "a", ...allocation }} />
    </QueryClientProvider>,
  );
}

const active: Allocation = { status: { state: "active" } };

it("a port is a number from 1 to 65535", () => {
  expect([portOf("443"), portOf(" 22 "), portOf("65535")]).toEqual([443, 22, 65535]);
  expect(["", "0", "65536", "1e3", "-1", "22a"].map(portOf)).toEqual(Array(6).fill(undefined));
});

it("j_13: what is typed becomes a request, and nothing while a port is none", () => {
  expect(configOf("tcp", "443", "", "")).toEqual({ protocol: "tcp", vm_port: 443 });
  expect(configOf("udp", "53", "30001", "10.0.0.0/8, 192.0.2.0/24")).toEqual({ protocol: "udp", vm_port: 53, external_port: 30001, source_cidrs: ["10.0.0.0/8", "192.0.2.0/24"] });
  expect(configOf("tcp", "", "", "")).toBeUndefined();
  expect(configOf("tcp", "443", "x", "")).toBeUndefined();
});

it("the ports of an active slice are shown, with what failed, and changed by who may", () => {
  expect(externalOf(one)).toBe("203.0.113.7:30017");
  const text = shown(active, [one]);
  for (const part of ["203.0.113.7:30017", "TCP to port 443", "198.51.100.0/24", "Open a port", "Close port"]) expect(text).toContain(part);
  const failed = shown(active, [{ ...one, status: { ...one.status, state: "failed", failure: "The host does not answer." } }], ["read"]);
  expect(failed).toContain("The host does not answer.");
  for (const part of ["Open a port", ">Close<"]) expect(failed).not.toContain(part);
  expect(shown(active, [])).toContain("No port of the VM is exposed.");
});

it("nothing is shown of an allocation without a VM that runs, nor to who may not read it", () => {
  expect(shown({ status: { state: "released" } }, [one])).toBe("");
  expect(shown({ status: { state: "active" }, config: { capacity_shape: "baremetal" } }, [one])).toBe("");
  expect(shown(active, [one], [])).toBe("");
});

it("what the organisation does not allow is said, and no port is offered to be opened", () => {
  signInAs("unspecified", { projects: [{ id: "p", slug: "p", organisation_id: "o" }], project: "p" });
  const of = { ...active, config: { project_id: "p" } } as Allocation;
  const text = shown(of, [one], ["read", "write"], { ingress_mappings_disabled: true });
  expect(text).toContain("Your organisation does not allow new ingress ports.");
  expect(text).not.toContain("Open a port");
  expect(text).toContain("Close port");
  expect(shown(of, [one], ["read", "write"], {})).toContain("Open a port");
  // who may open none anyway is not told about it
  expect(shown(of, [one], ["read"], { ingress_mappings_disabled: true })).not.toContain("organisation");
});
