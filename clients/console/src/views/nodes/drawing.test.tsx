import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import type { Discovery, Slot } from "../../api/types";
import { type Domain, deviceText, drawingOf } from "./drawing";
import { DomainDrawing, layout } from "./hardware";
import type { Host } from "./host";

const bindings = (n: number) => ({ gpu_pci_address: `0000:0${n}:00.0`, gpu_module_id: n, numa_node: n < 4 ? 0 : 1, nvme_device: `/dev/disk/by-id/nvme-eui.${n}`, nvme_bytes: "4000000000000", fabric_device: n < 4 ? "mlx5_0" : "mlx5_1", fabric_vf_pci_address: `0000:a0:00.${n}` });
const slots = Array.from({ length: 6 }, (_, n): Slot => ({ id: String(n), slot_index: n, status: n === 0 ? "active" : "available", health_state: "healthy", bindings: bindings(n) }));
const discovery: Discovery = { state: "completed", candidates: Array.from({ length: 8 }, (_, n) => ({ slot_index: n, bindings: bindings(n), blockers: n === 7 ? ["its disk is mounted"] : [] })) };
const f = (pci_address: string, numa_node: number, more = {}) => ({ pci_address, numa_node, ...more });
const host: Host = {
  processors: [{ socket: 0, model: "CPU A" }, { socket: 1, model: "CPU A" }],
  numa_nodes: [{ id: 0, cpus: "0-31", memory_bytes: "1099511627776", hugepages_1g: 900, hugepages_1g_free: 800 }, { id: 1, cpus: "32-63" }],
  gpus: Array.from({ length: 8 }, (_, n) => ({ module_id: n, uuid: `GPU-${n}`, function: f(`0000:0${n}:00.0`, n < 4 ? 0 : 1, n === 3 ? { link: { speed: "16.0 GT/s PCIe", width: 8, max_speed: "32.0 GT/s PCIe", max_width: 16, degraded: true } } : {}) })),
  disks: [
    ...Array.from({ length: 8 }, (_, n) => ({ by_id: `/dev/disk/by-id/nvme-eui.${n}`, model: "PM1743", serial: `S${n}`, bytes: "4000000000000", controller: f(`0000:c${n}:00.0`, n < 4 ? 0 : 1) })),
    { kernel_name: "nvme9n1", bytes: "960000000000", controller: f("0000:d0:00.0", 0), uses: [{ kind: "mount", device: "nvme9n1p1", detail: "/" }] },
  ],
  fabric_devices: [{ rdma_device: "mlx5_0", function: f("0000:a0:00.0", 0), ports: [{ number: 1, state: "DOWN" }], virtual_functions: Array.from({ length: 4 }, (_, n) => ({ number: n, function: f(`0000:a0:00.${n}`, 0) })) }],
};
const all = ({ columns, rest, nics }: Domain) => [...columns.flatMap(({ devices }) => devices), ...rest, ...nics.flatMap(({ device, functions }) => [device, ...functions])];

it("a_58_a_node_is_drawn_by_memory_domain_with_each_device_where_it_is", () => {
  const drawn = drawingOf(slots, discovery, host);
  expect(drawn.map(({ title }) => title)).toEqual(["NUMA node 0", "NUMA node 1"]);
  expect(drawn[0]?.columns.map(({ index }) => index)).toEqual([0, 1, 2, 3]);
  expect(drawn[0]?.note).toBe("CPU A · CPUs 0-31 · 1 TiB · 800 of 900 pages of 1 GiB free");
  // the disk of the system is in no slot, and says what uses it
  const rest = drawn[0]?.rest ?? [];
  expect(rest.map(deviceText)).toEqual(["Disk, In use 894 GiB, in no slot"]);
  expect(rest[0]?.facts).toContainEqual(["Used by", "Mount nvme9n1p1 /"]);
  // each device once, but for the function that stands with its slot and with its parent
  const keys = drawn.flatMap(all).map(({ key }) => key);
  expect(new Set(keys).size).toBe(keys.length);
  expect(drawn.flatMap(all).filter(({ kind }) => kind === "gpu")).toHaveLength(8);
});

it("colours tell slots, candidates and devices with a fault apart", () => {
  const [first, second] = drawingOf(slots, discovery, host);
  const column = (index: number) => [...(first?.columns ?? []), ...(second?.columns ?? [])].find((one) => one.index === index);
  expect([column(0)?.word, column(0)?.tone]).toEqual(["Active", "busy"]);
  expect([column(1)?.word, column(1)?.tone, column(1)?.hollow]).toEqual(["Available", "good", false]);
  expect([column(6)?.word, column(6)?.hollow]).toEqual(["Candidate", true]);
  expect(column(7)?.word).toBe("Blocked candidate");
  // a link below its best, and a port that is down
  expect(column(3)?.devices.find(({ kind }) => kind === "gpu")?.tone).toBe("warn");
  expect(first?.nics[0]?.device.tone).toBe("warn");
});

it("a host that reports bindings alone, such as the lab's, is drawn from them", () => {
  const [domain, ...more] = drawingOf([{ id: "a", slot_index: 0, status: "available", health_state: "healthy", bindings: { nvme_device: "lab-disk:1", nvme_bytes: "4294967296" } }], null, undefined);
  expect(more).toEqual([]);
  expect([domain?.title, domain?.columns.length]).toEqual(["Devices", 1]);
  expect(drawingOf(slots, discovery, undefined).map(({ columns, nics }) => [columns.length, nics.length])).toEqual([[4, 1], [4, 1]]);
  expect(drawingOf([], null, undefined)).toEqual([]);
});

it("nothing overlaps, nothing sticks out at a phone's width, and each device is named", () => {
  for (const domain of drawingOf(slots, discovery, host)) {
    const { placed, height } = layout(domain);
    for (const [index, a] of placed.entries()) {
      expect(a.x).toBeGreaterThanOrEqual(0);
      expect(a.x + a.width).toBeLessThanOrEqual(344);
      expect(a.y + a.height).toBeLessThanOrEqual(height);
      for (const b of placed.slice(index + 1)) {
        const apart = a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y || b.y + b.height <= a.y;
        expect(apart, `${a.device.key} and ${b.device.key}`).toBe(true);
      }
    }
    const shown = renderToStaticMarkup(<DomainDrawing domain={domain} chosen={undefined} choose={() => {}} />);
    for (const { device } of placed) expect(shown).toContain(`aria-label="${deviceText(device)}"`);
    // one stop for the keyboard; arrows move from there
    expect(shown.match(/tabindex="0"/g)).toHaveLength(1);
  }
});
