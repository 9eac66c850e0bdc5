// Who is registered, what an organisation's owners make in it, and the end of a node.
import { ACME, nodeId } from "./world.mjs";

export async function tenants({ assert, page, server, test, look, go, signIn }) {
  const table = (name) => page.getByRole("table", { name });
  const dialog = page.getByRole("alertdialog");
  const last = () => server.changes.at(-1);
  const refused = (message) => ({ status: 409, json: { error: { code: 409, status: "ALREADY_EXISTS", message, details: [] } } });

  await test("administrators register principals, give roles on the platform, disable and enable", async () => {
    await signIn("admin");
    await go("/admin/principals", "Principals");
    await table("Principals").getByText("alice@example.com", { exact: false }).waitFor();
    await look("principals");
    await page.getByRole("button", { name: "Register a principal" }).click();
    await dialog.getByLabel("Name", { exact: true }).fill("alice");
    await dialog.getByText("Begins with user:").waitFor();
    assert.ok(await dialog.getByRole("button", { name: "Register" }).isDisabled());
    await dialog.getByLabel("Name", { exact: true }).fill("user:erin");
    await dialog.getByLabel("Issuer").fill("https://login.acme.example");
    await dialog.getByLabel("Subject").fill("u-9");
    await look("principal-register");
    await page.route("**/api/v1/admin/principals", (route) => route.fulfill(refused("There is a principal of this name.")));
    await dialog.getByRole("button", { name: "Register" }).click();
    await dialog.getByRole("alert").getByText("There is a principal of this name.").waitFor();
    await page.unroute("**/api/v1/admin/principals");
    await dialog.getByRole("button", { name: "Register" }).click();
    await dialog.waitFor({ state: "detached" });
    assert.deepEqual(last().body, { name: "user:erin", display_name: "", issuer: "https://login.acme.example", subject: "u-9", email: "" });
    await page.getByRole("button", { name: "Role of user:alice" }).click();
    await dialog.getByLabel("Role").selectOption("operator");
    await dialog.getByRole("button", { name: "Save" }).click();
    await dialog.waitFor({ state: "detached" });
    assert.deepEqual(last().body, { platform_role: "operator", etag: "p2" });
    await page.getByRole("button", { name: "Disable user:alice" }).click();
    await dialog.getByLabel("Reason").fill("left");
    await dialog.getByRole("button", { name: "Disable" }).click();
    await dialog.waitFor({ state: "detached" });
    assert.deepEqual(last().body, { etag: "p2", reason: "left" });
    await page.getByRole("button", { name: "Enable user:carol" }).click();
    await dialog.getByRole("button", { name: "Enable" }).click();
    await dialog.waitFor({ state: "detached" });
    await page.getByLabel("State", { exact: true }).selectOption("disabled");
    await table("Principals").getByText("Alice").waitFor({ state: "detached" });
    await page.getByRole("combobox", { name: "State" }).selectOption("");
    await page.getByRole("searchbox").fill("lic");
    await table("Principals").getByText("Alice", { exact: true }).waitFor();
    await table("Principals").getByText("Olga", { exact: true }).waitFor({ state: "detached" });
    await page.getByRole("searchbox").fill("nobody");
    await page.getByText("No principal matches").waitFor();
    await look("principals-none");
    await page.getByRole("button", { name: "Clear the filters" }).click();
    await table("Principals").getByText("Alice", { exact: true }).waitFor();
  });

  await test("operators and auditors read principals and change none", async () => {
    for (const role of ["auditor", "operator"]) {
      await signIn(role);
      await go("/admin/principals", "Principals");
      await table("Principals").getByText("Alice", { exact: true }).waitFor();
      assert.deepEqual(await page.locator("main").getByRole("button").allInnerTexts(), []);
    }
  });

  await test("an owner of an organisation adds a project to it, and its webhook gets the events of all", async () => {
    await signIn(undefined, "owner");
    await go("/organisation?tab=projects", "Organisation");
    await table("Projects").getByText("Vision", { exact: true }).waitFor();
    await page.getByRole("searchbox", { name: "Search by slug or name" }).fill("SPEE");
    await table("Projects").getByText("Vision", { exact: true }).waitFor({ state: "detached" });
    await table("Projects").getByText("Speech", { exact: true }).waitFor();
    await page.getByRole("searchbox").fill("nothing like it");
    await page.getByText("No project matches").waitFor();
    await page.getByRole("button", { name: "Clear the search" }).click();
    await table("Projects").getByText("Vision", { exact: true }).waitFor();
    await look("organisation-projects");
    await page.getByRole("button", { name: "Add a project" }).click();
    await dialog.getByLabel("Slug").fill("Audio");
    await dialog.getByText("Lowercase letters").waitFor();
    await dialog.getByLabel("Slug").fill("audio");
    await look("organisation-project-add");
    await dialog.getByRole("button", { name: "Add" }).click();
    await dialog.waitFor({ state: "detached" });
    assert.deepEqual([last().key, last().body.slug], ["POST /api/v1/projects", "audio"]);
    await page.getByRole("tab", { name: "Webhooks" }).click();
    await page.getByText("gets the events of all of its projects").waitFor();
    await page.getByText("https://hooks.example.com/gpuaas").first().waitFor();
    await look("organisation-webhooks");
    await page.getByRole("button", { name: "Add a webhook" }).click();
    await dialog.getByLabel("Address").fill("https://hooks.example.com/all");
    await dialog.getByRole("button", { name: "Add" }).click();
    await page.getByText("whsec_shown_once").waitFor();
    assert.match(last().key, /^POST \/api\/v1\/organisations\/[^/]+\/webhooks$/);
    await page.getByRole("button", { name: "I have saved it" }).click();
    await page.route("**/organisations/*/webhooks?*", (route) => route.fulfill({ json: { webhooks: [] } }));
    await page.route("**/api/v1/projects?*", (route) => route.fulfill({ json: { projects: [] } }));
    await go("/organisation?tab=webhooks", "Organisation");
    await page.getByText("No webhooks").waitFor();
    await look("organisation-webhooks-none");
    await go("/organisation?tab=projects", "Organisation");
    await page.getByText("No project yet").waitFor();
    await look("organisation-projects-none");
    await page.unroute("**/organisations/*/webhooks?*");
    await page.unroute("**/api/v1/projects?*");
  });

  await test("owners of an organisation change its guardrails, and send what they changed", async () => {
    const set = { organisation_id: ACME, terminals_disabled: true, max_api_key_days: 30, allowed_regions: ["eu-1"], etag: "g2" };
    await page.route("**/guardrails", (route) => (route.request().method() === "GET" ? route.fulfill({ json: set }) : route.fallback()));
    await go("/organisation?tab=settings", "Organisation");
    await page.getByText("Limits that no role and no grant can override.").waitFor();
    await page.getByText("30 days").waitFor();
    await look("organisation-guardrails");
    await page.getByRole("button", { name: "Change", exact: true }).click();
    const change = dialog.getByRole("button", { name: "Change" });
    assert.ok(await change.isDisabled(), "nothing is changed yet");
    await dialog.getByRole("checkbox", { name: /^No terminals/ }).uncheck();
    await dialog.getByRole("checkbox", { name: /^No webhooks/ }).check();
    await dialog.getByLabel("API keys expire after days").fill("many");
    await dialog.getByText("A whole number up to 3650.").waitFor();
    assert.ok(await change.isDisabled());
    await dialog.getByLabel("API keys expire after days").fill("");
    await dialog.getByLabel("Allowed regions").fill("eu-1, us-1");
    await look("organisation-guardrails-change");
    await change.click();
    await dialog.waitFor({ state: "detached" });
    assert.match(last().key, /^PATCH \/api\/v1\/organisations\/[^/]+\/guardrails$/);
    assert.deepEqual(last().body, { terminals_disabled: false, webhooks_disabled: true, max_api_key_days: 0, allowed_regions: { names: ["eu-1", "us-1"] }, etag: "g2" });
    await page.unroute("**/guardrails");
  });

  await test("a member of an organisation reads its projects, and makes neither projects nor webhooks", async () => {
    await signIn(undefined, "member");
    await page.route("**/api/v1/organisations?*", (route) => route.fulfill({ json: { organisations: [{ id: "o", slug: "acme", state: "active", role: "member" }] } }));
    await go("/organisation?tab=projects", "Organisation");
    await table("Projects").getByText("Vision", { exact: true }).waitFor();
    assert.equal(await page.getByRole("button", { name: "Add a project" }).count(), 0);
    assert.equal(await page.getByRole("tab", { name: "Webhooks" }).count(), 0);
    await page.getByRole("tab", { name: "Settings" }).click();
    await page.getByText("Limits that no role and no grant can override.").waitFor();
    assert.equal(await page.getByRole("button", { name: "Change", exact: true }).count(), 0);
    await page.unroute("**/api/v1/organisations?*");
  });

  await test("an empty node is retired with a reason, and one that never enrolled is deleted", async () => {
    await signIn("operator");
    const placement = (node, change) => page.route(`**/api/v1/admin/nodes/${node}/placement`, (route) => (change ? route.fulfill({ json: { node_id: node, hostname: "gpu-03", region_code: "eu-1", etag: "x", ...change } }) : route.fulfill({ status: 404, json: { error: { code: 404, status: "NOT_FOUND", message: "none", details: [] } } })));
    await placement(nodeId(3), { admin_state: "draining", drained: true });
    await go(`/admin/nodes/${nodeId(3)}`, /gpu-03/);
    await page.getByRole("button", { name: "Retire" }).click();
    assert.ok(await dialog.getByRole("button", { name: "Retire" }).isDisabled(), "a reason is needed");
    await dialog.getByLabel("Reason").fill("scrapped");
    await look("node-retire");
    await dialog.getByRole("button", { name: "Retire" }).click();
    await dialog.waitFor({ state: "detached" });
    assert.deepEqual([last().key, last().body.reason], [`POST /api/v1/admin/nodes/${nodeId(3)}:retire`, "scrapped"]);
    await page.unroute(`**/api/v1/admin/nodes/${nodeId(3)}/placement`);
    await placement(nodeId(5));
    const pending = { id: nodeId(5), config: { hostname: "gpu-05", region_code: "eu-1", mode: "slice" }, status: { state: "pending", blockers: [], evidence: [] }, metadata: { revision: "1" } };
    const stream = [{ node: { kind: "added", node: pending } }, { synced: {} }].map((message, index) => JSON.stringify({ ...message, resume_token: String(index) })).join("\n");
    await page.route("**/api/v1/admin/nodes:watch*", (route) => route.fulfill({ contentType: "application/x-ndjson", body: `${stream}\n` }));
    await go(`/admin/nodes/${nodeId(5)}`, /gpu-05/);
    await page.getByRole("button", { name: "Delete" }).click();
    await look("node-delete");
    await dialog.getByRole("button", { name: "Delete" }).click();
    await page.getByRole("heading", { level: 1, name: "Nodes" }).waitFor();
    assert.equal(last().key, `DELETE /api/v1/admin/nodes/${nodeId(5)}`);
    await signIn("auditor");
    await go(`/admin/nodes/${nodeId(5)}`, /gpu-05/);
    await page.getByRole("tab", { name: "Slots" }).waitFor();
    assert.equal(await page.getByRole("button", { name: "Delete" }).count(), 0);
    await page.unroute(`**/api/v1/admin/nodes/${nodeId(5)}/placement`);
    await page.unroute("**/api/v1/admin/nodes:watch*");
    await signIn("admin");
  });
}
