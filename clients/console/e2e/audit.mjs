// Who did what: the audit trail of the platform, verified and exported, and the activity of a project.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { PEOPLE, run } from "./people.mjs";
import { as, dialog, go, heading, look, page, table, test, tokenOf, BASE } from "./world.mjs";

const PROGRAM = `${process.env.GPUAAS_PROGRAMS ?? "target/debug"}/gpuaas`;
const records = table("Audit records");

const filter = async (label, text) => {
  await page.getByLabel(label, { exact: true }).fill(text);
  await page.getByLabel(label, { exact: true }).press("Enter");
};

export async function audit() {
  await test("the audit trail says who did what, from where, and what was denied", async () => {
    await as("user:admin");
    await go("Audit");
    await records.getByRole("row").nth(1).waitFor();
    await look("the audit trail");
    await filter("Who", "user:admin");
    await page.waitForURL(/who=user/);
    await filter("Action", "principal.create");
    await page.waitForURL(/action=principal/);
    await page.reload();
    await records.getByRole("row").nth(1).waitFor();
    for (const row of (await records.getByRole("row").all()).slice(1)) assert.match(await row.innerText(), /user:admin[^]*principal\.create/);
    const refused = await page.request.post(`${BASE}/api/v1/admin/organisations`, { headers: { Authorization: `Bearer ${tokenOf("user")}`, "X-Idempotency-Key": `tour-${run}` }, data: { slug: `mine-${run}` } });
    assert.equal(refused.status(), 403);
    await page.goto(`${BASE}/admin/audit?outcome=denied`);
    await records.getByText("Denied").first().waitFor();
    assert.equal(await records.getByText("Allowed").count(), 0);
    await page.goto(`${BASE}/admin/audit`);
    await records.getByText("Show").first().click();
    await look("a record of the audit trail");
    await filter("Who", "user:nobody");
    await page.getByText("No record matches").waitFor();
    await look("the audit trail without a match");
    await page.getByRole("button", { name: "Clear the filters" }).click();
    await records.getByRole("row").nth(1).waitFor();
  });

  await test("the trail is verified in the browser, with the heads that were noted, and its export by the command line", async () => {
    const verify = async (noted) => {
      await page.getByRole("button", { name: "Verify" }).click();
      await dialog.getByLabel("Checkpoints of an earlier run (optional)").fill(noted);
      await dialog.getByRole("button", { name: "Verify" }).click();
      await dialog.waitFor({ state: "detached" });
      await page.getByText("No record was changed, removed or moved.").waitFor({ timeout: 60_000 });
    };
    await verify("");
    await page.getByRole("button", { name: "Copy checkpoints" }).click();
    const heads = await page.evaluate(() => navigator.clipboard.readText());
    assert.match(heads, /^edge:\d+:[0-9a-f]{64}$/m);
    await look("the trail that was verified");
    await verify(heads);
    await page.evaluate(() => {
      window.showSaveFilePicker = undefined;
    });
    await page.getByRole("button", { name: "Export" }).click();
    await look("the form of an export");
    const [saved] = await Promise.all([page.waitForEvent("download"), dialog.getByRole("button", { name: "Export" }).click()]);
    const path = await saved.path();
    await page.getByText(/^Exported \d+ records\.$/).waitFor();
    assert.ok(PEOPLE.every((name) => readFileSync(path, "utf8").includes(name)), "what this run did is on record");
    const checked = spawnSync(PROGRAM, ["admin", "audit", "verify", path], { encoding: "utf8" });
    assert.equal(checked.status, 0, checked.stderr);
  });
}

export async function activity() {
  await test("a project's members see who did what in it", async () => {
    await as("user:demo");
    await go("Activity");
    const list = table("Activity");
    await list.getByRole("row").nth(1).waitFor();
    await look("the activity of a project");
    await page.getByLabel("Kind").selectOption("allocation");
    await page.waitForURL(/kind=allocation/);
    await page.reload();
    await list.getByRole("row").filter({ hasText: "user:demo" }).first().waitFor();
    await filter("Who", "user:nobody");
    await page.getByText("No activity matches").waitFor();
    await look("the activity without a match");
    await page.getByRole("button", { name: "Clear the filters" }).click();
    await list.getByRole("row").nth(1).waitFor();
    await heading("Activity").waitFor();
  });
}
