// Who is registered: an administrator registers people, gives them roles on the platform, and keeps them out.
import assert from "node:assert/strict";
import { BASE, answer, as, dialog, go, heading, look, page, shot, table, test } from "./world.mjs";

/** Of this run: nobody is ever deleted. */
export const run = Date.now().toString(36);
/** Owns the organisation of the tour. */
export const OWNER = `user:nina-${run}`;
/** Only looks. */
export const VIEWER = `user:vera-${run}`;
/** Only pays. */
export const PAYER = `user:bill-${run}`;
export const PEOPLE = [OWNER, VIEWER, PAYER];

const principals = table("Principals");
const row = (name) => principals.getByRole("row").filter({ hasText: name });

async function register(name, issuer) {
  await page.getByRole("button", { name: "Register a principal" }).click();
  await dialog.getByLabel("Name", { exact: true }).fill(name);
  await dialog.getByLabel("Issuer").fill(issuer);
  await dialog.getByLabel("Subject").fill(name.replace("user:", ""));
}

export async function people() {
  await test("an administrator registers people, and what is wrong is said at its field", async () => {
    await as("user:admin");
    await go("Principals");
    await row("user:demo").waitFor();
    const issuer = await row("user:demo").locator("code").first().innerText();
    await register("vera", issuer);
    await dialog.getByText("Begins with user:").waitFor();
    assert.ok(await dialog.getByRole("button", { name: "Register" }).isDisabled());
    await shot("principal-invalid");
    await dialog.getByRole("button", { name: "Cancel" }).click();
    for (const name of PEOPLE) {
      await register(name, issuer);
      if (name === OWNER) await look("the form of a principal");
      await answer("Register");
      await row(name).waitFor();
    }
    await page.reload();
    for (const name of PEOPLE) await row(name).waitFor();
    await register(OWNER, issuer);
    await dialog.getByRole("button", { name: "Register" }).click();
    await dialog.getByRole("alert").waitFor();
    await shot("principal-twice");
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await look("the principals");
  });

  await test("a role on the platform is given and taken, and an auditor reads the platform and changes nothing", async () => {
    const give = async (role) => {
      await page.getByRole("button", { name: `Role of ${VIEWER}` }).click();
      await dialog.getByLabel("Role").selectOption({ label: role });
      await answer("Save");
    };
    await give("Auditor");
    await page.reload();
    await row(VIEWER).getByRole("cell", { name: "Auditor" }).waitFor();
    await as(VIEWER);
    await heading("Platform overview").waitFor();
    await look("the platform of an auditor");
    await go("Principals");
    await row(OWNER).waitFor();
    assert.equal(await page.getByRole("button", { name: "Register a principal" }).count(), 0);
    assert.equal(await principals.getByRole("button").count(), 0, "an auditor changes nobody");
    await go("Nodes");
    assert.equal(await page.getByRole("button", { name: "Register a node" }).count(), 0);
    await as("user:admin");
    await go("Principals");
    await give("None");
    await page.reload();
    await row(VIEWER).getByRole("cell", { name: "None" }).waitFor();
  });

  await test("who is disabled is out, and comes in again", async () => {
    await page.getByRole("button", { name: `Disable ${PAYER}` }).click();
    await dialog.getByLabel("Reason").fill("left the company");
    await look("the question before a principal is disabled");
    await answer("Disable");
    await page.reload();
    await page.getByLabel("State", { exact: true }).selectOption("disabled");
    await row(PAYER).getByText("Disabled").waitFor();
    assert.equal(await row(OWNER).count(), 0);
    await page.getByRole("button", { name: `Enable ${PAYER}` }).click();
    await answer("Enable");
    await page.getByLabel("State", { exact: true }).selectOption("enabled");
    await page.getByRole("searchbox").fill(`bill-${run}`);
    await row(PAYER).waitFor();
    await page.waitForURL(/search=bill/);
    await page.reload();
    await row(PAYER).waitFor();
    await page.getByRole("searchbox").fill("nobody at all");
    await page.getByText("No principal matches").waitFor();
    await look("the principals without a match");
    await page.getByRole("button", { name: "Clear the filters" }).click();
    await row(OWNER).waitFor();
  });

  await test("who belongs nowhere is told what to do", async () => {
    await as(OWNER);
    await heading("Overview").waitFor();
    await look("the overview of who belongs nowhere");
    for (const path of ["project", "organisation", "api-keys", "usage", "keys"]) {
      await page.goto(`${BASE}/${path}`);
      await page.getByRole("heading", { level: 1 }).waitFor();
      await look(`${path} of who belongs nowhere`);
    }
  });
}

/** Out of the way of the next run: who is disabled cannot be chosen at the development sign-in. */
export async function leave() {
  await test("the people of the tour are kept out", async () => {
    await as("user:admin");
    await go("Principals");
    for (const name of PEOPLE) {
      await page.getByRole("searchbox").fill(name);
      await page.getByRole("button", { name: `Disable ${name}` }).click();
      await answer("Disable");
      await row(name).getByText("Disabled").waitFor();
    }
  });
}
