/** The parts of a host's own report that the console shows. */
import type { Discovery } from "../../api/types";

export interface PciFunction {
  pci_address?: string;
  model_id?: string;
  numa_node?: number;
  driver?: string;
  iommu_group?: number;
  iommu_companions?: string[];
  link?: { speed?: string; width?: number; max_speed?: string; max_width?: number; degraded?: boolean };
  fault?: string;
  serial?: string;
  physical_slot?: string;
}
export interface GpuDevice {
  function?: PciFunction;
  module_id?: number;
  uuid?: string;
  firmware_version?: string;
  nvlink_domain?: string;
  slot_class?: string;
}
export interface NvmeDisk {
  kernel_name?: string;
  by_id?: string;
  wwid?: string;
  model?: string;
  serial?: string;
  bytes?: string;
  controller?: PciFunction;
  health?: { percent_used?: number; media_errors?: string };
  uses?: { kind?: string; device?: string; detail?: string }[];
  fault?: string;
}
export interface FabricDevice {
  function?: PciFunction;
  bluefield?: boolean;
  rdma_device?: string;
  firmware_version?: string;
  node_guid?: string;
  ports?: { number?: number; link_layer?: string; state?: string; rate?: string }[];
  sriov_totalvfs?: number;
  sriov_numvfs?: number;
  virtual_functions?: { number?: number; function?: PciFunction; node_guid?: string; port_guid?: string; link_policy?: string }[];
  interfaces?: string[];
}
export interface Host {
  machine?: { vendor?: string; model?: string; system_serial?: string; bios_version?: string; kernel_release?: string; operating_system?: string; memory_bytes?: string };
  processors?: { socket?: number; model?: string; cores?: number; threads?: number }[];
  numa_nodes?: { id?: number; cpus?: string; memory_bytes?: string; hugepages_1g?: number; hugepages_1g_free?: number }[];
  gpus?: GpuDevice[];
  gpu_fabric?: { legal_groups?: { module_ids?: number[] }[]; source?: string; missing?: string };
  disks?: NvmeDisk[];
  fabric_devices?: FabricDevice[];
  addresses?: { interface?: string; address?: string; kind?: string }[];
  neighbors?: { interface?: string; switch_name?: string; port_id?: string }[];
  location?: { rack?: string; failure_domain?: string };
  unreadable?: string[];
}

const ADDRESSES: Record<string, string> = {
  management: "Management address",
  bmc: "BMC address",
  overlay: "VPN address",
  fabric: "Fabric address",
  guests: "Gateway of the VMs",
  bluefield: "BlueField link",
  other: "Other address",
};

/** The host's addresses by their kinds, the way in first; those of a link alone lead nowhere. */
export function addressesOf(host: Host | undefined): [string, string][] {
  return Object.entries(ADDRESSES).flatMap(([kind, name]) => {
    const own = (host?.addresses ?? []).filter((one) => one.kind === kind && one.address);
    return own.length > 0 ? [[name, own.map((one) => one.address).join(", ")] as [string, string]] : [];
  });
}

/** What the host reported of itself; nothing from an agent that does not say. */
export function hostOf(discovery: Discovery | null | undefined): Host | undefined {
  return (discovery as { host?: Host } | null | undefined)?.host;
}
