/** Names for people. */
const FIRST = ["amber", "brisk", "calm", "clear", "coral", "crisp", "dawn", "deep", "early", "fair", "fern", "flint", "gold", "keen", "lunar", "mild", "north", "quick", "quiet", "silver", "solar", "still", "swift", "vivid"];
const SECOND = ["anchor", "badger", "beacon", "cedar", "comet", "delta", "ember", "falcon", "finch", "harbor", "heron", "lynx", "maple", "marten", "meadow", "orbit", "otter", "pine", "prism", "raven", "ridge", "river", "sparrow", "willow"];

/** A name that is easy to say, as a start for a new allocation. */
export function suggestName(random: () => number = Math.random): string {
  const pick = (words: string[]) => words[Math.floor(random() * words.length)] ?? "new";
  return `${pick(FIRST)}-${pick(SECOND)}`;
}

const ACRONYMS: Record<string, string> = { bios: "BIOS", cpu: "CPU", dhcp: "DHCP", dns: "DNS", gpu: "GPU", iommu: "IOMMU", ip: "IP", ipoib: "IPoIB", kvm: "KVM", lldp: "LLDP", mac: "MAC", nat: "NAT", numa: "NUMA", nvme: "NVMe", ovs: "OVS", pci: "PCI", smart: "SMART", sriov: "SR-IOV", ssh: "SSH", vfio: "VFIO", vf: "VF", vfs: "VFs", vm: "VM", vms: "VMs" };

/** "cleanup_blocked" → "Cleanup blocked", "ip_forwarding" → "IP forwarding". */
export function sentence(value: string): string {
  const text = value.split("_").map((word) => ACRONYMS[word] ?? word).join(" ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

/** What one could do, as a sentence: "Do this, that, or the other." Nothing, where there is nothing to do. */
export function either(ways: string[]): string | undefined {
  const last = ways.at(-1);
  if (last === undefined) return undefined;
  const before = ways.slice(0, -1).join(", ");
  const text = before === "" ? last : `${before}${ways.length > 2 ? "," : ""} or ${last}`;
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

/** How a limit is raised: administrators do it, others ask one. */
export function raise(what: string, admin: boolean): string {
  const where = what === "the reservation limit" ? "All reservations" : "Quotas";
  return admin ? `raise ${what} under ${where}` : `ask an administrator to raise ${what}`;
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** The part of a long id that people compare; of a code or slug all. */
export function shortId(id: string): string {
  return UUID.test(id) ? id.slice(-8) : id;
}

/** Bytes in binary units. */
export function bytes(count: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let [value, unit] = [count, 0];
  while (value >= 1024 && unit < units.length - 1) [value, unit] = [value / 1024, unit + 1];
  return `${value >= 10 || Number.isInteger(value) ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

const NAME = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;

/** What is wrong with a name, which must be a DNS label. */
export function nameProblem(name: string): string | undefined {
  if (name === "") return "Give it a name.";
  if (name.length > 63) return "At most 63 characters.";
  return NAME.test(name) ? undefined : "Lowercase letters, digits and hyphens, with no hyphen first or last.";
}

/** Whether this is a whole id as the API makes them. */
export function isId(text: string): boolean {
  return /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text);
}
