// What programs come in by and are told by: SSH keys, service accounts with their keys, webhooks, an identity provider by SCIM.
import assert from "node:assert/strict";
import { ORGANISATION, PROJECT } from "./tenancy.mjs";
import { OWNER, VIEWER } from "./people.mjs";
import { BASE, answer, as, dialog, go, heading, look, newPublicKey, page, shot, table, test } from "./world.mjs";

/** Shown once; read, and put away. */
async function secret(title, label, seen) {
  const shown = page.getByRole("dialog");
  await shown.getByText(title).waitFor();
  if (seen) await look(seen);
  const text = await shown.getByRole("group", { name: label }).innerText();
  await shown.getByRole("button", { name: "I have saved it" }).click();
  return text.trim();
}

const call = (key, path = "/api/v1/whoami") => page.request.get(`${BASE}${path}`, { headers: { Authorization: `Bearer ${key}` } });

/** Until a call with the key is answered so. */
async function answers(key, status) {
  const end = Date.now() + 10_000;
  let last = 0;
  while (Date.now() < end && last !== status) last = (await call(key)).status();
  assert.equal(last, status);
}

export async function sshKeys() {
  await test("keys of one's own and of the project are kept by name, picked at launch, and deleted", async () => {
    await as(OWNER);
    await go("SSH keys");
    const add = async (card, key) => {
      await card.getByRole("button", { name: "Add a key" }).click();
      await dialog.getByLabel("Public key").fill(key);
    };
    const [own, shared] = ["Your keys", "Keys of the project"].map((title) => page.locator("section.card").filter({ has: page.getByRole("heading", { name: title, exact: true }) }));
    await look("a project and somebody without keys");
    await add(own, "-----BEGIN OPENSSH PRIVATE KEY-----");
    await dialog.locator(".field-problem").first().waitFor();
    await shot("private-key");
    await dialog.getByLabel("Public key").fill(newPublicKey());
    await dialog.getByLabel("Name").fill("laptop");
    await answer("Add");
    const twice = newPublicKey();
    await add(own, twice);
    await dialog.getByLabel("Name").fill("laptop");
    await dialog.getByRole("button", { name: "Add", exact: true }).click();
    await dialog.getByRole("alert").waitFor();
    await shot("key-name-twice");
    await dialog.getByLabel("Name").fill("desk top");
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await add(shared, newPublicKey());
    await look("the form of an SSH key");
    await dialog.getByLabel("Name").fill("deploy");
    await answer("Add");
    await page.reload();
    await table("Your keys").getByText("laptop").waitFor();
    await table("Keys of the project").getByText("deploy").waitFor();
    await look("the SSH keys");
    await go("Launch", /Launch/);
    for (const name of ["laptop", "deploy"]) await page.getByRole("checkbox", { name: new RegExp(name) }).waitFor();
    await look("the launch form with stored keys");
    await go("SSH keys");
    for (const name of ["laptop", "deploy"]) {
      await page.getByRole("button", { name: `Delete ${name}` }).click();
      await answer("Delete");
    }
    await page.reload();
    await page.getByText("No key yet").first().waitFor();
    assert.equal(await page.getByText("No key yet").count(), 2);
  });
}

export async function accounts() {
  let key = "";
  const keys = table("API keys of pipeline");
  await test("a service account gets a key that works, and is rotated and disabled within seconds", async () => {
    await go("Service accounts");
    await page.getByText("No service accounts").waitFor();
    await look("a project without service accounts");
    await page.getByRole("button", { name: "Add a service account" }).click();
    await dialog.getByLabel("Slug").fill("Pipe Line");
    await dialog.getByText("Lowercase letters, digits, dots and hyphens.").waitFor();
    await dialog.getByLabel("Slug").fill("pipeline");
    await dialog.getByLabel("Description").fill("Nightly training");
    await look("the form of a service account");
    await answer("Add");
    await page.getByRole("button", { name: "Add a key to pipeline" }).click();
    await dialog.getByLabel("Name").fill("nightly");
    await look("the form of an API key");
    await dialog.getByRole("button", { name: "Add", exact: true }).click();
    key = await secret("Your new API key", "API key", "an API key that is shown once");
    await answers(key, 200);
    await page.reload();
    await keys.getByRole("row", { name: /nightly.*Active.*read/ }).waitFor();
    assert.ok(!(await page.locator("main").innerText()).includes(key), "it is shown once");
    await look("a service account with a key");
    await page.getByRole("button", { name: "Rotate nightly" }).click();
    await dialog.getByRole("button", { name: "Rotate" }).click();
    const next = await secret("Your new API key", "API key");
    await answers(next, 200);
    await answers(key, 200);
    await page.reload();
    await keys.getByRole("checkbox").first().waitFor();
    assert.equal(await keys.getByRole("checkbox").count(), 2);
    for (const box of await keys.getByRole("checkbox").all()) await box.check();
    await page.getByRole("group", { name: "Selected keys of pipeline" }).getByRole("button", { name: "Disable 2" }).click();
    await look("the question before keys are disabled");
    await answer("Disable");
    await answers(next, 401);
    await page.reload();
    await keys.getByText("Disabled").first().waitFor();
    assert.equal(await keys.getByText("Disabled").count(), 2);
  });

  await test("a service account is disabled, enabled and deleted, and a viewer changes none", async () => {
    await page.getByRole("button", { name: "Add a key to pipeline" }).click();
    await dialog.getByLabel("Name").fill("second");
    await dialog.getByRole("button", { name: "Add", exact: true }).click();
    key = await secret("Your new API key", "API key");
    await answers(key, 200);
    await page.getByRole("button", { name: "Disable pipeline" }).click();
    await answer("Disable");
    await answers(key, 401);
    await page.reload();
    await page.getByRole("button", { name: "Enable pipeline" }).click();
    await answer("Enable");
    await answers(key, 200);
    await as(VIEWER);
    await go("Service accounts");
    await keys.waitFor();
    assert.equal(await page.locator("main").getByRole("button").count(), 0);
    await look("service accounts as a viewer sees them");
    await as(OWNER);
    await go("Service accounts");
    await page.getByRole("searchbox").fill("nothing like it");
    await page.getByText("No service account matches").waitFor();
    await page.getByRole("button", { name: "Clear the search" }).click();
    await page.getByRole("button", { name: "Delete pipeline" }).click();
    await answer("Delete");
    await answers(key, 401);
    await page.reload();
    await page.getByText("No service accounts").waitFor();
  });
}

export async function webhooks() {
  await test("a webhook is added, tested, rotated, disabled and deleted; one towards a private address is refused", async () => {
    await page.goto(`${BASE}/project?tab=webhooks`);
    await page.getByText("No webhooks").waitFor();
    await look("a project without webhooks");
    await page.getByRole("button", { name: "Add a webhook" }).click();
    await dialog.getByLabel("Address").fill("http://hooks.example.com");
    await dialog.getByText("The URL must begin with https://.").waitFor();
    await dialog.getByLabel("Address").fill("https://169.254.169.254/latest");
    await dialog.getByRole("button", { name: "Add", exact: true }).click();
    await dialog.getByRole("alert").getByText(/public address/).first().waitFor();
    await look("a webhook that is refused");
    const url = "https://hooks.gpuaas.invalid/events";
    await dialog.getByLabel("Address").fill(url);
    await dialog.getByLabel("Description").fill("Chat of the team");
    await dialog.getByText("All events").click();
    await dialog.getByRole("checkbox").first().check();
    await look("the form of a webhook");
    await dialog.getByRole("button", { name: "Add", exact: true }).click();
    await secret("The secret of the webhook", "secret", "the secret of a webhook");
    await page.getByRole("button", { name: `Ping ${url}` }).click();
    await answer("Send");
    const deliveries = table(`Deliveries to ${url}`);
    await deliveries.getByText("webhook.ping").waitFor();
    await page.reload();
    await deliveries.getByText("webhook.ping").waitFor();
    await look("a webhook with a delivery");
    await page.getByRole("button", { name: `Rotate secret of ${url}` }).click();
    await dialog.getByRole("button", { name: "Rotate" }).click();
    await secret("The secret of the webhook", "secret");
    await page.getByRole("button", { name: `Disable ${url}` }).click();
    await answer("Disable");
    await page.reload();
    await page.getByText("Disabled").first().waitFor();
    await deliveries.getByText("Failed").waitFor();
    await look("a webhook that is disabled");
    await page.getByLabel("Deliveries", { exact: true }).selectOption("delivered");
    await page.getByText("No delivery matches.").waitFor();
    await page.getByRole("button", { name: `Enable ${url}` }).click();
    await answer("Enable");
    await page.getByRole("button", { name: `Delete ${url}` }).click();
    await answer("Delete");
    await page.reload();
    await page.getByText("No webhooks").waitFor();
  });
}

const USER = { schemas: ["urn:ietf:params:scim:schemas:core:2.0:User"] };
const GROUP = { schemas: ["urn:ietf:params:scim:schemas:core:2.0:Group"] };

export async function scim() {
  let key = "";
  const scimCall = (method, path, data) => page.request.fetch(`${BASE}/scim/v2/${path}`, { method, data, headers: { Authorization: `Bearer ${key}`, "Content-Type": "application/scim+json" } });
  await test("an administrator names the issuer of an organisation's people, and its owner makes the key of the identity provider", async () => {
    await page.goto(`${BASE}/organisation?tab=scim`);
    await page.getByText("SCIM is not set up.").waitFor();
    await look("an organisation without SCIM");
    await as("user:admin");
    await go("Organisations");
    await page.getByRole("button", { name: `Set up SCIM of ${ORGANISATION}` }).click();
    await dialog.getByLabel("Issuer").fill("acme");
    await dialog.getByText("The issuer is a URL, exactly as in its tokens.").waitFor();
    await dialog.getByLabel("Issuer").fill("https://dev.gpuaas.localhost");
    await look("the form of SCIM");
    await answer("Save");
    await as(OWNER);
    await page.goto(`${BASE}/organisation?tab=scim`);
    await page.getByText("https://dev.gpuaas.localhost").waitFor();
    await page.getByRole("button", { name: "Make a key" }).click();
    await look("the form of a key for SCIM");
    await dialog.getByRole("button", { name: "Make" }).click();
    key = await secret("The key for SCIM", "API key");
    await page.getByText("The identity provider has not called yet.").waitFor();
  });

  await test("groups that the identity provider sends get roles in projects", async () => {
    await page.getByRole("tab", { name: "Groups" }).click();
    await page.getByRole("heading", { name: "No groups" }).waitFor();
    await look("an organisation without groups");
    const made = await scimCall("POST", "Users", { ...USER, userName: `zoe-${ORGANISATION}`, displayName: "Zoé", active: true });
    assert.equal(made.status(), 201, await made.text());
    const { id } = await made.json();
    const group = await scimCall("POST", "Groups", { ...GROUP, displayName: "Research", members: [{ value: id }] });
    assert.equal(group.status(), 201, await group.text());
    await page.reload();
    await table("Groups").getByRole("row", { name: /Research 1 No role/ }).waitFor();
    await page.getByRole("button", { name: "Map Research" }).click();
    await look("the form of a group's role");
    await answer("Map");
    await page.reload();
    await table("Groups").getByText(`Member of ${PROJECT}`).waitFor();
    await look("the groups of an organisation");
    await go("Project", /^Project/);
    await table("Members").getByRole("row", { name: /Zoé/ }).waitFor();
    assert.ok(await page.getByRole("combobox", { name: "Role of Zoé" }).isDisabled(), "a group gives this role");
    await look("members whom a group gives their role");
    await page.goto(`${BASE}/organisation?tab=scim`);
    await page.getByText(/The identity provider called last/).waitFor();
    await look("SCIM of an organisation");
    await page.getByRole("tab", { name: "Groups" }).click();
    await page.getByRole("button", { name: `Remove Research from ${PROJECT}` }).click();
    await answer("Remove");
    await page.reload();
    await table("Groups").getByText("No role").waitFor();
    assert.equal((await scimCall("DELETE", `Groups/${(await group.json()).id}`)).status(), 204);
    assert.equal((await scimCall("DELETE", `Users/${id}`)).status(), 204);
    await page.goto(`${BASE}/organisation?tab=scim`);
    await page.getByRole("button", { name: "Disable SCIM" }).click();
    await answer("Disable");
    await answers(key, 401);
    await heading("Organisation").waitFor();
  });
}
