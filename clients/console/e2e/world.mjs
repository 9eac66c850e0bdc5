// What every chapter of the test shares: the browser's page, named tests, screenshots, signing in.
import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { readFileSync } from "node:fs";
import { accessible } from "./accessible.mjs";
import { camera, open, start } from "./browser.mjs";

export const BASE = process.argv[2] ?? "http://127.0.0.1:7080";
export const LAUNCH_MS = 240_000;
const FOLDER = process.argv[3] ?? "e2e/screenshots";
/** Name of the allocation that the chapters follow. */
export const name = process.argv[4] || `e2e-${Date.now().toString(36)}`;
/** Where a stack keeps the code of its development sign-in; `make up`'s own unless a stack's folder is given. */
const CODE_FILE = `${process.env.GPUAAS_STACK ?? ".run"}/pki/dev-issuer.sign-in`;
/** The code of the stack's development sign-in. */
export const code = () => readFileSync(CODE_FILE, "utf8").trim();
/** The token that the stack wrote for a user or an administrator. */
export const tokenOf = (role) => readFileSync(`${process.env.GPUAAS_STACK ?? ".run"}/tokens/${role}`, "utf8").trim();
/** The link that `make status` prints. */
export const link = () => `${BASE}/#sign-in=${code()}`;
export const WIDE = { width: 1280, height: 860 };

/** An OpenSSH public key of which nobody keeps the private half. */
export function newPublicKey() {
  const { x } = generateKeyPairSync("ed25519").publicKey.export({ format: "jwk" });
  const parts = [Buffer.from("ssh-ed25519"), Buffer.from(x, "base64url")];
  const length = (part) => Buffer.from([0, 0, 0, part.length]);
  return `ssh-ed25519 ${Buffer.concat(parts.flatMap((part) => [length(part), part])).toString("base64")} e2e@example.com`;
}

export const browser = await start();
export const page = await open(browser, { viewport: WIDE });
const take = camera(FOLDER);
export const shot = (title, options) => take(page, title, options);

export async function test(title, run) {
  const begin = performance.now();
  try {
    await run();
    console.log(`ok    ${title} (${((performance.now() - begin) / 1000).toFixed(1)} s)`);
  } catch (error) {
    console.log(`FAIL  ${title}`);
    await shot("failed").catch(() => {});
    throw error;
  }
}

/** A page as a phone shows it: nothing scrolls sideways, and axe finds nothing. */
export async function onPhone(title) {
  await page.setViewportSize({ width: 390, height: 844 });
  await shot(`${title.replace(/\W+/g, "-")}-390`);
  await accessible(page, `${title} at 390`);
  const [wide, window] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  assert.ok(wide <= window, `${title}: ${wide} in ${window}`);
  await page.setViewportSize(WIDE);
}

/** A page in full and on a phone, once all of it is there, judged by axe at both. */
export async function look(title) {
  await page.locator("main .skeleton").first().waitFor({ state: "detached" });
  await shot(title.replace(/\W+/g, "-"), { fullPage: true });
  await accessible(page, title);
  await onPhone(title);
}

/** Presses Tab until an element is reached; fails when it never is. */
export async function tabTo(locator) {
  for (let i = 0; i < 80; i++) {
    await page.keyboard.press("Tab");
    if (await locator.evaluate((element) => element === document.activeElement)) return;
  }
  throw new Error(`Tab never reaches ${locator}`);
}

/** Opens the link of the stack, which leads to the page of the embedded issuer. */
export async function openLink(on = page) {
  await on.goto(BASE);
  // a link that differs in its fragment alone loads nothing
  await on.goto(link());
  await on.reload();
  await on.getByRole("heading", { name: "Choose who to be" }).waitFor();
}

/** Signs somebody in who may belong nowhere yet. */
export async function enter(principal, on = page) {
  await openLink(on);
  await on.getByRole("button", { name: principal }).click();
  await on.getByRole("navigation", { name: "Main" }).waitFor();
}

export async function signIn(principal) {
  await enter(principal);
  // from the page that everybody begins at
  await page.getByRole("navigation", { name: "Main" }).getByRole("link", { name: "Allocations", exact: true }).click();
  await page.getByRole("heading", { name: "Allocations", exact: true }).waitFor();
}

/** Signing out of a sign-in goes by way of the issuer; a pasted token has none. */
export async function signOut(press = (button) => button.click()) {
  const stored = await page.evaluate(() => sessionStorage.getItem("gpuaas.session"));
  const back = JSON.parse(stored).source && page.waitForResponse((answer) => new URL(answer.url()).pathname === "/dev/end-session");
  await Promise.all([back, press(page.getByRole("button", { name: "Sign out" }))]);
  await page.waitForURL(`${BASE}/`);
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
}

/** Signs somebody in, in the place of whoever is. */
export async function as(principal) {
  await page.goto(BASE);
  if (await page.evaluate(() => sessionStorage.getItem("gpuaas.session"))) await signOut();
  await enter(principal);
}

export const state = (word) => page.getByRole("heading", { level: 1 }).getByText(word, { exact: true });
/** The launch form's choice of nodes with the image cached. */
export const prewarmed = page.getByRole("checkbox", { name: "Only on nodes with the image cached" });
export const menu = (title) => page.getByRole("navigation", { name: "Main" }).getByRole("link", { name: title, exact: true });
export const heading = (text) => page.getByRole("heading", { level: 1, name: text });
export const table = (title) => page.getByRole("table", { name: title });
export const dialog = page.getByRole("alertdialog");
/** A page of the menu, as somebody goes there. */
export async function go(title, headed = title) {
  await menu(title).click();
  await heading(headed).waitFor();
}
/** Answers the question that is open, and waits until it is done. */
export async function answer(word) {
  await dialog.getByRole("button", { name: word, exact: true }).click();
  await dialog.waitFor({ state: "detached" });
}
export const live = () => page.locator(".live-mark[data-status=live]").waitFor();
