// Hosts: readiness, candidates and slots, cordon and drain.
import assert from "node:assert/strict";
import { accessible } from "./accessible.mjs";
import { WIDE, live, page, shot, signIn, signOut, test } from "./world.mjs";

const openHost = async () => {
  await page.getByRole("link", { name: "Nodes" }).click();
  await page.getByRole("link", { name: /lab-host/ }).click();
};

/** A discovery as a host with eight GPUs on two sockets reports it. */
function eightGpus() {
  const on = (address, numa_node) => ({ pci_address: address, numa_node, driver: "vfio-pci" });
  const each = (count, make) => Array.from({ length: count }, (_, n) => make(n, n < count / 2 ? 0 : 1));
  const gpu = (n) => `0000:${n}b:00.0`;
  const disk = (n) => `/dev/disk/by-id/nvme-eui.${n}`;
  return {
    id: "drawn",
    state: "completed",
    candidates: each(8, (n, numa) => ({ slot_index: n + 10, slot_class: "gpu", blockers: n === 7 ? ["its disk is mounted"] : [], bindings: { gpu_pci_address: gpu(n), gpu_module_id: n, numa_node: numa, nvme_device: disk(n), nvme_bytes: "3840755982336", fabric_device: `mlx5_${numa}`, fabric_vf_pci_address: `0000:a${numa}:00.${n % 4}` } })),
    host: {
      numa_nodes: each(2, (n) => ({ id: n, cpus: `${n * 56}-${n * 56 + 55}`, memory_bytes: "1099511627776" })),
      gpus: each(8, (n, numa) => ({ module_id: n, uuid: `GPU-uuid-${n}`, function: on(gpu(n), numa) })),
      disks: each(10, (n, numa) => ({ by_id: disk(n), kernel_name: `nvme${n}n1`, bytes: "3840755982336", controller: on(`0000:c${n}:00.0`, numa), uses: n > 7 ? [{ kind: "mount", device: `nvme${n}n1p1`, detail: "/" }] : [] })),
      fabric_devices: each(2, (n) => ({ rdma_device: `mlx5_${n}`, function: on(`0000:a${n}:00.7`, n), ports: [{ number: 1, state: "ACTIVE" }], virtual_functions: each(16, (v) => ({ number: v, function: on(`0000:a${n}:00.${v}`, n) })) })),
    },
  };
}

export async function approve() {
  await test("an operator approves the slots of a host", async () => {
    await signIn("user:admin");
    await openHost();
    await page.getByRole("tab", { name: "Topology" }).click();
    const nothing = page.getByText("No discovery yet");
    const candidates = page.getByRole("table", { name: "Candidates" });
    await nothing.or(candidates).waitFor();
    if (await nothing.isVisible()) await page.getByRole("button", { name: "Discover" }).click();
    await candidates.waitFor();
    const approve = page.getByRole("button", { name: /^Approve \d/ });
    if (await approve.isVisible()) {
      await shot("node-candidates");
      await approve.click();
      await page.getByText("The disks will be wiped").waitFor();
      await page.getByRole("alertdialog").getByRole("button", { name: "Approve" }).click();
      await candidates.getByText("Approved").first().waitFor();
    } else console.log("      they were approved before");
    await signOut();
  });
}

export async function hosts() {
  await test("h_04_the_nodes_page_shows_readiness", async () => {
    await signOut();
    await signIn("user:admin");
    await page.getByRole("link", { name: "Nodes" }).click();
    const host = page.getByRole("article").filter({ has: page.getByRole("heading", { name: /lab-host/ }) });
    await host.getByText("Ready", { exact: true }).waitFor();
    assert.equal(await host.getByRole("listitem").count(), 2);
    await live();
    await shot("nodes");
    await accessible(page, "nodes");
    const search = page.getByRole("searchbox", { name: "Search" });
    await search.fill("no such node");
    await page.getByText("No node matches").waitFor();
    await page.reload();
    await page.getByText("No node matches").waitFor();
    await page.getByRole("button", { name: "Clear the filters" }).click();
    await page.getByLabel("Health", { exact: true }).selectOption("lost");
    await page.getByText("No node matches").waitFor();
    await page.getByLabel("Health", { exact: true }).selectOption("schedulable");
    await host.getByRole("link").click();
    await page.getByRole("heading", { name: /Slot 0/ }).waitFor();
    await shot("node-slots");
    await accessible(page, "a node's slots");
    await page.getByRole("tab", { name: "Checks" }).click();
    await page.getByRole("table", { name: "Evidence" }).waitFor();
    await shot("node-checks");
    await accessible(page, "a node's checks");
  });

  await test("a_58_a_node_of_eight_gpus_is_drawn_with_the_identity_of_each_device_and_fits_a_phone", async () => {
    const found = "**/slice-topology/discovery";
    await page.route(found, (route) => (route.request().method() === "GET" ? route.fulfill({ json: eightGpus() }) : route.continue()));
    await page.getByRole("tab", { name: "Slots" }).click();
    await page.reload();
    const [first, second] = [0, 1].map((numa) => page.getByRole("listbox", { name: `Devices of NUMA node ${numa}` }));
    await second.waitFor();
    const gpu = first.getByRole("option", { name: /^GPU 2/ });
    await gpu.hover();
    const identity = page.locator(".device-identity");
    await identity.getByText("GPU-uuid-2").waitFor();
    await gpu.focus();
    await page.keyboard.press("ArrowRight");
    await identity.getByText("nvme-eui.2").waitFor();
    await accessible(page, "the drawing of a node");
    for (const width of [1440, 768, 390]) {
      await page.setViewportSize({ width, height: 900 });
      await shot(`node-drawing-${width}`);
      const over = await page.evaluate(() => [...document.querySelectorAll(".domain svg, .domain svg *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1).length);
      assert.equal(over, 0, `nothing of the drawing is cut off at ${width}`);
    }
    await page.setViewportSize(WIDE);
    await page.unroute(found);
    await page.reload();
    await page.getByRole("heading", { name: /Slot 0/ }).waitFor();
  });

  await test("h_30_candidates_and_approved_slots_are_shown_and_discovered_anew", async () => {
    await page.getByRole("tab", { name: "Topology" }).click();
    await page.getByRole("button", { name: "Discover" }).click();
    await page.getByText(/^Discovered just now/).waitFor({ timeout: 60_000 });
    await page.getByRole("table", { name: "Candidates" }).waitFor();
    await shot("node-topology");
    await accessible(page, "a node's topology");
  });

  await test("a slot is disabled and enabled", async () => {
    await page.getByRole("tab", { name: "Slots" }).click();
    const slot = page.getByRole("article", { name: "Slot 1" });
    await slot.getByRole("button", { name: "Disable" }).click();
    await page.getByLabel("Reason").fill("console test");
    await page.getByRole("alertdialog").getByRole("button", { name: "Disable" }).click();
    await slot.getByRole("button", { name: "Enable" }).click();
    await page.getByRole("alertdialog").getByRole("button", { name: "Enable" }).click();
    await slot.getByRole("button", { name: "Disable" }).waitFor();
  });
}

/** While something runs on the host. */
export async function drain() {
  await test("a node is drained, shows what it waits for, and comes back", async () => {
    await signOut();
    await signIn("user:admin");
    await openHost();
    await page.getByRole("button", { name: "Drain" }).click();
    const dialog = page.getByRole("alertdialog");
    await dialog.getByText("Nothing is stopped").waitFor();
    assert.ok(await dialog.getByRole("button", { name: "Drain" }).isDisabled(), "a reason is asked for");
    await dialog.getByLabel("Reason").fill("new power supply");
    await shot("drain-dialog");
    await dialog.getByRole("button", { name: "Drain" }).click();
    await page.getByText("1 allocation, 1 claim left").waitFor();
    await page.getByRole("heading", { level: 1 }).getByText("Draining").waitFor();
    await page.getByRole("progressbar", { name: "Drain" }).waitFor();
    await shot("node-draining");
    await accessible(page, "a node that is drained");
    await page.getByRole("link", { name: "Nodes", exact: true }).first().click();
    await page.getByRole("article").getByText("Draining", { exact: true }).waitFor();
    assert.equal(await page.getByRole("article").getByText("Ready", { exact: true }).count(), 0, "what takes no launches is not called ready");
    await page.getByText("1 node, 0 schedulable").waitFor();
    await shot("nodes-draining");
  });

  await test("the launch form shows why nodes do not qualify", async () => {
    await page.getByRole("link", { name: "Launch", exact: true }).first().click();
    await page.getByRole("radio", { name: /Lab slice/ }).check({ force: true });
    await page.getByText("Fits on 0 of 1 node").waitFor();
    await page.locator(".explanation").getByText("out of service").waitFor();
    assert.ok(await page.getByRole("button", { name: "Launch", exact: true }).isDisabled());
    await page.setViewportSize({ width: 1280, height: 1160 });
    await page.evaluate(() => window.scrollTo(0, 0));
    await shot("launch-explained");
    await page.setViewportSize({ width: 1280, height: 860 });
    await openHost();
    await page.getByRole("button", { name: "Uncordon" }).click();
    await page.getByRole("alertdialog").getByRole("button", { name: "Uncordon" }).click();
    await page.getByRole("button", { name: "Cordon", exact: true }).waitFor();
    await signOut();
    await signIn("user:demo");
  });
}
