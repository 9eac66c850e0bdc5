// Sign-in with an identity provider: back to the page that was asked for, renewed without a word, refused when forged.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { accessible } from "./accessible.mjs";
import { BASE, onPhone, openLink, page, shot, signIn, signOut, test } from "./world.mjs";

const PROGRAM = `${process.env.GPUAAS_PROGRAMS ?? "target/debug"}/gpuaas`;
const usage = (tab) => tab.getByRole("heading", { level: 1, name: "Usage" });
const heading = page.getByRole("heading", { name: "Sign in" });
const session = (tab) => tab.evaluate(() => JSON.parse(sessionStorage.getItem("gpuaas.session")));

/** Runs the command line; its messages can be read while it runs. */
function gpuaas(folder, ...args) {
  const child = spawn(PROGRAM, args, { env: { PATH: process.env.PATH, HOME: folder } });
  const said = { out: "", err: "" };
  child.stdout.on("data", (text) => (said.out += text));
  child.stderr.on("data", (text) => (said.err += text));
  return { child, said, ended: once(child, "close") };
}

/** While nobody is signed in. */
export async function signIns() {
  await test("a sign-in leads back to the page that was asked for", async () => {
    await openLink();
    await shot("issuer");
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.getByText("The sign-in was refused or cancelled.").waitFor();
    await page.goto(`${BASE}/usage?from=2026-01-01`);
    await page.getByRole("button", { name: "Development sign-in" }).click();
    await page.getByRole("button", { name: "user:demo" }).click();
    await usage(page).waitFor();
    assert.equal(new URL(page.url()).pathname, "/usage");
    assert.ok(!page.url().includes("code="), "the code is not left in the address");
  });

  await test("a token is renewed in time, once for all tabs", async () => {
    const other = await page.context().newPage();
    await other.goto(`${BASE}/usage`);
    await usage(other).waitFor();
    const first = await session(page);
    let asked = 0;
    for (const tab of [page, other]) tab.on("request", (request) => (asked += Number(request.url() === `${BASE}/dev/token`)));
    for (const tab of [page, other]) {
      await tab.evaluate(() => {
        const stored = JSON.parse(sessionStorage.getItem("gpuaas.session"));
        sessionStorage.setItem("gpuaas.session", JSON.stringify({ ...stored, renewAt: 0 }));
      });
    }
    await Promise.all([page.reload(), other.reload()]);
    const isNew = (token) => JSON.parse(sessionStorage.getItem("gpuaas.session"))?.token !== token;
    for (const tab of [page, other]) await tab.waitForFunction(isNew, first.token);
    const [renewed, same] = [await session(page), await session(other)];
    assert.equal(renewed.token, same.token);
    assert.notEqual(renewed.source.refreshToken, first.source.refreshToken);
    assert.equal(asked, 1);
    await usage(other).waitFor();
    await other.close();
  });

  await test("signing out ends the sign-in at the issuer too", async () => {
    const { token } = await session(page);
    const whoami = () => page.request.get(`${BASE}/api/v1/whoami`, { headers: { Authorization: `Bearer ${token}` } });
    assert.equal((await whoami()).status(), 200);
    await signOut();
    assert.equal((await whoami()).status(), 401);
  });

  await test("an answer that was forged, or is another issuer's, signs nobody in", async () => {
    await page.goto(`${BASE}/sign-in/callback?code=stolen&state=guessed`);
    await page.getByText("was not begun in this tab").waitFor();
    for (const change of [{ iss: "https://evil.example" }, { state: "guessed" }]) {
      await openLink();
      const { state } = await page.evaluate(() => JSON.parse(sessionStorage.getItem("gpuaas.sign-in")));
      const parameters = new URLSearchParams({ code: "stolen", state, iss: BASE, ...change });
      await page.goto(`${BASE}/sign-in/callback?${parameters}`);
      await page.getByText("is not one to this sign-in").waitFor();
    }
    await heading.waitFor();
  });

  await test("the command line signs in by a code that is confirmed in the browser", async () => {
    const folder = mkdtempSync(join(tmpdir(), "gpuaas-login-"));
    try {
      const login = gpuaas(folder, "login", "--api", BASE);
      const told = new Promise((resolve, reject) => {
        login.child.stderr.on("data", () => {
          const page = /http\S+user_code=\S+/.exec(login.said.err);
          if (page) resolve(page[0]);
        });
        login.child.on("close", () => reject(new Error(login.said.err)));
      });
      // this browser has seen the link of the stack, so nothing is typed
      await page.goto(await told);
      // the console leads on to the issuer's page
      await page.getByRole("heading", { name: "Sign in a program" }).waitFor();
      await accessible(page, "the page for programs");
      await onPhone("the page for programs");
      await page.getByRole("button", { name: "user:demo" }).click();
      await page.getByRole("heading", { name: "The program is signed in" }).waitFor();
      await onPhone("the page of a program that is signed in");
      const [status] = await login.ended;
      assert.equal(status, 0, login.said.err);
      assert.match(login.said.out, /^Signed in as user:demo/);
      const whoami = gpuaas(folder, "whoami");
      assert.equal((await whoami.ended)[0], 0, whoami.said.err);
      assert.match(whoami.said.out, /user:demo/);
      const logout = gpuaas(folder, "logout");
      assert.equal((await logout.ended)[0], 0, logout.said.err);
      const after = gpuaas(folder, "whoami");
      assert.equal((await after.ended)[0], 4);
      assert.match(after.said.err, /gpuaas login/);
    } finally {
      rmSync(folder, { recursive: true });
    }
    await signIn("user:demo");
    await signOut();
  });
}
