// Reserved capacity, launching several, waiting in line, and the operators' reports; while one GPU of two is in use.
import assert from "node:assert/strict";
import { accessible } from "./accessible.mjs";
import { BASE, WIDE, name, newPublicKey, page, prewarmed, shot, signIn, signOut, test } from "./world.mjs";

const TALL = { width: 1280, height: 1500 };
const PHONE = { width: 390, height: 844 };
const heading = (text) => page.getByRole("heading", { level: 1, name: text });
const dialog = page.getByRole("alertdialog");
const go = (link) => page.getByRole("navigation", { name: "Main" }).getByRole("link", { name: link, exact: true }).click();
const table = (title) => page.getByRole("table", { name: title });

async function as(principal) {
  await signOut();
  await signIn(principal);
}

/** A page in full, judged, and on a phone, where nothing may be cut off at the side. */
async function seen(title, where, size = WIDE) {
  await page.setViewportSize(size);
  await page.evaluate(() => window.scrollTo(0, 0));
  await shot(title);
  await accessible(page, where);
  await page.setViewportSize(PHONE);
  const over = await page.evaluate(() => [...document.querySelectorAll("main *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".table-card, .scroll, [role=tablist]")).map((e) => e.className || e.tagName).slice(0, 5));
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
  await test("a project without reservations is told what one is, and without a limit why it cannot make one", async () => {
    await go("Reservations");
    await page.getByText("Nothing is reserved now").waitFor();
    await seen("reservations-empty", "reservations of a project that has none");
    await reserve("Reservations", async () => {
      await page.getByLabel("GPUs", { exact: true }).fill("0");
      await page.getByLabel("Name").fill(`${name}-own`);
      await page.getByRole("button", { name: "Reserve", exact: true }).click();
      await page.getByText("1 to 1024.").waitFor();
      await shot("reserve-invalid");
      await page.getByLabel("GPUs", { exact: true }).fill("1");
    });
    await page.getByRole("alert").getByText("ask an operator to reserve more for it").waitFor();
    await seen("reserve-refused", "a reservation that was refused", TALL);
  });
}

export async function reservations() {
  await test("an operator reserves for a project; what is not free now is said, and gathered", async () => {
    await as("user:admin");
    await reserve("All reservations", async () => {
      await page.getByLabel("GPUs", { exact: true }).fill("2");
      await page.getByLabel("Name").fill(`${name}-team`);
      await page.getByRole("button", { name: "1 day" }).click();
    });
    await page.getByRole("alert").getByText("1 of 2 GPU can be reserved now.").waitFor();
    await seen("reserve-operator", "a reservation for which too little is free", TALL);
    await page.getByRole("button", { name: "Begin with what is free" }).click();
    await page.getByRole("button", { name: "Reserve", exact: true }).click();
    await heading(`${name}-team`).getByText("Gathering").waitFor();
    await page.getByText("1 of 2 GPUs held").waitFor();
    await page.getByRole("list", { name: "Launches that fit" }).getByText("launch of 1 GPU").waitFor();
    await seen("reservation-gathering", "a reservation that gathers");
    await page.getByRole("link", { name: "All reservations" }).first().click();
    await page.getByRole("button", { name: "Set a limit" }).click();
    const project = await page.getByLabel("Project", { exact: true }).evaluate((input) => input.list.options[0].value);
    await dialog.getByLabel("Project", { exact: true }).fill(project);
    await dialog.getByLabel("GPUs at most").fill("2");
    await shot("reservation-limit");
    await dialog.getByRole("button", { name: "Set the limit" }).click();
    await page.getByText("may reserve 2 GPUs by itself now").waitFor();
    await page.getByRole("switch", { name: "Only with unused GPUs" }).check();
    await table("All reservations").getByText("1 unused").waitFor();
    await seen("reservations-all", "reservations of all projects");
  });
}

export async function several() {
  await test("several are launched together or not at all; a refusal tells why", async () => {
    await as("user:demo");
    await go("Reservations");
    await page.getByRole("link", { name: `${name}-team` }).click();
    await page.getByText("An operator made it, so an operator ends it.").waitFor();
    await page.getByRole("link", { name: "Launch on it" }).click();
    await page.getByText(/\d available/).first().waitFor();
    await page.getByRole("radio", { name: /lab-mini Mini/ }).check({ force: true });
    await page.getByLabel("Name").fill(`${name}-pair`);
    await page.getByLabel("SSH public keys").fill(newPublicKey());
    await page.getByLabel("How many at once").selectOption("2");
    await page.getByText(`${name}-pair-1 to ${name}-pair-2: all of them or none`).waitFor();
    await page.getByRole("alert").getByText(`${name}-pair-2: 2 GPUs on 1 node are in use`).waitFor();
    await seen("launch-several-refused", "a launch of several that does not fit", TALL);
  });

  await test("a launch may be beside another allocation, or away from it", async () => {
    await page.getByLabel("How many at once").selectOption("1");
    await page.getByRole("radio", { name: "Away from others" }).check({ force: true });
    await page.getByRole("checkbox", { name: new RegExp(name) }).check();
    await page.getByRole("alert").getByText("that the placement constraints rule out").waitFor();
    await seen("launch-away", "a launch with nowhere to go", TALL);
    await page.getByRole("radio", { name: "Beside another" }).check({ force: true });
    await page.getByLabel("Beside", { exact: true }).selectOption({ index: 1 });
    await page.getByText("Fits where it may run").waitFor();
    await page.getByText("Fits on 1 of 1 node here").waitFor();
    await page.waitForFunction(() => !document.querySelector(".summary .problem"));
    assert.ok(await page.getByRole("button", { name: "Launch", exact: true }).isEnabled());
    await seen("launch-beside", "a launch beside another", TALL);
  });

  await test("con_10_a_launch_may_insist_on_a_cached_image_once_a_node_has_it", async () => {
    const judged = page.waitForResponse((response) => /"require_prewarmed":true/.test(response.request().postData() ?? "") && response.ok());
    await prewarmed.check();
    await judged;
    await page.getByText("Fits where it may run").waitFor();
    assert.ok(await page.getByRole("button", { name: "Launch", exact: true }).isEnabled());
  });

  await test("several wait in line together, with place and reason", async () => {
    await page.getByRole("radiogroup", { name: "GPUs" }).getByRole("radio").nth(1).check({ force: true });
    await page.getByLabel("Wait in line when it does not fit now").check();
    await page.getByText("Does not fit now where it may run").waitFor();
    await page.getByText("Fits on 0 of 1 node here").waitFor();
    await seen("launch-waits", "a launch that would wait", TALL);
    await page.getByLabel("How many at once").selectOption("2");
    await page.getByLabel("Labels, if any").fill("app=db");
    await page.getByRole("button", { name: "Launch 2" }).click();
    await heading("Allocations").waitFor();
    for (const number of [1, 2]) await page.getByRole("row", { name: new RegExp(`${name}-pair-${number}.*Place 1 in line\\. \\S`) }).waitFor();
    await seen("waiting-several", "allocations that wait");
    await page.getByRole("link", { name: `${name}-pair-1` }).click();
    await page.getByText("Next in line").waitFor();
    await seen("waiting-one", "an allocation that waits");
  });
}

export async function reports() {
  const tab = (text) => page.getByRole("tab", { name: text }).click();

  await test("the fleet's use over time, for each product and region", async () => {
    await as("user:admin");
    await go("Capacity");
    await page.getByRole("radio", { name: "1 hour" }).check({ force: true });
    await page.locator(".chart canvas").waitFor();
    const row = table("Capacity of each product and region").getByRole("row", { name: /lab-slice lab/ });
    await row.getByRole("button").click();
    await page.getByRole("heading", { name: "lab-slice in lab" }).waitFor();
    await page.locator(".chart canvas").waitFor();
    await seen("capacity", "capacity over time");
  });

  await test("who waits, in which order, and why", async () => {
    await tab("Who waits");
    const row = table("Who waits").getByRole("row").nth(1);
    await row.getByText("4 GPUs in 2 allocations").waitFor();
    await seen("capacity-line", "who waits");
  });

  await test("an operator sets the class of a project, from its request and by its id", async () => {
    const row = table("Who waits").getByRole("row").nth(1);
    const set = dialog.getByRole("button", { name: "Set the class" });
    await row.getByRole("button", { name: "Change the class of project" }).click();
    assert.ok(await set.isDisabled(), "a class is asked for");
    await dialog.getByRole("radio", { name: "High" }).check({ force: true });
    await shot("capacity-priority");
    await accessible(page, "the question which class a project is in");
    await set.click();
    await page.getByText("wait in class high now").waitFor();
    await row.getByText("High", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Set a priority" }).click();
    const project = dialog.getByLabel("Project", { exact: true });
    await dialog.getByRole("radio", { name: "Normal" }).check({ force: true });
    await project.fill("nobody");
    await set.click();
    await dialog.getByRole("alert").getByText("project_id").first().waitFor();
    await project.fill(await project.evaluate((input) => input.list.options[0].value));
    await set.click();
    await page.getByText("wait in class normal now").waitFor();
    await row.getByText("Normal", { exact: true }).waitFor();
  });

  await test("b_48 moves that would make room, and nodes that could be whole", async () => {
    await tab("Make room");
    await page.getByRole("combobox", { name: "Product" }).selectOption({ label: "Lab slice (emulated, no GPU)" });
    await page.getByRole("button", { name: "Look", exact: true }).click();
    await page.getByText("Moving at most 8 allocations would not make room for one more").waitFor();
    await seen("capacity-room", "moves that would make room");
    await tab("Whole nodes");
    await page.getByText("It is the only node, so there is no room elsewhere").waitFor();
    await seen("capacity-whole", "nodes that could be whole");
  });

  await test("without a region one is told what to do next", async () => {
    const regions = "**/api/v1/regions?*";
    await page.route(regions, (route) => route.fulfill({ json: { regions: [] } }));
    await page.goto(`${BASE}/admin/capacity`);
    await tab("Who waits");
    await page.getByText("There is no region yet").waitFor();
    await seen("capacity-no-region", "who waits without a region");
    await page.goto(`${BASE}/launch`);
    await page.getByText("There is no region yet").waitFor();
    await seen("launch-no-region", "the launch form without a region");
    await page.unroute(regions);
    await page.goto(`${BASE}/admin/capacity`);
  });
}

/** Address of the form that launches again what waited beside the allocation, with a cached image. */
let again = "";

export async function leftOut() {
  await test("what one to launch again was near to and has ended is left out, and that is said", async () => {
    await page.goto(again);
    await page.getByText("The allocation that it was to be beside is not on a node any more.").waitFor();
    assert.ok(await page.getByRole("radio", { name: "Anywhere" }).isChecked());
    assert.ok(await prewarmed.isChecked());
    await page.getByText("Fits where it may run").waitFor();
    await seen("launch-again-left-out", "a launch again without its neighbour", TALL);
  });
}

export async function ends() {
  await test("who waits stops waiting, and an operator gives back what is reserved", async () => {
    await go("All reservations");
    await page.getByRole("link", { name: `${name}-team` }).click();
    await page.getByRole("button", { name: "Give back" }).click();
    await dialog.getByText("What runs goes on").waitFor();
    await dialog.getByLabel("Reason, if there is one").fill("the team is done");
    await shot("reservation-end");
    await accessible(page, "the question before a reservation ends");
    await dialog.getByRole("button", { name: "Give back" }).click();
    await heading(`${name}-team`).getByText("Canceled").waitFor();
    await page.getByText("nothing is held any more").waitFor();
    await as("user:demo");
    for (const number of [1, 2]) {
      await go("Allocations");
      await page.getByRole("link", { name: `${name}-pair-${number}` }).click();
      await page.getByRole("button", { name: "Stop waiting" }).click();
      await dialog.getByRole("button", { name: "Stop waiting" }).click();
      await heading(`${name}-pair-${number}`).getByText("Released").waitFor();
    }
    again = page.url().replace("/allocations/", "/launch?again=");
  });

  await test("con_10_one_to_launch_again_is_asked_to_run_where_it_was", async () => {
    await page.goto(again);
    await page.getByLabel("Beside", { exact: true }).waitFor();
    assert.match(await page.getByLabel("Beside", { exact: true }).locator("option:checked").textContent(), new RegExp(`^${name} `));
    assert.ok(await prewarmed.isChecked());
    assert.equal(await page.getByLabel("Labels, if any").inputValue(), "app=db");
    assert.equal(await page.getByText("Filled in as").count(), 0, "nothing was left out");
    await seen("launch-again", "a launch again", TALL);
  });

  await test("a project reserves within its limit, now and for later, and gives back", async () => {
    await reserve("Reservations", async () => page.getByLabel("Name").fill(`${name}-own`));
    await heading(`${name}-own`).getByText("Active").waitFor();
    await seen("reservation", "a reservation");
    await reserve("Reservations", async () => {
      await page.getByLabel("Name").fill(`${name}-later`);
      await page.getByRole("radio", { name: "Begin later" }).check({ force: true });
      await page.getByRole("button", { name: "1 week" }).click();
      await seen("reserve", "the form of a reservation", TALL);
    });
    await heading(`${name}-later`).getByText("Scheduled").waitFor();
    await go("Reservations");
    await table("Reservations").getByText("1 GPU: 1 unused").waitFor();
    await table("Reservations").getByText("1 GPU, none held yet").waitFor();
    await seen("reservations", "the reservations of a project");
    await page.getByRole("link", { name: `${name}-own` }).click();
    await page.getByRole("button", { name: "Give back" }).click();
    await dialog.getByRole("button", { name: "Give back" }).click();
    await heading(`${name}-own`).getByText("Canceled").waitFor();
    await go("Reservations");
    await page.getByRole("link", { name: `${name}-later` }).click();
    await page.getByRole("button", { name: "Cancel reservation" }).click();
    await dialog.getByRole("button", { name: "Cancel the reservation" }).click();
    await heading(`${name}-later`).getByText("Canceled").waitFor();
    await go("Reservations");
    await page.getByRole("switch", { name: "Show ended" }).check();
    await table("Reservations").getByText("Canceled").first().waitFor();
    await page.getByRole("radio", { name: "Dark" }).check({ force: true });
    await seen("reservations-dark", "reservations in the dark");
    await page.getByRole("radio", { name: "As the system" }).check({ force: true });
    await go("Allocations");
    await page.getByRole("link", { name, exact: true }).click();
  });
}
