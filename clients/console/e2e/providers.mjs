// The console at an identity provider that nobody here wrote: node e2e/providers.mjs PROVIDER BASE ISSUER FOLDER. The gateway
// at BASE trusts ISSUER, where user:ada signs in, an owner of the project demo; with oidc-provider an administrator too.
// canaille's ID tokens are for the API and not for the console, so the console signs nobody in with it.
import assert from "node:assert/strict";
import { accessible, findings } from "./accessible.mjs";
import { camera, open, start } from "./browser.mjs";

const [name, BASE, ISSUER, folder] = process.argv.slice(2);

/** The providers' own pages. */
const PROVIDERS = {
  "oidc-provider": {
    async proves(page) {
      await page.getByPlaceholder("Enter any login").fill("ada");
      await page.getByPlaceholder("and password").fill("any");
      await page.getByRole("button", { name: "Sign-in" }).click();
    },
    consents: (page) => page.getByRole("button", { name: "Continue" }).click(),
    leaves: (page) => page.getByRole("button", { name: "Yes, sign me out" }).click(),
  },
  canaille: {
    async proves(page) {
      await page.locator("input[name=login]").fill("ada");
      await page.keyboard.press("Enter");
      await page.locator("input[name=password]").fill("correct-horse");
      await page.keyboard.press("Enter");
    },
    consents: (page) => page.locator("#accept").click(),
  },
};
const provider = PROVIDERS[name];

const browser = await start();
const page = await open(browser);
const take = camera(folder);
const shot = (title) => take(page, `${name}-${title}`);
/** Pages of the provider that this tab was led to. */
let led = 0;
page.on("request", (request) => (led += Number(request.isNavigationRequest() && request.url().startsWith(ISSUER))));
/** What failed on pages of the console; those of the provider are not ours. */
const faults = [];
page.on("pageerror", (error) => page.url().startsWith(BASE) && faults.push(String(error)));
page.on("console", (message) => {
  const ours = message.type() === "error" && message.location().url.startsWith(BASE);
  if (ours && !message.text().startsWith("Failed to load resource")) faults.push(message.text());
});
/** Longer than a token lives. */
const RENEWED = { timeout: 30_000 };

const failed = [];

async function test(title, run) {
  const begin = performance.now();
  try {
    await run();
    console.log(`ok    ${title} (${((performance.now() - begin) / 1000).toFixed(1)} s)`);
  } catch (error) {
    failed.push(title);
    console.log(`FAIL  ${title}: ${error.message}\n      at ${page.url()}: ${await page.innerText("body").catch(() => "")}`);
    await shot(`failed-${failed.length}`).catch(() => {});
  }
}

const session = () => page.evaluate(() => JSON.parse(sessionStorage.getItem("gpuaas.session")));
const heading = (text) => page.getByRole("heading", { level: 1, name: text });
const path = () => new URL(page.url()).pathname;
const whoami = (token) => page.request.get(`${BASE}/api/v1/whoami`, { headers: { Authorization: `Bearer ${token}` } }).then((answer) => answer.status());

/** From the console's sign-in page by the provider's pages, and back. */
async function signIn() {
  await page.getByRole("button", { name: `Continue with ${name}` }).click();
  await page.waitForURL(`${ISSUER}/**`);
  await provider.proves(page);
  await provider.consents(page);
  await page.waitForURL(`${BASE}/**`);
}

/** Until the token was renewed, once more. */
async function renewed() {
  const { token } = await session();
  await page.waitForFunction((before) => JSON.parse(sessionStorage.getItem("gpuaas.session"))?.token !== before, token, RENEWED);
  return token;
}

/** A page of the console as it is now, on a desktop and on a phone. */
async function look(title) {
  for (const [width, height] of [[1280, 860], [390, 844]]) {
    await page.setViewportSize({ width, height });
    await shot(`${title}-${width}`);
    await accessible(page, `${title} at ${width}`);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(wide <= width, `${title}: ${wide} in ${width}`);
  }
  await page.setViewportSize({ width: 1280, height: 860 });
}

async function isNotSignedIn() {
  await test("an ID token that is not for the console signs nobody in, though the API would take the access token", async () => {
    await page.goto(`${BASE}/project`);
    await heading("Sign in").waitFor();
    const isTokens = (answer) => answer.url() === `${ISSUER}/oauth/token` && answer.request().method() === "POST";
    // it waits for all of the provider's pages
    const given = page.waitForResponse(isTokens, { timeout: 60_000 });
    await signIn();
    const { id_token, access_token } = await (await given).json();
    const { aud, azp } = JSON.parse(Buffer.from(id_token.split(".")[1], "base64url"));
    assert.deepEqual([aud, azp], [["gpuaas-api"], undefined]);
    await page.getByRole("alert").filter({ hasText: "The identity provider did not answer as expected" }).waitFor();
    assert.equal(await session(), null);
    assert.ok(!page.url().includes("code="), "the code is not left in the address");
    await look("not-for-the-console");
    // until the gateway has the provider's keys it can say nothing of the token
    let status = 503;
    while (status === 503) status = await whoami(access_token);
    assert.equal(status, 200);
    await page.goto(`${BASE}/project`);
    await heading("Sign in").waitFor();
  });
}

/** Of somebody who signs in with her password alone. */
async function signInPlainly() {
  await test("a person signs in at the provider's own page and sees who she is and her project", async () => {
    await page.goto(`${BASE}/project`);
    await heading("Sign in").waitFor();
    await look("sign-in");
    await signIn();
    await heading("Project demo").waitFor();
    assert.equal(path(), "/project");
    assert.ok(!page.url().includes("code="), "the code is not left in the address");
    assert.match(await page.locator(".who").innerText(), /Project demo[^]*user:ada/);
    await page.getByRole("row", { name: /user:ada.*you/ }).waitFor();
    await look("project");
  });

  await test("the session is renewed silently, and the page goes on working", async () => {
    const before = led;
    const first = await renewed();
    await renewed();
    await page.getByRole("link", { name: "Organisation" }).first().click();
    await heading("Organisation").waitFor();
    await page.getByRole("link", { name: "Project", exact: true }).click();
    await page.getByRole("row", { name: /user:ada.*you/ }).waitFor();
    await page.reload();
    await page.getByRole("row", { name: /user:ada.*you/ }).waitFor();
    assert.notEqual((await session()).token, first);
    assert.equal(led, before, "nobody was led to the provider");
  });
}

async function proveTwice() {
  const offer = page.getByRole("button", { name: "Sign in again" }).first();

  await test("an administrator who cancels at the provider is still signed in, and still refused", async () => {
    await page.goto(`${BASE}/admin/organisations`);
    await page.getByText("such as a security key").first().waitFor();
    await look("refused");
    await offer.click();
    await page.waitForURL(`${ISSUER}/**`);
    await page.getByRole("link", { name: "Cancel" }).click();
    await page.waitForURL(`${BASE}/**`);
    await heading("Organisations").waitFor();
    assert.equal(path(), "/admin/organisations");
    await offer.waitFor();
  });

  await test("with a second factor she comes back to the page, and what was refused is allowed, renewed too", async () => {
    await offer.click();
    await page.waitForURL(`${ISSUER}/**`);
    await provider.proves(page);
    await page.getByLabel("Code").fill("000000");
    await page.getByRole("button", { name: "Verify" }).click();
    await provider.consents(page);
    await page.waitForURL(`${BASE}/admin/organisations`);
    await page.getByRole("heading", { level: 2, name: "lab" }).waitFor();
    await page.getByRole("button", { name: "Add an organisation" }).click();
    await page.getByLabel("Slug").fill("acme");
    await page.getByRole("button", { name: "Add", exact: true }).click();
    await page.getByRole("heading", { level: 2, name: "acme" }).waitFor();
    await look("allowed");
    await renewed();
    await page.reload();
    await page.getByRole("heading", { level: 2, name: "acme" }).waitFor();
  });
}

async function endedThere() {
  await test("who signs out at the provider is soon signed out here, though the page asks for nothing by itself", async () => {
    await page.goto(`${BASE}/project`);
    await page.getByRole("row", { name: /user:ada.*you/ }).waitFor();
    const { token } = await session();
    const other = await page.context().newPage();
    await other.goto(`${ISSUER}/session/end`);
    await provider.leaves(other);
    await other.getByText("Sign-out Success").waitFor();
    assert.equal(await whoami(token), 401);
    // the other tab is in front, so nothing but the renewal tells this one
    await heading("Sign in").waitFor(RENEWED);
    await page.getByText("Your sign-in has ended").waitFor();
    await other.close();
    await look("ended");
    await signIn();
    await page.getByRole("row", { name: /user:ada.*you/ }).waitFor();
  });
}

async function signOut() {
  await test("signing out ends the session here and at the provider", async () => {
    const { token, source } = await session();
    // the provider leads back
    const back = page.waitForResponse((answer) => answer.url() === `${BASE}/` && answer.request().redirectedFrom()?.url().startsWith(ISSUER));
    await page.getByRole("button", { name: "Sign out" }).click();
    await provider.leaves(page);
    await (await back).finished();
    const left = Math.floor(Date.now() / 1000);
    await page.waitForLoadState();
    await heading("Sign in").waitFor();
    assert.equal(await page.evaluate(() => sessionStorage.getItem("gpuaas.session")), null);
    assert.equal(await whoami(token), 401, "the provider has told the gateway");
    const form = { grant_type: "refresh_token", client_id: source.clientId, refresh_token: source.refreshToken };
    const answer = await page.request.post(`${ISSUER}/token`, { form });
    assert.deepEqual([answer.status(), (await answer.json()).error], [400, "invalid_grant"]);
    // a token of the second of a logout counts as from before it
    while (Math.floor(Date.now() / 1000) <= left) await page.evaluate(() => new Promise(requestAnimationFrame));
    // who comes next proves who they are
    await signIn();
    await page.getByRole("navigation", { name: "Main" }).waitFor();
  });
}

try {
  if (name === "canaille") {
    await isNotSignedIn();
  } else {
    await signInPlainly();
    await proveTwice();
    await endedThere();
    await signOut();
  }
  await test("no page had a violation of the accessibility rules", () => assert.deepEqual(findings, []));
  await test("no script failed and the content policy held", () => assert.deepEqual(faults, []));
} finally {
  await browser.close();
}
process.exitCode = failed.length > 0 ? 1 : 0;
