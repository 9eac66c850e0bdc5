// What each role in a project is offered: nothing that the API would refuse it.
import { ACME, allocationId } from "./world.mjs";

export async function roles({ assert, page, server, test, look, go, signIn }) {
  const menu = page.getByRole("navigation", { name: "Main" });
  const main = page.locator("main");
  const table = (name) => page.getByRole("table", { name });
  const words = async () => (await main.getByRole("button").or(main.getByRole("link", { name: /Launch/ })).allInnerTexts()).map((text) => text.trim()).filter(Boolean);
  /** The paths that the page asks for while `run` runs. */
  const asked = async (run) => {
    const paths = [];
    const note = (request) => paths.push(new URL(request.url()).pathname);
    page.on("request", note);
    await run();
    page.off("request", note);
    return paths;
  };
  const OFFERED = ["Launch", "Stop", "Release", "Rename", "Terminal", "Termination settings", "Add a member", "Invite", "Grant access", "Add a webhook", "Add a key", "Add a service account", "Suspend", "Rotate", "Ping"];

  /** What a role is offered on all pages of a project. */
  async function offered(role) {
    await signIn(undefined, role);
    const seen = [];
    await go("/overview", "Overview");
    await table("Running allocations").getByRole("link", { name: "train-large" }).waitFor();
    seen.push(...(await words()));
    await go("/allocations", "Allocations");
    await table("Allocations").getByRole("link", { name: "notebook" }).waitFor();
    seen.push(...(await words()));
    const boxes = await page.getByRole("checkbox", { name: /^Select/ }).count();
    await go(`/allocations/${allocationId(1)}`, "train-large");
    await page.getByText("256 GiB").waitFor();
    seen.push(...(await words()));
    await look(`role-${role}-allocation`);
    const tabs = await page.getByRole("tab").allInnerTexts();
    await go("/project", "Project vision");
    await table("Members").getByText("bob@example.com").waitFor();
    const fixed = await page.getByLabel("Role of Bob").isDisabled();
    seen.push(...(await words()));
    await look(`role-${role}-members`);
    for (const [tab, shown] of [["invitations", table("Invitations")], ["access", table("Access to allocations")], ["webhooks", page.getByText("https://hooks.example.com/gpuaas").first()], ["settings", page.getByText("Your role")]]) {
      await go(`/project?tab=${tab}`, "Project vision");
      await shown.waitFor();
      seen.push(...(await words()));
    }
    await go("/keys", "SSH keys");
    await table("Keys of the project").getByText("deploy").waitFor();
    seen.push(...(await page.locator(".card").filter({ has: page.getByRole("heading", { name: "Keys of the project" }) }).getByRole("button").allInnerTexts()).map((text) => text.trim()));
    await go("/api-keys", "Service accounts");
    await table("API keys of ci").getByText("pipeline").waitFor();
    seen.push(...(await words()));
    return { words: OFFERED.filter((word) => seen.includes(word)), tabs, boxes: boxes > 0, fixed };
  }

  await test("owners manage, members work and viewers read a project: nobody is offered what would be refused", async () => {
    const WORK = ["Launch", "Stop", "Release", "Rename", "Terminal", "Termination settings", "Add a key"];
    assert.deepEqual(await offered("owner"), { words: OFFERED, tabs: ["Overview", "Metrics", "Serial log"], boxes: true, fixed: false });
    assert.deepEqual(await offered("member"), { words: WORK, tabs: ["Overview", "Metrics", "Serial log"], boxes: true, fixed: true });
    assert.deepEqual(await offered("viewer"), { words: [], tabs: ["Overview", "Metrics"], boxes: false, fixed: true });
    assert.equal(await menu.getByRole("link", { name: "Launch" }).count(), 0);
    await go("/launch", "Launch");
    await page.getByText("Your role in this project is Viewer.").waitFor();
    await look("role-viewer-launch");
  });

  await test("an owner lets a viewer into a terminal and a serial log, and these alone are offered", async () => {
    await signIn(undefined, "viewer");
    const one = (permission) => ({ id: permission, project_id: "p", allocation_id: allocationId(1), principal: "user:alice", permission, creator: "user:olga", expire_time: new Date(Date.now() + 3_600_000).toISOString() });
    await page.route("**/allocation-grants?*", (route) => route.fulfill({ json: { grants: ["terminal", "serial_log"].map(one) } }));
    await go(`/allocations/${allocationId(1)}`, "train-large");
    await page.getByRole("button", { name: "Terminal" }).waitFor();
    await page.getByRole("tab", { name: "Serial log" }).waitFor();
    assert.equal(await main.getByRole("button", { name: "Release" }).count(), 0);
    await page.unroute("**/allocation-grants?*");
  });

  await test("the role billing sees cost, limits and members, and asks for nothing else", async () => {
    await signIn(undefined, "billing");
    const paths = await asked(async () => {
      await go("/overview", "Overview");
      await page.getByText("10 of 16 left").waitFor();
      await look("role-billing-overview");
      assert.deepEqual(await menu.getByRole("link").allInnerTexts(), ["Overview", "Usage", "SSH keys", "Project", "Organisation"]);
      await go("/allocations", "Allocations");
      await page.getByText("Your role in this project is Billing.").waitFor();
      await look("role-billing-allocations");
      await go("/usage", "Usage");
      await table("Billed intervals").first().waitFor();
      await look("role-billing-usage");
      await go("/project?tab=webhooks", "Project vision");
      await table("Members").getByText("bob@example.com").waitFor();
      assert.deepEqual(await page.getByRole("tab").allInnerTexts(), ["Members", "Settings"]);
      await look("role-billing-project");
      await go("/keys", "SSH keys");
      await table("Your keys").getByText("laptop").waitFor();
      await page.keyboard.press("Control+k");
      await page.getByRole("combobox", { name: /^Go to/ }).waitFor();
      await page.keyboard.press("Escape");
    });
    const refused = paths.filter((path) => path.startsWith("/api/") && /allocations|health-events|reservations|invitations|webhooks|ssh-keys|service-accounts|grants/.test(path) && path !== "/api/v1/ssh-keys" && !path.includes("allocation-grants"));
    assert.deepEqual(refused, [], "nothing is asked for that the role may not read");
  });

  await test("who has the role billing and a grant opens that allocation", async () => {
    await signIn(undefined, "billing");
    const grant = { id: "g", project_id: "p", allocation_id: allocationId(1), principal: "user:alice", permission: "terminal", creator: "user:olga", expire_time: new Date(Date.now() + 3_600_000).toISOString() };
    await page.route("**/allocation-grants?*", (route) => route.fulfill({ json: { grants: [grant] } }));
    await go("/allocations", "Allocations");
    await main.locator('a[href^="/allocations/"]').first().click();
    await page.getByRole("button", { name: "Terminal" }).waitFor();
    await page.unroute("**/allocation-grants?*");
  });

  await test("what the guardrails of the organisation forbid is not offered, and the pages say why", async () => {
    await signIn(undefined, "owner");
    const forbid = async (guardrails) => {
      await page.unroute("**/guardrails");
      await page.route("**/guardrails", (route) => route.fulfill({ json: { organisation_id: ACME, etag: "g2", ...guardrails } }));
    };
    await forbid({ terminals_disabled: true, serial_logs_disabled: true, ingress_mappings_disabled: true, webhooks_disabled: true, api_keys_disabled: true, allowed_regions: ["eu-3"], allowed_skus: ["h200-sxm-slice"] });
    await go(`/allocations/${allocationId(1)}?terminal=1`, "train-large");
    await page.getByText("Your organisation does not allow terminals.").waitFor();
    await page.getByText("Your organisation does not allow new ingress ports.").waitFor();
    assert.deepEqual((await words()).filter((word) => ["Terminal", "Open a port"].includes(word)), []);
    assert.equal(await page.locator(".terminal-card").count(), 0, "the address opens none either");
    await look("guardrails-allocation");
    await page.getByRole("tab", { name: "Serial log" }).click();
    await page.getByText("Your organisation does not allow serial logs").waitFor();
    await look("guardrails-serial-log");
    await go("/project?tab=webhooks", "Project vision");
    await page.getByText("Your organisation does not allow webhooks.").waitFor();
    await page.getByText("The endpoint answered 410 Gone.").waitFor();
    assert.deepEqual([...new Set(await main.locator(".card").getByRole("button").allInnerTexts())], ["Delete"]);
    await look("guardrails-webhooks");
    await go("/api-keys", "Service accounts");
    await page.getByText("Your organisation does not allow API keys.").waitFor();
    await table("API keys of ci").getByRole("button", { name: "Disable pipeline" }).waitFor();
    assert.deepEqual((await words()).filter((word) => ["Add a key", "Rotate"].includes(word)), []);
    await look("guardrails-api-keys");
    for (const [path, heading] of [["/launch?sku=l40s-slice", "Launch"], ["/reservations/new", "Reserve GPUs"]]) {
      await go(path, heading);
      await page.getByText("Europe 1 is not allowed by your organisation. No other region is open.").waitFor();
      assert.ok(await page.getByRole("radio", { name: /^Europe 1/ }).isDisabled());
      assert.ok(await page.getByRole("radio", { name: /^L40S/ }).isDisabled());
      await look(`guardrails-${heading.split(" ")[0].toLowerCase()}`);
    }
    await go("/launch?sku=l40s-slice", "Launch");
    await page.getByText("Your organisation does not allow this SKU. Choose another one.").waitFor();
    assert.ok(await page.getByRole("button", { name: "Launch", exact: true }).isDisabled());
    await forbid({ max_api_key_days: 45, allowed_regions: ["eu-1"] });
    await go("/api-keys", "Service accounts");
    await page.getByRole("button", { name: "Add a key to ci" }).click();
    await page.getByText("does not allow API keys that live longer than 45 days").waitFor();
    assert.deepEqual(await page.getByLabel("Expires").locator("option").allInnerTexts(), ["In 30 days", "In 45 days"]);
    await look("guardrails-api-key-add");
    await page.getByRole("button", { name: "Cancel" }).click();
    await go("/launch", "Launch");
    assert.ok(await page.getByRole("radio", { name: /^Europe 1/ }).isEnabled());
    await page.unroute("**/guardrails");
  });

  await test("a role that changes while somebody is signed in is learned when the page is loaded", async () => {
    await signIn(undefined, "viewer");
    server.caller.projects[0].role = "owner";
    await go("/project", "Project vision");
    await page.getByRole("button", { name: "Add a member" }).waitFor();
    await menu.getByRole("link", { name: "Launch" }).waitFor();
  });

  await test("an administrator without a second factor is led to sign in again with one, and comes back", async () => {
    await signIn("admin");
    const source = { issuer: server.base, clientId: "console", parameters: {} };
    await page.evaluate((own) => sessionStorage.setItem("gpuaas.session", JSON.stringify({ ...JSON.parse(sessionStorage.getItem("gpuaas.session")), source: own })), source);
    const details = [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason: "SECOND_FACTOR_REQUIRED", domain: "gpuaas", metadata: {} }];
    const routes = {
      "**/api/v1/admin/audit?*": { status: 403, json: { error: { code: 403, status: "PERMISSION_DENIED", message: "This needs a sign-in with a second factor. Sign in again with one.", details } } },
      "**/.well-known/gpuaas-configuration": { json: { issuers: [{ issuer: server.base, display_name: "Acme", console_client_id: "console", scopes: ["openid"], parameters: {}, development: false, admin_acr_values: ["urn:gold"] }] } },
      "**/.well-known/openid-configuration": { json: { issuer: server.base, authorization_endpoint: `${server.base}/icon.svg`, token_endpoint: `${server.base}/token` } },
    };
    for (const [address, answer] of Object.entries(routes)) await page.route(address, (route) => route.fulfill(answer));
    await go("/admin/audit?outcome=denied", "Audit");
    await page.getByText("such as a security key").waitFor();
    await look("second-factor");
    await page.getByRole("button", { name: "Sign in again" }).click();
    await page.waitForURL(/icon\.svg/);
    const asked = new URL(page.url()).searchParams;
    assert.deepEqual([asked.get("acr_values"), asked.get("prompt"), asked.get("client_id")], ["urn:gold", "login", "console"]);
    const { state } = await page.evaluate(() => JSON.parse(sessionStorage.getItem("gpuaas.sign-in")));
    await page.goto(`${server.base}/sign-in/callback?error=access_denied&state=${state}`);
    await page.getByRole("heading", { level: 1, name: "Audit" }).waitFor();
    assert.equal(new URL(page.url()).search, "?outcome=denied");
    for (const address of Object.keys(routes)) await page.unroute(address);
  });
}
