// Organisations and projects: made by an administrator and by owners, changed, suspended, closed; and who is let in.
import assert from "node:assert/strict";
import { OWNER, PAYER, VIEWER, run } from "./people.mjs";
import { BASE, answer, as, dialog, go, heading, look, page, shot, table, test } from "./world.mjs";

export const ORGANISATION = `acme-${run}`;
/** Made by the administrator. */
export const PROJECT = `vision-${run}`;
/** Made by the owner of the organisation. */
const SECOND = `speech-${run}`;

const members = table("Members");
const role = (name) => page.getByRole("combobox", { name: `Role of ${name}` });

async function add(principal, as) {
  await page.getByRole("button", { name: "Add a member" }).click();
  await dialog.getByLabel("Principal").fill(principal);
  await dialog.getByLabel("Role").selectOption(as);
  await answer("Add");
  await members.getByText(principal).first().waitFor();
}

async function tab(title) {
  await page.getByRole("tab", { name: title, exact: true }).click();
}

export async function organisations() {
  await test("an administrator adds an organisation with its owner, and a project to it", async () => {
    await as("user:admin");
    await go("Organisations");
    await page.getByRole("button", { name: "Add an organisation" }).click();
    await dialog.getByLabel("Slug").fill("Acme!");
    await dialog.getByText("Lowercase letters, digits, dots and hyphens.").waitFor();
    await dialog.getByLabel("Slug").fill(ORGANISATION);
    await dialog.getByLabel("Display name").fill("Acme Research");
    await dialog.getByLabel("Owner (optional)").fill("user:nobody-here");
    await dialog.getByRole("button", { name: "Add", exact: true }).click();
    await dialog.getByRole("alert").getByText(/owner/i).first().waitFor();
    await shot("organisation-without-owner");
    await dialog.getByLabel("Owner (optional)").fill(OWNER);
    await look("the form of an organisation");
    await answer("Add");
    await page.getByRole("searchbox").fill(ORGANISATION);
    await page.getByRole("button", { name: `Add a project to ${ORGANISATION}` }).click();
    await dialog.getByLabel("Slug").fill(PROJECT);
    await answer("Add");
    await page.reload();
    await table(`Projects of ${ORGANISATION}`).getByRole("link", { name: PROJECT }).waitFor();
    await look("the organisations");
    await page.getByRole("link", { name: "Acme Research" }).click();
    await heading("Acme Research").waitFor();
    await role(OWNER).waitFor();
    for (const [principal, word] of [[VIEWER, "viewer"], [PAYER, "billing"], ["user:demo", "member"]]) await add(principal, word);
    await look("an organisation as an administrator sees it");
  });

  await test("an administrator suspends and resumes an organisation, and sets a quota of its project", async () => {
    await page.getByRole("button", { name: `Suspend ${ORGANISATION}` }).click();
    assert.ok(await dialog.getByRole("button", { name: "Suspend" }).isDisabled(), "a reason is needed");
    await dialog.getByLabel("Reason").fill("the invoice is open");
    await answer("Suspend");
    await page.reload();
    await heading(/Acme Research.*Suspended/).waitFor();
    await page.getByText("the invoice is open").waitFor();
    await as(OWNER);
    await page.getByText("the invoice is open").waitFor();
    await look("the overview of a suspended organisation");
    await as("user:admin");
    await go("Organisations");
    await page.getByRole("button", { name: `Resume ${ORGANISATION}` }).click();
    await answer("Resume");
    await page.getByRole("link", { name: PROJECT }).click();
    await heading(new RegExp(PROJECT)).waitFor();
    await page.getByText("Nothing runs in the project").waitFor();
    await look("a project as an administrator sees it");
    await page.getByRole("link", { name: "Quotas" }).last().click();
    await heading("Quotas").waitFor();
    const quotas = table("Quotas of projects");
    await quotas.getByRole("button", { name: /^Set quota of/ }).first().click();
    await dialog.getByLabel("Limit").fill("-1");
    await dialog.getByText("Enter a whole number, 0 or more.").waitFor();
    await dialog.getByLabel("Limit").fill("7");
    await look("the form of a quota");
    await answer("Set quota");
    await page.reload();
    await quotas.getByRole("row", { name: /Allocations 0 7/ }).waitFor();
    await look("the quotas of a project");
  });
}

export async function owners() {
  await test("an owner names the organisation, and changes and removes its members, but not the last owner", async () => {
    await as(OWNER);
    await go("Organisation");
    await page.getByRole("button", { name: "Add a member" }).click();
    await dialog.getByLabel("Principal").fill("user:admin");
    await dialog.getByRole("button", { name: "Add", exact: true }).click();
    await dialog.getByRole("alert").waitFor();
    await look("a member whom an owner may only invite");
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await role(VIEWER).waitFor();
    assert.equal(await role(VIEWER).inputValue(), "viewer");
    await look("the members of an organisation");
    await tab("Settings");
    await page.getByRole("button", { name: "Rename" }).click();
    await dialog.getByLabel("Display name").fill("Acme, 研究");
    await answer("Rename");
    await page.reload();
    await page.getByRole("heading", { name: "Acme, 研究" }).waitFor();
    await tab("Members");
    await Promise.all([page.waitForResponse((answered) => answered.request().method() === "PATCH" && answered.ok()), role("user:demo").selectOption("owner")]);
    await page.reload();
    await role("user:demo").waitFor();
    assert.equal(await role("user:demo").inputValue(), "owner");
    await page.getByRole("button", { name: "Remove user:demo" }).click();
    await look("the question before a member is removed");
    await answer("Remove");
    await page.reload();
    await role(VIEWER).waitFor();
    assert.equal(await role("user:demo").count(), 0);
    await page.getByRole("button", { name: `Leave ${OWNER}` }).click();
    await dialog.getByRole("button", { name: "Leave" }).click();
    await dialog.getByRole("alert").waitFor();
    await shot("last-owner-leaves");
    await dialog.getByRole("button", { name: "Cancel" }).click();
  });

  await test("an owner adds a project, and chooses between both", async () => {
    await tab("Projects");
    await page.getByRole("button", { name: "Add a project" }).click();
    await dialog.getByLabel("Slug").fill(SECOND);
    await dialog.getByLabel("Display name").fill("Speech");
    await answer("Add");
    await page.reload();
    await table("Projects").getByText(SECOND).waitFor();
    await look("the projects of an organisation");
    const choice = page.locator(".project-choice").getByRole("combobox");
    await choice.selectOption({ label: PROJECT });
    await table("Projects").getByRole("link", { name: "Speech" }).click();
    await heading(`Project ${SECOND}`).waitFor();
    assert.equal(await choice.locator("option:checked").innerText(), SECOND);
    await tab("Settings");
    await page.getByRole("button", { name: "Rename" }).click();
    await dialog.getByLabel("Display name").fill("Speech models");
    await answer("Rename");
    await page.reload();
    await page.getByRole("heading", { name: "Speech models" }).waitFor();
    await look("the settings of a project");
    await page.getByRole("button", { name: "Suspend" }).click();
    await dialog.getByLabel("Reason (optional)").fill("holidays");
    await answer("Suspend");
    await page.reload();
    await page.getByText("holidays").waitFor();
    await look("the settings of a suspended project");
    await page.getByRole("button", { name: "Resume" }).click();
    await answer("Resume");
    await page.getByRole("button", { name: "Close" }).click();
    await answer("Close");
    await page.getByText("Closed").first().waitFor();
    await look("the settings of a closed project");
    await page.reload();
    await heading(`Project ${PROJECT}`).waitFor();
    assert.equal(await page.locator(".project-choice").count(), 0, "a closed project is not chosen any more");
  });

  await test("guardrails forbid at once what owners may do otherwise, and are taken back", async () => {
    await go("Organisation");
    await tab("Settings");
    await page.getByRole("button", { name: "Change" }).click();
    await dialog.getByLabel("API keys expire after days").fill("soon");
    await dialog.getByText("A whole number up to 3650.").waitFor();
    await dialog.getByLabel("API keys expire after days").fill("30");
    await dialog.getByRole("checkbox", { name: /^No webhooks/ }).check();
    await dialog.getByLabel("Allowed SKUs").fill("no-such-sku");
    await dialog.getByText("no-such-sku is not offered now.").waitFor();
    await dialog.getByRole("button", { name: "Change", exact: true }).click();
    const refused = dialog.getByRole("alert");
    await refused.or(page.getByText("no-such-sku")).first().waitFor();
    await shot("guardrails-unknown-sku");
    if (await refused.isVisible()) {
      await dialog.getByLabel("Allowed SKUs").fill("");
      await answer("Change");
    }
    await page.reload();
    await page.getByText("30 days").waitFor();
    await look("the settings and guardrails of an organisation");
    await tab("Webhooks");
    await page.getByText(/does not allow webhooks/).waitFor();
    assert.equal(await page.getByRole("button", { name: "Add a webhook" }).count(), 0);
    await look("webhooks that are forbidden");
    await tab("Settings");
    await page.getByRole("button", { name: "Change" }).click();
    await dialog.getByLabel("API keys expire after days").fill("");
    await dialog.getByRole("checkbox", { name: /^No webhooks/ }).uncheck();
    await dialog.getByLabel("Allowed SKUs").fill("");
    await look("the form of guardrails");
    await answer("Change");
    await page.reload();
    await page.getByText("No limit").waitFor();
  });
}

export async function invitations() {
  const listed = table("Invitations");
  let link = "";
  await test("an invitation lets one person in, once, and a revoked one nobody", async () => {
    const invite = async (email) => {
      await page.getByRole("button", { name: "Invite", exact: true }).click();
      await dialog.getByLabel("Email").fill("vera@");
      await dialog.getByText("Enter an email address.").waitFor();
      await dialog.getByLabel("Email").fill(email);
      await dialog.getByRole("button", { name: "Invite" }).click();
      const secret = page.getByRole("dialog");
      await secret.getByText(`${email} is invited`).waitFor();
      if (email.startsWith("vera")) await look("the link of an invitation");
      const text = await secret.getByRole("group", { name: "invitation link" }).innerText();
      await secret.getByRole("button", { name: "I have saved it" }).click();
      return text;
    };
    await go("Project", /^Project/);
    await tab("Invitations");
    await page.getByText("No invitations").waitFor();
    await look("a project without invitations");
    link = await invite("vera@example.com");
    const revoked = await invite("mallory@example.com");
    await page.getByRole("button", { name: "Revoke the invitation of mallory@example.com" }).click();
    await answer("Revoke");
    await page.reload();
    await listed.getByRole("row", { name: /mallory.*Revoked/ }).waitFor();
    await listed.getByRole("row", { name: /vera.*Pending/ }).waitFor();
    await look("the invitations of a project");
    await as(VIEWER);
    await page.goto(revoked);
    await page.reload();
    await heading("Join").waitFor();
    await page.getByRole("button", { name: "Accept" }).click();
    await page.getByRole("alert").getByText("not valid").first().waitFor();
    await look("an invitation that is not valid");
    await page.goto(link);
    await page.reload();
    await page.getByText("You are invited").waitFor();
    await look("an invitation");
    await page.getByRole("button", { name: "Accept" }).click();
    await page.getByText(/^You are in/).waitFor();
    await look("an invitation that is accepted");
    await page.getByRole("link", { name: "Go to the overview" }).click();
    await heading("Overview").waitFor();
  });

  await test("a member of the project is shown to all of its members, and changed by owners alone", async () => {
    await go("Project", /^Project/);
    await role(VIEWER).waitFor();
    assert.ok(await role(VIEWER).isDisabled());
    assert.equal(await page.getByRole("button", { name: "Add a member" }).count(), 0);
    await as(PAYER);
    assert.deepEqual(await page.getByRole("navigation", { name: "Main" }).getByRole("link").allInnerTexts(), ["Overview", "Usage", "SSH keys", "Project", "Organisation"]);
    await look("the overview of who pays");
    await page.goto(`${BASE}/launch`);
    await page.getByText("Your role does not allow this").waitFor();
    await look("a page that a role may not open");
    await as(OWNER);
    await go("Project", /^Project/);
    await page.getByRole("checkbox", { name: `Select ${VIEWER}` }).check();
    await page.getByRole("group", { name: "Selected members" }).getByRole("button", { name: "Change role of 1" }).click();
    await dialog.getByLabel("Role").selectOption("viewer");
    await look("the role of several members");
    await answer("Change");
    await page.reload();
    await role(VIEWER).waitFor();
    assert.equal(await role(VIEWER).inputValue(), "viewer");
    await look("the members of a project");
  });
}

/** Nothing of the tour stays open. */
export async function closing() {
  await test("a project is closed by an administrator, and then its organisation", async () => {
    await as("user:admin");
    await go("Organisations");
    await page.getByRole("searchbox").fill(ORGANISATION);
    await page.getByRole("button", { name: `Close ${ORGANISATION}` }).click();
    await dialog.getByRole("button", { name: "Close" }).click();
    await dialog.getByRole("alert").waitFor();
    await shot("organisation-with-projects");
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("link", { name: PROJECT }).click();
    await page.getByRole("button", { name: "Close" }).click();
    await dialog.getByText("Nothing runs in it").waitFor();
    await dialog.getByLabel("Reason").fill("the tour is over");
    await answer("Close");
    await heading(/Closed/).waitFor();
    await look("a closed project as an administrator sees it");
    await go("Organisations");
    await page.getByRole("searchbox").fill(ORGANISATION);
    await page.getByRole("button", { name: `Close ${ORGANISATION}` }).click();
    await dialog.getByLabel("Reason (optional)").fill("the tour is over");
    await answer("Close");
    await page.reload();
    await page.getByRole("heading", { name: /Acme.*Closed/ }).waitFor();
    assert.equal(await page.getByRole("button", { name: `Close ${ORGANISATION}` }).count(), 0);
  });
}
