// What the platform offers and runs on, as an administrator keeps it: regions, SKUs, prices, images, nodes, agents.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run } from "./people.mjs";
import { BASE, answer, as, dialog, go, heading, look, page, shot, table, test } from "./world.mjs";

const REGION = `tour-${run}`;
const SKU = `tour-${run}-slice`;
const IMAGE = `tour-${run}`;
const HOSTS = [1, 2].map((number) => `tour-${run}-${number}`);

const tab = (title) => page.getByRole("tab", { name: title, exact: true }).click();
/** The row of an image, by its whole slug. */
const status = (slug) => table("Images").getByRole("row").filter({ has: page.getByText(slug, { exact: true }) });
const row = (list, text) => table(list).getByRole("row").filter({ hasText: text });

export async function catalog() {
  await test("a region is added, closed with a reason that users see, and named anew", async () => {
    await as("user:admin");
    await go("Catalog");
    await page.getByRole("button", { name: "Add a region" }).click();
    await dialog.getByLabel("Code").fill("Tour!");
    await dialog.getByText("Lowercase letters, digits, dots and hyphens.").waitFor();
    await dialog.getByLabel("Code").fill(REGION);
    await dialog.getByLabel("Display name").fill("Tour");
    await look("the form of a region");
    await answer("Save");
    await row("Regions", REGION).getByText("Open").waitFor();
    await page.getByRole("button", { name: `Edit ${REGION}` }).click();
    await dialog.getByLabel("Display name").fill("Tour, second hall");
    await dialog.getByRole("checkbox", { name: "Open for launches" }).uncheck();
    await dialog.getByLabel("Reason, shown to users").fill("This hall is being painted.");
    await look("the form of a region that is closed");
    await answer("Save");
    await page.reload();
    await row("Regions", REGION).getByText("Tour, second hall").waitFor();
    await row("Regions", REGION).getByText("This hall is being painted.").waitFor();
    await row("Regions", REGION).getByText("Closed").waitFor();
    await look("the regions");
    await page.goto(`${BASE}/launch`);
    await page.getByText("This hall is being painted.").first().waitFor();
  });

  await test("a SKU is added, gets a price and another one, and is disabled", async () => {
    await page.goto(`${BASE}/admin/catalog?tab=skus`);
    await page.getByRole("button", { name: "Add a SKU" }).click();
    await dialog.getByLabel("Code").fill(SKU);
    await dialog.getByLabel("Display name").fill("Tour slice");
    await dialog.getByLabel("Slot class").fill("tour");
    await dialog.getByLabel("GPU counts").fill("one");
    await dialog.getByText("Enter whole numbers").waitFor();
    await dialog.getByLabel("GPU counts").fill("2, 1");
    await dialog.getByLabel("Memory per GPU in GiB").fill("0.25");
    await look("the form of a SKU");
    await dialog.getByRole("button", { name: "Save" }).click();
    await dialog.getByRole("alert").getByText(/^Slot class: must be/).waitFor();
    await look("a SKU that is refused");
    await dialog.getByLabel("Slot class").fill("h200_sxm");
    await answer("Save");
    await page.reload();
    await row("SKUs", SKU).getByText("No price, not offered").waitFor();
    await row("SKUs", SKU).getByText("1, 2").waitFor();
    await look("the SKUs");
    await tab("Prices");
    const publish = async (amount) => {
      await page.getByRole("button", { name: "Publish a price" }).click();
      await dialog.getByLabel("SKU").selectOption(SKU);
      await dialog.getByLabel("Price per GPU-hour").fill(amount);
    };
    await publish("2,50");
    await dialog.getByText("Enter an amount such as 2.50").waitFor();
    await dialog.getByLabel("Price per GPU-hour").fill("2.50");
    await look("the form of a price");
    await answer("Publish");
    await publish("2.25");
    await answer("Publish");
    await page.getByLabel("SKU", { exact: true }).selectOption(SKU);
    await row("Prices", "2.25").getByText("Current").waitFor();
    await page.reload();
    await row("Prices", "2.50").getByText("Replaced").waitFor();
    await look("the prices of a SKU");
    await page.getByLabel("SKU", { exact: true }).selectOption("");
    await look("the prices");
    await tab("SKUs");
    await row("SKUs", SKU).getByText("2.25").waitFor();
    await page.getByRole("button", { name: `Edit ${SKU}` }).click();
    await dialog.getByRole("checkbox", { name: /^Disabled/ }).check();
    await answer("Save");
    await page.reload();
    await row("SKUs", SKU).getByText("Disabled").waitFor();
  });

  await test("an image that is not in the registry is refused, and one that is there is disabled and offered again", async () => {
    await page.goto(`${BASE}/admin/catalog?tab=images`);
    await table("Images").getByRole("row").nth(1).waitFor();
    const slug = (await table("Images").getByRole("row").nth(1).locator("strong").first().innerText()).trim();
    await page.getByRole("button", { name: "Add an image" }).click();
    await dialog.getByLabel("Slug").fill(IMAGE);
    await dialog.getByLabel("Source").fill("docker.io/library/debian");
    await dialog.getByText("Begins with oci://").waitFor();
    await dialog.getByLabel("Source").fill("oci://registry.example.com/nothing:here");
    await dialog.getByRole("checkbox", { name: /Lab slice/ }).check();
    await dialog.getByRole("button", { name: "Add a check" }).click();
    await dialog.getByLabel("Name", { exact: true }).fill("GPUs");
    await dialog.getByText("Lowercase letters, digits and hyphens.").waitFor();
    await dialog.getByLabel("Name", { exact: true }).fill("gpus");
    await dialog.getByLabel("Command").fill("nvidia-smi -L");
    await look("the form of an image");
    await dialog.getByRole("button", { name: "Add", exact: true }).click();
    await dialog.getByRole("alert").waitFor();
    await look("an image that is refused");
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await look("the images");
    await page.getByRole("button", { name: `Disable ${slug}`, exact: true }).click();
    await answer("Disable");
    await page.reload();
    await status(slug).getByText("Disabled").waitFor();
    await page.getByLabel("Status", { exact: true }).selectOption("active");
    await page.getByLabel("Status", { exact: true }).selectOption("disabled");
    await status(slug).waitFor();
    await page.getByRole("button", { name: `Activate ${slug}`, exact: true }).click();
    await answer("Activate");
    await page.getByLabel("Status", { exact: true }).selectOption("");
    await page.reload();
    await status(slug).getByText("Active").waitFor();
    await page.getByRole("searchbox").fill("nothing like it");
    await page.getByText("No image matches").waitFor();
  });
}

export async function enrolment() {
  const group = page.getByRole("group", { name: "Selected nodes" });
  await test("nodes are registered with a token that is shown once, enrolled together, and deleted", async () => {
    await go("Nodes");
    await page.getByRole("button", { name: "Register a node" }).click();
    const form = page.getByRole("dialog");
    await form.getByLabel("Hostname").fill("Not a host");
    await form.getByText("Lowercase letters, digits, dots and hyphens.").waitFor();
    await form.getByLabel("Hostname").fill(HOSTS[0]);
    await form.getByLabel("Rack (optional)").fill("r1");
    await form.getByLabel("Maximum VMs").fill("many");
    await form.getByText("Enter a whole number, 0 or more.").waitFor();
    await form.getByLabel("Maximum VMs").fill("0");
    await look("the form of a node");
    await form.getByRole("button", { name: "Register" }).click();
    await form.getByText(`${HOSTS[0]} is registered`).waitFor();
    await look("the token of a node");
    await form.getByRole("button", { name: "I have saved it" }).click();
    await page.getByRole("button", { name: "Register a node" }).click();
    await form.getByLabel("Hostname").fill(HOSTS[0]);
    await form.getByRole("button", { name: "Register" }).click();
    await form.getByRole("alert").waitFor();
    await shot("node-twice");
    await form.getByLabel("Hostname").fill(HOSTS[1]);
    await form.getByRole("button", { name: "Register" }).click();
    await form.getByRole("button", { name: "I have saved it" }).click();
    await page.goto(`${BASE}/admin/nodes?view=table&search=${REGION}`);
    for (const name of HOSTS) await page.getByRole("checkbox", { name: `Select ${name}` }).check();
    await look("the nodes as a table");
    await group.getByRole("button", { name: "Enrol 2" }).click();
    await answer("Enrol");
    const tokens = table("Enrolment tokens");
    for (const name of HOSTS) await tokens.getByRole("row", { name }).waitFor();
    await look("the tokens of several nodes");
    const [saved] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Export CSV" }).click()]);
    assert.equal(readFileSync(await saved.path(), "utf8").trim().split("\n").length, 3);
    await page.getByRole("button", { name: "I have saved them" }).click();
    await page.getByRole("link", { name: HOSTS[0] }).click();
    await heading(new RegExp(HOSTS[0])).waitFor();
    await look("a node that waits for its agent");
    await page.getByRole("button", { name: "Enrol", exact: true }).click();
    await dialog.getByRole("button", { name: "Make a token" }).click();
    await form.getByText(`Enrolment token of ${HOSTS[0]}`).waitFor();
    await look("another token of a node");
    await form.getByRole("button", { name: "I have saved it" }).click();
    await page.getByRole("button", { name: "Delete", exact: true }).click();
    await dialog.getByLabel("Reason (optional)").fill("ordered twice");
    await answer("Delete");
    await heading("Nodes").waitFor();
    await page.goto(`${BASE}/admin/nodes?view=table&search=${REGION}`);
    await page.getByRole("checkbox", { name: `Select ${HOSTS[1]}` }).check();
    await group.getByRole("button", { name: "Delete 1" }).click();
    await answer("Delete");
    await page.reload();
    await page.getByText("No node matches").waitFor();
  });

  await test("the report of a host is attached to its node; what is none is refused", async () => {
    const folder = mkdtempSync(join(tmpdir(), "gpuaas-report-"));
    const file = (name, text) => {
      writeFileSync(join(folder, name), text);
      return join(folder, name);
    };
    const report = {
      schema: 1,
      agent_version: "0.1.0",
      time: new Date().toISOString(),
      kind: "lab host",
      host: { hostname: "lab" },
      checks: [
        { check: "iommu", status: "PASS", severity: "hard", detail: "on" },
        { check: "hugepages", status: "WARN", severity: "warn", detail: "none reserved", remediation: "Reserve them at boot." },
      ],
      by_hand: [
        { id: "power_cycle", what: "Cut the power and wait.", why: "The host must come back alone.", good: "It is schedulable again.", result: "2026-11-30: back after 4 minutes" },
        { id: "cable_labels", what: "Read the labels.", why: "Repairs find the right host.", good: "They name the host." },
      ],
    };
    try {
      await go("Nodes");
      await page.getByRole("article").getByRole("link", { name: /lab-host/ }).click();
      await page.getByRole("tab", { name: /^Checks/ }).click();
      await page.getByRole("button", { name: "Attach a report" }).click();
      await dialog.getByLabel("Report").setInputFiles(file("a.json", "no report"));
      await dialog.getByText("The file is not JSON.").waitFor();
      await dialog.getByLabel("Report").setInputFiles(file("b.json", JSON.stringify({ ...report, kind: "toaster" })));
      await dialog.getByRole("button", { name: "Attach" }).click();
      await dialog.getByRole("alert").getByText(/lab host/).first().waitFor();
      await shot("report-refused");
      await dialog.getByLabel("Report").setInputFiles(file("c.json", JSON.stringify(report)));
      await dialog.getByText("1 passed, 1 warning, 1 of 2 done by hand").waitFor();
      await look("the form of a host's report");
      await answer("Attach");
      await page.reload();
      await page.getByText("All results").click();
      await table("Checks of the report").getByText("Reserve them at boot.").waitFor();
      await look("the report of a host");
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
}

export async function rollouts() {
  await test("a rollout of the agent is started, paused and aborted", async () => {
    await go("Agent rollouts");
    await look("the agent rollouts");
    await page.getByRole("button", { name: "Start a rollout" }).click();
    await dialog.getByLabel("Version").fill(`0.0.0-${run}`);
    await dialog.getByLabel("Digest of the package").fill("sha256:abc");
    await dialog.getByText("sha256: and 64 lowercase hex digits.").waitFor();
    await dialog.getByLabel("Digest of the package").fill(`sha256:${"ab".repeat(32)}`);
    await dialog.getByLabel("Size of the package in bytes").fill("1000");
    await dialog.getByLabel("Reason").fill("the tour");
    await look("the form of a rollout");
    await answer("Start");
    await heading(new RegExp(`0.0.0-${run}`)).waitFor();
    await look("a rollout");
    await page.getByRole("button", { name: "Abort" }).click();
    await answer("Abort");
    await page.reload();
    await page.getByText("Aborted").first().waitFor();
    await go("Agent rollouts");
    await page.getByRole("searchbox").fill(run);
    await row("Agent rollouts", run).getByText("Aborted").waitFor();
    await look("the agent rollouts after one");
    await page.getByLabel("State", { exact: true }).selectOption("running");
    await page.getByText("No rollout matches").waitFor();
  });
}
