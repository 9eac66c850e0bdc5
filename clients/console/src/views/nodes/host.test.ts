import { expect, it } from "vitest";
import { addressesOf } from "./host";

it("a_04_the_addresses_of_a_host_are_shown_by_their_kinds", () => {
  const addresses = [
    { interface: "ovsbr0", address: "10.100.0.1/24", kind: "guests" },
    { interface: "eno1", address: "10.4.0.7/22", kind: "management" },
    { interface: "eno1", address: "fe80::1/64", kind: "link_local" },
    { interface: "bmc", address: "10.177.3.241/22", kind: "bmc" },
    { interface: "tailscale0", address: "100.127.75.81/32", kind: "overlay" },
    { interface: "ibp26s0", address: "192.168.4.7/16", kind: "fabric" },
    { interface: "ibp60s0", address: "192.168.5.7/16", kind: "fabric" },
  ];
  expect(addressesOf({ addresses })).toEqual([
    ["Management address", "10.4.0.7/22"],
    ["BMC address", "10.177.3.241/22"],
    ["VPN address", "100.127.75.81/32"],
    ["Fabric address", "192.168.4.7/16, 192.168.5.7/16"],
    ["Gateway of the VMs", "10.100.0.1/24"],
  ]);
  expect([addressesOf(undefined), addressesOf({})]).toEqual([[], []]);
});
