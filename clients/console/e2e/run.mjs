// The console against a running stack: node e2e/run.mjs [base] [folder for screenshots] [name of the allocation] [parts, with commas
// between them]. Parts of the middle alone need the allocation of that name to run.
import assert from "node:assert/strict";
import { accessible, findings } from "./accessible.mjs";
import { byKeyboard, darkAndNarrow, launch, power, release } from "./allocation.mjs";
import { activity, audit } from "./audit.mjs";
import { ends, leftOut, limits, reports, reservations, several } from "./capacity.mjs";
import { catalog, enrolment, rollouts } from "./catalog.mjs";
import { breakFix, details, grants } from "./details.mjs";
import { accounts, scim, sshKeys, webhooks } from "./integrations.mjs";
import { approve, drain, hosts } from "./operator.mjs";
import { leave, people } from "./people.mjs";
import { sharedBrowser, tokens } from "./session.mjs";
import { signIns } from "./sign-in.mjs";
import { sizes } from "./sizes.mjs";
import { closing, invitations, organisations, owners } from "./tenancy.mjs";
import { terminal } from "./terminal.mjs";
import { palette, usage } from "./usage.mjs";
import { BASE, as, browser, name, onPhone, page, shot, test } from "./world.mjs";

const only = (process.argv[5] ?? "").split(",").filter(Boolean);

async function firstLoad() {
  await test("the first load is small and the page obeys its policy", async () => {
    const response = await page.goto(BASE);
    assert.match(response.headers()["content-security-policy"], /script-src 'self';/);
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
    await shot("sign-in");
    const loaded = await page.evaluate(() => {
      const entries = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
      const paint = performance.getEntriesByName("first-contentful-paint")[0];
      return { bytes: entries.reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0), files: entries.length, paint: paint?.startTime };
    });
    console.log(`      ${loaded.files} files, ${loaded.bytes} bytes, first contentful paint after ${loaded.paint?.toFixed(0)} ms`);
    assert.ok(loaded.bytes < 300_000, `${loaded.bytes} bytes`);
    await accessible(page, "the sign-in");
    await onPhone("the sign-in");
  });

  await test("without the stack's code nobody signs in", async () => {
    await page.getByRole("button", { name: "Development sign-in" }).click();
    await page.getByLabel("Code of this development stack").fill("wrong");
    await accessible(page, "the issuer's page");
    await onPhone("the issuer's page");
    await page.getByRole("button", { name: "user:admin" }).click();
    await page.getByText("is not that of this stack").waitFor();
    await page.getByLabel("Code of this development stack").waitFor();
  });

  await test("a bad token is refused with a reason", async () => {
    await page.goto(BASE);
    await page.getByText("Use a token").click();
    await page.getByLabel("Token", { exact: true }).fill("nonsense");
    await page.getByRole("button", { name: "Sign in with a token" }).click();
    await page.getByText("This is not a valid token").waitFor();
  });
}

/** From a released allocation on. */
const openAllocation = () => page.getByRole("link", { name }).click();
const member = () => as("user:demo");

const PARTS = { firstLoad, tokens, signIns, approve, people, member, launch, terminal, power, details, grants, breakFix, memberAgain: member, limits, reservations, several, reports, ends, drain, openAllocation, release, leftOut, sharedBrowser, hosts, byKeyboard, darkAndNarrow, usage, organisations, owners, invitations, sshKeys, accounts, webhooks, scim, closing, catalog, enrolment, rollouts, palette, audit, activity, leave, sizes };

try {
  for (const [part, run] of Object.entries(PARTS)) if (only.length === 0 || only.includes(part)) await run();
  await test("no page had a violation of the accessibility rules", () => assert.deepEqual(findings, []));
  await test("no script failed and the content policy held", () => assert.deepEqual(page.faults, []));
} finally {
  await browser.close();
}
