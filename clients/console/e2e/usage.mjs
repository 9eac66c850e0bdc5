// What it costs: by day, SKU and allocation, as a chart, a table and a file; and the way to everything, the command palette.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { accessible } from "./accessible.mjs";
import { as, go, heading, look, name, page, shot, table, test } from "./world.mjs";

async function saved(button) {
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: button }).click()]);
  return { name: file.suggestedFilename(), lines: readFileSync(await file.path(), "utf8").trim().split("\n") };
}

export async function usage() {
  await test("cost is shown over each range, in groups, and saved as files", async () => {
    await as("user:demo");
    await go("Usage");
    await page.locator(".chart canvas").waitFor();
    await look("the usage of a project");
    for (const range of ["24 hours", "30 days", "This month"]) {
      await page.getByRole("radio", { name: range }).check({ force: true });
      await page.locator(".chart canvas").waitFor();
      await page.reload();
      assert.ok(await page.getByRole("radio", { name: range }).isChecked(), "a reload keeps the range");
    }
    await page.getByText("Show as a table").click();
    await table("Cost by day in USD").getByRole("row").nth(1).waitFor();
    await page.getByRole("radio", { name: "Allocation", exact: true }).check({ force: true });
    await table("Cost in groups").getByText(name).first().waitFor();
    await look("the usage by allocation");
    const intervals = await saved("Export CSV");
    assert.match(intervals.name, /^usage-\d{4}-\d\d-\d\d-\d{4}-\d\d-\d\d\.csv$/);
    assert.ok(intervals.lines.length > 1 && intervals.lines.some((line) => line.includes(name)));
    const days = await saved("Export cost by day");
    assert.ok(days.lines.length > 1);
    await page.getByRole("radio", { name: "Dates" }).check({ force: true });
    await page.getByLabel("From", { exact: true }).fill("2026-01-01");
    await page.getByLabel("To", { exact: true }).fill("2026-01-02");
    await page.getByText("Nothing was billed in this period.").waitFor();
    assert.equal(await table("Billed intervals").count(), 0, "no table of nothing");
    await look("a time without cost");
    await page.getByLabel("From", { exact: true }).fill("2026-01-05");
    await page.getByText("Choose two dates").waitFor();
  });
}

export async function palette() {
  const box = page.getByRole("combobox", { name: "Go to a page, an allocation or a node" });
  await test("the command palette leads to pages, nodes and settings by a few letters", async () => {
    await as("user:admin");
    await page.keyboard.press("Control+k");
    await box.fill("lab-host");
    await page.getByRole("option", { name: /lab-host.*Node/ }).waitFor();
    await shot("palette");
    await accessible(page, "the command palette");
    await page.keyboard.press("Enter");
    await heading(/lab-host/).waitFor();
    await page.getByRole("button", { name: /^Go to/ }).click();
    await box.fill("audi");
    await page.keyboard.press("Enter");
    await heading("Audit").waitFor();
    await page.keyboard.press("Control+k");
    await box.fill("dark");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => getComputedStyle(document.documentElement).colorScheme.includes("dark"));
    await look("a page in the dark");
    await page.keyboard.press("Control+k");
    await box.fill("system th");
    await page.keyboard.press("Enter");
    await page.keyboard.press("Control+k");
    await box.fill("qqqq");
    await page.getByText("Nothing found. Try a part of a name.").waitFor();
    await look("the command palette without a match");
    await page.keyboard.press("Escape");
    await box.waitFor({ state: "detached" });
  });

  await test("an operator finds what runs on the platform and how it is", async () => {
    for (const title of ["Platform overview", "All allocations", "Capacity", "All reservations", "Quotas", "Terminals"]) {
      await go(title);
      await page.getByRole("status", { name: /^Loading/ }).waitFor({ state: "detached" }).catch(() => {});
      await look(`operators, ${title}`);
    }
    await go("All allocations");
    await page.getByRole("switch", { name: "Show ended" }).check();
    await table("All allocations").getByRole("link", { name, exact: true }).first().click();
    await heading(name).waitFor();
    await look("an allocation as an operator sees it");
  });
}
