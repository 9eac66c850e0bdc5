// Reserved capacity, launching several, the queue, and the operators' reports; while one GPU of two is in use.
import assert from "node:assert/strict";
import { accessible } from "./accessible.mjs";
import { BASE, WIDE, as, dialog, go, heading, name, newPublicKey, page, prewarmed, shot, table, test } from "./world.mjs";

const TALL = { width: 1280, height: 1500 };
const PHONE = { width: 390, height: 844 };

/** A page in full, judged, and on a phone, where nothing may be cut off at the side. */
async function seen(title, where, size = WIDE) {
  await page.setViewportSize(size);
  await page.evaluate(() => window.scrollTo(0, 0));
  await shot(title);
  await accessible(page, where);
  await page.setViewportSize(PHONE);
  const cutOff = () => [...document.querySelectorAll("main *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".table-card, .scroll, [role=tablist]")).map((e) => e.className || e.tagName).slice(0, 5);
  // a chart is drawn anew once it has noticed its new width
  await page.waitForFunction(`(${cutOff})().length === 0`, undefined, { timeout: 5000 }).catch(() => {});
  const over = await page.evaluate(cutOff);
  await shot(`${title}-phone`);
  await page.setViewportSize(WIDE);
  assert.deepEqual(over, [], `${where} on a phone`);
}

async function reserve(side, fill) {
  await go(side);
  await page.getByRole("link", { name: /^Reserve/ }).first().click();
  await heading("Reserve GPUs").waitFor();
  await page.getByRole("radio", { name: /Lab slice/ }).check({ force: true });
  await fill();
  await page.getByRole("button", { name: "Reserve", exact: true }).click();
}

export async function limits() {
  await test("a project without reservations sees what one is, and without a limit why it cannot create one", async () => {
    await go("Reservations");
    await page.getByText("No active reservations").waitFor();
    await page.getByText("The reservation limit of this project is 0: ask an administrator to raise the reservation limit").waitFor();
    assert.equal(await page.getByRole("link", { name: /^Reserve/ }).filter({ hasNotText: "Reservations" }).count(), 0, "nothing is offered that would be refused");
    await seen("reservations-empty", "reservations of a project that has none");
    await page.goto(`${BASE}/reservations/new`);
    await page.getByText("This project cannot reserve GPUs yet").waitFor();
    await page.getByText("ask an administrator to raise the reservation limit").waitFor();
    await seen("reserve-refused", "the form of a project that cannot reserve");
  });
}

export async function reservations() {
  await test("an operator reserves for a project; what is not free now is reported, and gathered", async () => {
    await as("user:admin");
    await reserve("All reservations", async () => {
      await page.getByLabel("GPUs", { exact: true }).fill("2");
      await page.getByLabel("Name").fill(`${name}-team`);
      await page.getByRole("button", { name: "1 day" }).click();
      await page.getByLabel("Release a GPU after").selectOption({ label: "2 hours" });
      await page.reload();
      await heading("Reserve GPUs").waitFor();
      assert.equal(await page.getByLabel("GPUs", { exact: true }).inputValue(), "2", "a reload keeps what was typed");
      assert.equal(await page.getByRole("button", { name: "1 day" }).getAttribute("aria-pressed"), "true", "and the length");
      assert.equal(await page.getByLabel("Release a GPU after").inputValue(), "7200", "and the idle release");
      await page.getByLabel("Release a GPU after").selectOption({ index: 0 });
    });
    await page.getByRole("alert").getByText("1 of 2 GPUs can be reserved now.").waitFor();
    await seen("reserve-operator", "a reservation for which too little is free", TALL);
    await page.getByRole("button", { name: "Start with the free GPUs" }).click();
    await page.getByRole("button", { name: "Reserve", exact: true }).click();
    await heading(`${name}-team`).getByText("Gathering").waitFor();
    await page.getByText("1 of 2 GPUs reserved").waitFor();
    await page.getByRole("list", { name: "Launches that fit" }).getByText("launch of 1 GPU").waitFor();
    await seen("reservation-gathering", "a reservation that gathers");
    await page.getByRole("link", { name: "All reservations" }).first().click();
    await page.getByRole("button", { name: "Set limit" }).click();
    const project = await page.getByLabel("Project", { exact: true }).evaluate((input) => input.list.options[0].value);
    await dialog.getByLabel("Project", { exact: true }).fill(project);
    await dialog.getByLabel("Maximum GPUs").fill("2");
    await shot("reservation-limit");
    await dialog.getByRole("button", { name: "Set limit" }).click();
    await page.getByText("can now reserve 2 GPUs").waitFor();
    await page.getByRole("switch", { name: "Only with unused GPUs" }).check();
    await table("All reservations").getByText("1 unused").waitFor();
    await seen("reservations-all", "reservations of all projects");
  });
}

export async function several() {
  await test("several are launched all or none; a refusal gives the reason", async () => {
    await as("user:demo");
    await go("Reservations");
    await page.getByRole("link", { name: `${name}-team` }).click();
    await page.getByText("Only an operator can cancel it.").waitFor();
    await page.getByRole("link", { name: "Launch on it" }).click();
    await page.getByText(/\d available/).first().waitFor();
    await page.getByRole("radio", { name: /lab-mini Mini/ }).check({ force: true });
    await page.getByLabel("Name").fill(`${name}-pair`);
    await page.getByLabel("SSH public keys").fill(newPublicKey());
    await page.getByLabel("Count").selectOption("2");
    await page.getByText(`${name}-pair-1 to ${name}-pair-2: all or none`).waitFor();
    await page.getByRole("alert").getByText(`${name}-pair-2: 2 GPUs are in use on 1 node`).waitFor();
    await seen("launch-several-refused", "a launch of several that does not fit", TALL);
  });

  await test("a launch may have affinity or anti-affinity to another allocation", async () => {
    await page.getByLabel("Count").selectOption("1");
    await page.getByRole("radio", { name: "Anti-affinity", exact: true }).check({ force: true });
    await page.getByRole("checkbox", { name: new RegExp(name) }).check();
    await page.getByRole("alert").getByText("excluded by the placement constraints").waitFor();
    await seen("launch-anti-affinity", "a launch with nowhere to go", TALL);
    await page.getByRole("radio", { name: "Affinity", exact: true }).check({ force: true });
    await page.getByLabel("Same node as", { exact: true }).selectOption({ index: 1 });
    await page.getByText("Fits with the placement constraint").waitFor();
    await page.reload();
    await page.getByText("Fits with the placement constraint").waitFor();
    assert.ok(await page.getByRole("radio", { name: "Affinity", exact: true }).isChecked(), "a reload keeps the placement");
    await page.getByText("Fits on 1 of 1 node").waitFor();
    await page.waitForFunction(() => !document.querySelector(".summary .problem"));
    assert.ok(await page.getByRole("button", { name: "Launch", exact: true }).isEnabled());
    await seen("launch-affinity", "a launch with affinity", TALL);
  });

  await test("con_10_a_launch_may_require_a_cached_image_once_a_node_has_it", async () => {
    const judged = page.waitForResponse((response) => /"require_prewarmed":true/.test(response.request().postData() ?? "") && response.ok());
    await prewarmed.check();
    await judged;
    await page.getByText("Fits with the placement constraint").waitFor();
    assert.ok(await page.getByRole("button", { name: "Launch", exact: true }).isEnabled());
  });

  await test("several are queued together, with position and reason", async () => {
    await page.getByRole("radiogroup", { name: "GPUs" }).getByRole("radio").nth(1).check({ force: true });
    await page.getByLabel("Queue this launch if it does not fit now").check();
    await page.getByText("Does not fit now with the placement constraint").waitFor();
    await page.reload();
    assert.ok(await page.getByLabel("Queue this launch if it does not fit now").isChecked(), "a reload keeps that it may be queued");
    await page.getByText("Does not fit now with the placement constraint").waitFor();
    await page.getByText("Fits on 0 of 1 node").waitFor();
    await seen("launch-queued", "a launch that would be queued", TALL);
    await page.getByLabel("Count").selectOption("2");
    await page.getByLabel("Labels (optional)").fill("app=db");
    await page.getByRole("button", { name: "Launch 2" }).click();
    await heading("Allocations").waitFor();
    for (const number of [1, 2]) await page.getByRole("row", { name: new RegExp(`${name}-pair-${number}.*Position 1 in the queue\\. \\S`) }).waitFor();
    await seen("queued-several", "queued allocations");
    await page.getByRole("link", { name: `${name}-pair-1` }).click();
    await page.getByText("Queued, next to be placed").waitFor();
    await seen("queued-one", "a queued allocation");
  });
}

export async function reports() {
  const tab = (text) => page.getByRole("tab", { name: text }).click();

  await test("use of the fleet over time, by SKU and region", async () => {
    await as("user:admin");
    await go("Capacity");
    await page.getByRole("radio", { name: "1 hour" }).check({ force: true });
    await page.locator(".chart canvas").waitFor();
    const row = table("Capacity by SKU and region").getByRole("row", { name: /lab-slice lab/ });
    await row.getByRole("button").click();
    await page.getByRole("heading", { name: "lab-slice in lab" }).waitFor();
    await page.locator(".chart canvas").waitFor();
    await seen("capacity", "capacity over time");
  });

  await test("the queue, in order and with reasons", async () => {
    await tab("Queue");
    await page.reload();
    await page.getByRole("tab", { name: "Queue", selected: true }).waitFor();
    const row = table("Queue").getByRole("row").nth(1);
    await row.getByText("4 GPUs in 2 allocations").waitFor();
    await seen("capacity-queue", "the queue");
  });

  await test("an operator sets the priority of a project, from its request and by its id", async () => {
    const row = table("Queue").getByRole("row").nth(1);
    const set = dialog.getByRole("button", { name: "Set priority" });
    await row.getByRole("button", { name: "Change the priority of project" }).click();
    assert.ok(await set.isDisabled(), "a priority is required");
    await dialog.getByRole("radio", { name: "High" }).check({ force: true });
    await shot("capacity-priority");
    await accessible(page, "the dialog for a project's priority");
    await set.click();
    await page.getByText("now has high priority").waitFor();
    await row.getByText("High", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Set priority" }).click();
    const project = dialog.getByLabel("Project", { exact: true });
    await dialog.getByRole("radio", { name: "Normal" }).check({ force: true });
    await project.fill("nobody");
    await dialog.getByText("No project has this name or id.").waitFor();
    assert.ok(await set.isDisabled(), "a project that is known is required");
    await project.fill(await project.evaluate((input) => input.list.options[0].value));
    await set.click();
    await page.getByText("now has normal priority").waitFor();
    await row.getByText("Normal", { exact: true }).waitFor();
  });

  await test("b_48 defragmentation, and nodes for bare metal", async () => {
    await tab("Defragmentation");
    await page.getByRole("combobox", { name: "SKU" }).selectOption({ label: "Lab slice (emulated, no GPU)" });
    await page.getByRole("button", { name: "Run", exact: true }).click();
    await page.getByText("Moving at most 8 allocations does not let another launch fit").waitFor();
    await seen("capacity-defragmentation", "a defragmentation");
    await page.getByRole("combobox", { name: "Maximum moves" }).selectOption("16");
    await page.reload();
    assert.equal(await page.getByRole("combobox", { name: "Maximum moves" }).inputValue(), "16", "a reload keeps what was chosen");
    await tab("Bare metal");
    await page.getByText("This is the only node").waitFor();
    await seen("capacity-baremetal", "nodes for bare metal");
  });

  await test("without a region the next step is shown", async () => {
    const regions = "**/api/v1/regions?*";
    await page.route(regions, (route) => route.fulfill({ json: { regions: [] } }));
    await page.goto(`${BASE}/admin/capacity`);
    await tab("Queue");
    await page.getByText("No region yet").waitFor();
    await seen("capacity-no-region", "the queue without a region");
    await page.goto(`${BASE}/launch`);
    await page.getByText("No region yet").waitFor();
    await seen("launch-no-region", "the launch form without a region");
    await page.unroute(regions);
    await page.goto(`${BASE}/admin/capacity`);
  });
}

/** Address of the form that launches again what waited beside the allocation, with a cached image. */
let again = "";

export async function leftOut() {
  await test("a repeated launch leaves out an ended allocation of its affinity, and reports it", async () => {
    await page.goto(again);
    await page.getByText("The allocation of the affinity is no longer on a node.").waitFor();
    assert.ok(await page.getByRole("radio", { name: "Anywhere", exact: true }).isChecked());
    assert.ok(await prewarmed.isChecked());
    await page.getByText("Fits with the placement constraint").waitFor();
    await seen("launch-again-left-out", "a launch again without its neighbour", TALL);
  });
}

export async function ends() {
  await test("a queued request is canceled, and an operator ends a reservation", async () => {
    await as("user:admin");
    await go("All reservations");
    await page.getByRole("link", { name: `${name}-team` }).click();
    await page.getByRole("button", { name: "Cancel reservation" }).click();
    await dialog.getByText("Running allocations continue").waitFor();
    await dialog.getByLabel("Reason (optional)").fill("the team is done");
    await shot("reservation-end");
    await accessible(page, "the question before a reservation ends");
    await dialog.getByRole("button", { name: "Cancel reservation" }).click();
    await heading(`${name}-team`).getByText("Canceled").waitFor();
    await page.getByText("No GPUs are reserved for it").waitFor();
    await as("user:demo");
    for (const number of [1, 2]) {
      await go("Allocations");
      await page.getByRole("link", { name: `${name}-pair-${number}` }).click();
      await page.getByRole("button", { name: "Cancel request" }).click();
      await dialog.getByRole("button", { name: "Cancel request" }).click();
      await heading(`${name}-pair-${number}`).getByText("Released").waitFor();
    }
    again = page.url().replace("/allocations/", "/launch?again=");
  });

  await test("con_10_a_repeated_launch_keeps_its_placement_constraints", async () => {
    await page.goto(again);
    await page.getByLabel("Same node as", { exact: true }).waitFor();
    assert.match(await page.getByLabel("Same node as", { exact: true }).locator("option:checked").textContent(), new RegExp(`^${name} `));
    assert.ok(await prewarmed.isChecked());
    assert.equal(await page.getByLabel("Labels (optional)").inputValue(), "app=db");
    assert.equal(await page.getByText("Copied from").count(), 0, "nothing was left out");
    await seen("launch-again", "a launch again", TALL);
  });

  await test("a project reserves within its limit, now and for later, and ends it", async () => {
    await reserve("Reservations", async () => {
      await page.getByLabel("GPUs", { exact: true }).fill("0");
      await page.getByLabel("Name").fill(`${name}-own`);
      await page.getByRole("button", { name: "Reserve", exact: true }).click();
      await page.getByText("Enter 1 to 1024.").waitFor();
      await shot("reserve-invalid");
      await page.reload();
      assert.equal(await page.getByLabel("Name").inputValue(), `${name}-own`, "a reload keeps what was typed");
      await page.getByLabel("GPUs", { exact: true }).fill("1");
    });
    await heading(`${name}-own`).getByText("Active").waitFor();
    await seen("reservation", "a reservation");
    await reserve("Reservations", async () => {
      await page.getByLabel("Name").fill(`${name}-later`);
      await page.getByRole("radio", { name: "Start later" }).check({ force: true });
      await page.getByRole("button", { name: "1 week" }).click();
      await seen("reserve", "the form of a reservation", TALL);
    });
    await heading(`${name}-later`).getByText("Scheduled").waitFor();
    await go("Reservations");
    await table("Reservations").getByText("1 GPU: 1 unused").waitFor();
    await table("Reservations").getByText("1 GPU, none reserved yet").waitFor();
    await seen("reservations", "the reservations of a project");
    await page.getByRole("link", { name: `${name}-own` }).click();
    await page.getByRole("button", { name: "Cancel reservation" }).click();
    await dialog.getByRole("button", { name: "Cancel reservation" }).click();
    await heading(`${name}-own`).getByText("Canceled").waitFor();
    await go("Reservations");
    await page.getByRole("link", { name: `${name}-later` }).click();
    await page.getByRole("button", { name: "Cancel reservation" }).click();
    await dialog.getByRole("button", { name: "Cancel reservation" }).click();
    await heading(`${name}-later`).getByText("Canceled").waitFor();
    await go("Reservations");
    await page.getByRole("switch", { name: "Show ended" }).check();
    await table("Reservations").getByText("Canceled").first().waitFor();
    await page.getByRole("radio", { name: "Dark" }).check({ force: true });
    await seen("reservations-dark", "reservations in the dark");
    await page.getByRole("radio", { name: "System" }).check({ force: true });
    await go("Allocations");
    await page.getByRole("link", { name, exact: true }).click();
  });
}
