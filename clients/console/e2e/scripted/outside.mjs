// What the usual browser does not show: pages without a session, an address that leads nowhere, and a phone with fingers.
import { allocationId, organisations, projects } from "./world.mjs";

const PHONE = { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true };
const issuers = [
  { issuer: "https://login.acme.example", display_name: "Acme", console_client_id: "console", scopes: ["openid"], parameters: {} },
  { issuer: "https://login.partners.example", display_name: "Partners of Acme", console_client_id: "console", scopes: ["openid"], parameters: {} },
];

export async function outside({ assert, open, page, server, test, look, go, signIn, take }) {
  await test("the sign-in is read on a phone, with issuers, with a token alone, and after one that failed", async () => {
    const other = await open({ viewport: PHONE.viewport });
    await other.route("**/.well-known/gpuaas-configuration", (route) => route.fulfill({ json: { issuers } }));
    await other.goto(server.base);
    await other.getByRole("button", { name: "Continue with Acme" }).waitFor();
    await look("sign-in", other);
    await other.getByText("Use a token").click();
    await other.getByLabel("Token", { exact: true }).fill("nonsense");
    await other.getByRole("button", { name: "Sign in with a token" }).click();
    await other.getByText("This is not a valid token").waitFor();
    await look("sign-in-token", other);
    await other.goto(`${server.base}/sign-in/callback?code=stolen&state=guessed`);
    await other.getByText("was not begun in this tab").waitFor();
    await look("sign-in-refused", other);
    await other.route("**/.well-known/gpuaas-configuration", (route) => route.fulfill({ json: { issuers: [] } }));
    await other.goto(server.base);
    await other.getByLabel("Token", { exact: true }).waitFor();
    await look("sign-in-without-issuers", other);
    assert.deepEqual(other.faults, []);
    await other.context().close();
  });

  await test("an address that leads nowhere says so", async () => {
    await signIn(undefined, "owner");
    await go("/no-such-page", "Not found");
    await page.getByRole("link", { name: "Go to the home page" }).waitFor();
    await look("not-found");
  });

  await test("groups of the organisation have roles in projects, and a new role is given and taken", async () => {
    const groups = page.getByRole("table", { name: "Groups" });
    const dialog = page.getByRole("alertdialog");
    await go("/organisation?tab=groups", "Organisation");
    await groups.getByText("Member of vision").waitFor();
    await look("organisation-groups");
    await groups.getByRole("button", { name: "Map finance-and-controlling" }).click();
    await dialog.getByLabel("Role").selectOption("billing");
    await look("organisation-group-map");
    await dialog.getByRole("button", { name: "Map" }).click();
    await dialog.waitFor({ state: "detached" });
    assert.equal(server.changes.at(-1).body.role, "billing");
    await groups.getByRole("button", { name: "Remove ml-engineers from vision" }).click();
    await dialog.getByRole("button", { name: "Remove" }).click();
    await dialog.waitFor({ state: "detached" });
    assert.match(server.changes.at(-1).key, /^DELETE .*\/mappings\/[^/]+$/);
    await page.route("**/scim/groups?*", (route) => route.fulfill({ json: { groups: [] } }));
    await go("/organisation?tab=groups", "Organisation");
    await page.getByText("No groups").waitFor();
    await look("organisation-groups-none");
    await page.unroute("**/scim/groups?*");
  });

  await test("owners of an organisation see how SCIM is set up, and make, rotate and disable its keys", async () => {
    const dialog = page.getByRole("alertdialog");
    const keys = page.getByRole("table", { name: "Keys for SCIM" });
    const ago = (days) => new Date(Date.now() - days * 86_400_000).toISOString();
    const key = (id, project, change, more) => ({ api_key: { id, service_account_id: "s", scopes: ["scim"], creator: "user:alice", create_time: ago(30), ...change }, project_id: projects.find(({ slug }) => slug === project).id, project, service_account: "identity-provider", ...more });
    const scim = [
      key("k2", "vision", { display_name: "trial", prefix: "gpuaas_1_01930008", create_time: ago(60), disable_time: ago(31) }),
      key("k1", "speech", { display_name: "okta", prefix: "gpuaas_1_01930007", expire_time: ago(-300), last_used_time: ago(0.01) }),
      key("k3", "vision", { display_name: "entra", prefix: "gpuaas_1_01930009", creator: "user:bob" }, { account_disabled: true }),
    ];
    await signIn(undefined, "owner");
    await go("/organisation?tab=scim", "Organisation");
    await page.getByText("https://login.acme.example").waitFor();
    await page.getByText("No key for SCIM", { exact: true }).waitFor();
    assert.equal(await page.getByRole("button", { name: "Set up SCIM of acme" }).count(), 0, "an administrator of the platform does it");
    await look("scim-no-key");
    await page.getByRole("button", { name: "Make a key" }).click();
    await dialog.getByLabel("Name").fill("okta");
    await dialog.getByLabel("Project").selectOption("speech");
    await look("scim-key-make");
    await dialog.getByRole("button", { name: "Make" }).click();
    await page.getByText("gpuaas_1_shown_once").waitFor();
    const made = server.changes.slice(-2);
    assert.match(made[0].key, new RegExp(`projects/${scim[1].project_id}/service-accounts$`));
    assert.deepEqual(made[0].body, { slug: "identity-provider", role: "billing", description: "People and groups by SCIM" });
    assert.deepEqual([made[1].body.display_name, made[1].body.scopes], ["okta", ["scim"]]);
    await page.getByRole("button", { name: "I have saved it" }).click();
    // the second page has the one that is called with
    await page.route("**/scim/keys?*", (route) => route.fulfill({ json: route.request().url().includes("page_token=2") ? { keys: scim.slice(1) } : { keys: scim.slice(0, 1), next_page_token: "2" } }));
    await go("/organisation?tab=scim", "Organisation");
    await keys.getByText("okta").waitFor();
    await page.getByText("The identity provider called last").waitFor();
    await keys.getByText("speech / identity-provider").waitFor();
    await keys.getByText("user:bob").waitFor();
    await keys.getByText("Account disabled").waitFor();
    assert.match(await keys.locator("tbody tr").first().innerText(), /okta/, "what is good comes first");
    await look("scim");
    await keys.getByRole("button", { name: "Rotate okta" }).click();
    await dialog.getByRole("button", { name: "Rotate" }).click();
    await page.getByText("gpuaas_1_rotated").waitFor();
    await page.getByRole("button", { name: "I have saved it" }).click();
    await keys.getByRole("button", { name: "Disable okta" }).click();
    await dialog.getByRole("button", { name: "Disable" }).click();
    await dialog.waitFor({ state: "detached" });
    assert.match(server.changes.at(-1).key, new RegExp(`projects/${scim[1].project_id}/service-accounts/s/api-keys/k1:disable$`));
    const as = (role) => page.route("**/v1/organisations?*", (route) => route.fulfill({ json: { organisations: [{ ...organisations[0], role }] } }));
    await as("viewer");
    await go("/organisation?tab=scim", "Organisation");
    await keys.getByText("okta").waitFor();
    assert.equal(await page.getByRole("button", { name: /^(Make a key|Rotate|Disable)/ }).count(), 0, "only owners change them");
    await look("scim-viewer");
    await page.unroute("**/v1/organisations?*");
    await as("billing");
    await go("/organisation?tab=scim", "Organisation");
    await page.getByText("https://login.acme.example").waitFor();
    assert.equal(await keys.count(), 0, "the role billing reads no keys");
    await page.unroute("**/v1/organisations?*");
    await page.unroute("**/scim/keys?*");
    await page.route("**/organisations/*/scim", (route) => route.fulfill({ json: {} }));
    await go("/organisation?tab=scim", "Organisation");
    await page.getByText("SCIM is not set up.").waitFor();
    await page.unroute("**/organisations/*/scim");
  });

  await test("where the pointer is a finger a terminal has the keys that a phone lacks", async () => {
    const phone = await open(PHONE);
    const typed = [];
    await phone.routeWebSocket("**/terminal-played", (socket) => {
      socket.onMessage((message) => {
        if (typeof message !== "string") return typed.push(Buffer.from(message));
        if (JSON.parse(message).type !== "attach") return undefined;
        socket.send(JSON.stringify({ type: "session_ready", session_id: "s", resumed: false, resume_token: "r", resume_seconds: 60, output_offset: 0, input_offset: 0, output_window: 65536, input_window: 65536, recorded: false }));
        return socket.send(Buffer.concat([Buffer.alloc(8), Buffer.from("u@train-large:~$ ")]));
      });
    });
    await signIn(undefined, "owner", phone);
    await phone.goto(`${server.base}/allocations/${allocationId(1)}?terminal=1`);
    await phone.getByText("Connected", { exact: true }).waitFor();
    const keys = phone.getByRole("group", { name: "Keys" });
    await keys.getByRole("button", { name: "Escape" }).waitFor();
    const sent = async (text) => {
      for (let wait = 0; wait < 50 && !typed.some((frame) => frame.toString("latin1").endsWith(text)); wait++) await phone.waitForTimeout(100);
      assert.ok(typed.some((frame) => frame.toString("latin1").endsWith(text)), `${JSON.stringify(text)} of ${typed.map((frame) => JSON.stringify(frame.toString("latin1")))}`);
      typed.length = 0;
    };
    await keys.getByRole("button", { name: "Escape" }).tap();
    await sent("\x1b");
    await keys.getByRole("button", { name: "Ctrl" }).tap();
    await phone.locator(".screen .xterm-helper-textarea").press("c");
    await sent("\x03");
    assert.equal(await keys.getByRole("button", { name: "Ctrl" }).getAttribute("aria-pressed"), "false", "it is held for one letter");
    for (const button of await keys.getByRole("button").all()) {
      const { width, height } = await button.boundingBox();
      assert.ok(width >= 40 && height >= 40, `${await button.textContent()} has ${width} x ${height}`);
    }
    await keys.scrollIntoViewIfNeeded();
    await take(phone, "terminal-keys-390");
    await look("terminal-touch", phone);
    assert.deepEqual(phone.faults, []);
    await phone.context().close();
  });
}
