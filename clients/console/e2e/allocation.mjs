// An allocation from the launch form to its bill, followed by its watch.
import assert from "node:assert/strict";
import { accessible } from "./accessible.mjs";
import { BASE, LAUNCH_MS, WIDE, live, name, newPublicKey, page, prewarmed, shot, signIn, signOut, state, tabTo, test } from "./world.mjs";

const KEY = newPublicKey();
const NEVER = "01900000-0000-7000-8000-000000000000";

/** Streams that are open, and questions that a watch makes needless. */
const streams = new Set();
const polls = [];
page.on("request", (request) => {
  const { pathname } = new URL(request.url());
  if (pathname.endsWith(":watch")) streams.add(request);
  else if (request.method() === "GET" && /^\/api\/v1\/allocations(\/[^/]+(\/timeline)?)?$/.test(pathname)) polls.push(pathname);
});
for (const end of ["requestfinished", "requestfailed"]) page.on(end, (request) => streams.delete(request));

export async function launch() {
  await test("h_27_h_28_a_region_is_chosen_and_a_disabled_one_shows_why", async () => {
    await page.getByRole("link", { name: "Launch", exact: true }).first().click();
    const regions = page.getByRole("radiogroup", { name: "Region" });
    assert.ok(await regions.getByRole("radio").first().isChecked());
    const closed = regions.getByRole("radio", { name: /Lab, second site/ });
    assert.ok(await closed.isDisabled());
    await regions.getByText("This site is being built.").waitFor();
  });

  await test("h_25_h_26_one_form_branches_by_shape_and_keeps_every_choice_in_it", async () => {
    await page.getByRole("radio", { name: "Bare metal" }).check({ force: true });
    await page.getByText("No bare-metal SKU is available.").waitFor();
    assert.ok(await page.getByRole("button", { name: "Launch", exact: true }).isDisabled());
    await shot("launch-baremetal");
    await page.getByRole("radio", { name: "Virtual machine" }).check({ force: true });
    for (const part of ["Region", "SKU", "Image", "Access", "Storage and network"]) await page.getByRole("heading", { name: part, exact: true }).waitFor();
  });

  await test("launch with live availability and prices", async () => {
    await page.getByRole("radio", { name: /Lab slice/ }).check({ force: true });
    await page.getByRole("radio", { name: /lab-mini Mini/ }).check({ force: true });
    await page.getByLabel("SSH public keys").fill("ssh-rsa nope");
    await page.getByLabel("Name").fill(name);
    await page.getByText("is not an OpenSSH public key").waitFor();
    await shot("launch-invalid");
    await page.reload();
    assert.equal(await page.getByLabel("Name").inputValue(), name, "a reload keeps what was typed");
    await page.getByLabel("SSH public keys").fill(KEY);
    await page.getByText(/\d available/).first().waitFor();
    await page.getByRole("status").getByText(/\d available/).waitFor();
    await page.getByText("Fits on 1 of 1 node").waitFor();
    await page.setViewportSize({ width: 1280, height: 1710 });
    await page.evaluate(() => window.scrollTo(0, 0));
    await shot("launch");
    await accessible(page, "the launch form");
    await page.setViewportSize(WIDE);
  });

  await test("con_10_before_its_first_launch_no_node_has_the_image_and_requiring_it_is_refused", async () => {
    const start = page.getByRole("button", { name: "Launch", exact: true });
    await prewarmed.check();
    await page.getByRole("alert").getByText(/free on 1 node without the cached image/).waitFor();
    await page.getByText("Allow nodes without the cached image").waitFor();
    assert.equal(await page.getByText(/Fits on \d+ of/).count(), 0, "beside an unschedulable launch nothing claims that it would fit");
    await shot("launch-not-cached");
    await prewarmed.uncheck();
    await page.waitForFunction(() => !document.querySelector(".summary .problem"));
    await start.click();
    await page.getByRole("heading", { name }).waitFor();
  });

  await test("the view is watched: a lost connection is said and resumed, and nothing is asked again and again", async () => {
    // the chapters before were on pages that show what has ended, too
    polls.length = 0;
    await page.getByRole("progressbar").first().waitFor();
    await live();
    await shot("launching");
    await page.context().setOffline(true);
    await page.evaluate(() => window.cuts.at(-1).abort());
    await page.getByText("Reconnecting…").waitFor();
    const resumed = page.waitForRequest((request) => request.url().includes("resume_token="));
    await page.context().setOffline(false);
    await resumed;
    await live();
    assert.deepEqual(polls, []);
    await page.getByRole("link", { name: "Allocations", exact: true }).first().click();
    await page.getByRole("row", { name: new RegExp(name) }).waitFor();
    await live();
    await shot("allocations");
    await accessible(page, "the list of allocations");
    await page.getByRole("link", { name }).click();
    await page.getByRole("heading", { name }).waitFor();
    await live();
    assert.equal(streams.size, 1, "each view lets go of its stream");
    assert.equal(await page.title(), `${name} · GPUaaS`);
  });

  await test("watch it become active", async () => {
    await state("Active").waitFor({ timeout: LAUNCH_MS });
    await page.getByLabel("SSH command", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Copy SSH command" }).click();
    const copied = await page.evaluate(() => navigator.clipboard.readText());
    assert.match(copied, /^ssh -p \d+ u_[0-9a-f]{16}@100\.64\.\d+\.2$/);
    await page.locator(".money").first().waitFor();
    await page.getByText("The VM is ready and billed from now on.").waitFor();
    const done = page.getByRole("list", { name: "Timeline of Launch" });
    await done.getByText("Started the VM.").waitFor();
    assert.equal(await done.getByText("Starting the VM.").count(), 0, "what is over does not read as if it went on");
    assert.deepEqual(polls, []);
    await shot("active");
    await accessible(page, "an active allocation");
  });
}

export async function power() {
  const rows = page.locator(".screen .xterm-rows");
  const again = page.getByRole("button", { name: "New session" });
  await test("stop and start", async () => {
    await page.getByRole("button", { name: "Terminal" }).click();
    await page.getByText("Connected", { exact: true }).waitFor();
    await page.keyboard.type("echo before-$((1+1))\n");
    await rows.getByText("before-2").waitFor();
    await page.getByRole("button", { name: "Stop" }).click();
    await page.getByText("Billing continues").waitFor();
    await page.getByRole("alertdialog").getByRole("button", { name: "Stop" }).click();
    await state("Stopped").waitFor({ timeout: LAUNCH_MS });
    assert.equal(await page.getByRole("progressbar").count(), 0, "what has arrived shows no progress");
    await page.getByText("The VM is not running. Start it to open a new session.").waitFor();
    assert.ok(await again.isDisabled(), "what would be refused is not offered");
    await shot("stopped");
    await accessible(page, "a stopped allocation");
    await page.getByRole("button", { name: "Start" }).click();
    await state("Active").waitFor({ timeout: LAUNCH_MS });
    await again.click();
    await page.getByText("Connected", { exact: true }).waitFor();
    await rows.getByText("before-2").waitFor();
    assert.equal(await page.getByRole("alert").count(), 0);
    await page.locator("#terminal-close").click();
  });
}

export async function release() {
  await test("release asks first, then wipes", async () => {
    await page.getByRole("button", { name: "Release" }).click();
    await page.getByText("All data on the disk is lost.").waitFor();
    await shot("release");
    await accessible(page, "the question before a release");
    await page.keyboard.press("Escape");
    await state("Active").waitFor();
    await page.getByRole("button", { name: "Release" }).click();
    await page.getByRole("alertdialog").getByRole("button", { name: "Release" }).click();
    await state("Released").waitFor({ timeout: LAUNCH_MS });
    await page.locator(".live-mark[data-status=ended]").waitFor({ state: "attached" });
    await shot("released");
  });

  await test("usage is exact", async () => {
    await page.getByRole("link", { name: "Usage" }).click();
    await page.locator(".chart canvas").waitFor();
    await page.getByRole("table", { name: "Billed intervals" }).getByText(name).waitFor();
    const amount = page.getByRole("table", { name: "Billed intervals" }).locator("tbody tr").first().locator(".money").last();
    const [text, exact] = [await amount.textContent(), await amount.getAttribute("title")];
    assert.match(text, /\.\d{2,6}$/, "as many digits as matter");
    assert.ok(exact.length >= text.length, "and all of them on hover");
    await page.getByRole("table", { name: "Quotas" }).getByText("Allocations").waitFor();
    await shot("usage");
    await accessible(page, "usage");
    assert.equal(streams.size, 0, "a view without a watch holds no stream");
  });

  await test("what is not there is said to be not there", async () => {
    await page.goto(`${BASE}/allocations/${NEVER}`);
    await page.getByText("ALLOCATION_NOT_FOUND").waitFor();
    await shot("not-found");
    await accessible(page, "what is not there");
    await page.goto(`${BASE}/nowhere`);
    await page.getByText("This page does not exist").waitFor();
  });
}

/** Fails when the focus has fallen out of the page, so that Tab would begin at the top. */
async function focused(after) {
  assert.notEqual(await page.evaluate(() => document.activeElement?.tagName), "BODY", `the focus stays in the page after ${after}`);
}

/** Without a mouse: signed in, launched, released. */
export async function byKeyboard() {
  await test("sign in, launch and release by keyboard alone", async () => {
    await signOut((button) => button.press("Enter"));
    const issuer = page.getByRole("button", { name: "Development sign-in" });
    await issuer.waitFor();
    await tabTo(issuer);
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Choose who to be" }).waitFor();
    await tabTo(page.getByRole("button", { name: "user:demo" }));
    await page.keyboard.press("Enter");
    await page.getByRole("navigation", { name: "Main" }).waitFor();
    await tabTo(page.getByRole("link", { name: "Launch", exact: true }).first());
    await page.keyboard.press("Enter");
    await page.getByText(/\d available/).first().waitFor();
    await tabTo(page.getByLabel("Name"));
    await page.keyboard.press("ControlOrMeta+a");
    await page.keyboard.type(`${name}-keys`);
    await tabTo(page.getByLabel("SSH public keys"));
    await page.keyboard.press("ControlOrMeta+a");
    await page.keyboard.type(KEY);
    await tabTo(page.getByRole("button", { name: "Launch", exact: true }));
    await shot("keyboard-focus");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: `${name}-keys` }).waitFor();
    await focused("a launch");
    await tabTo(page.getByRole("button", { name: "Release" }));
    await page.keyboard.press("Enter");
    await page.getByText("All data on the disk is lost.").waitFor();
    await tabTo(page.getByRole("alertdialog").getByRole("button", { name: "Release" }));
    await page.keyboard.press("Enter");
    await state("Released").waitFor({ timeout: LAUNCH_MS });
    await focused("a release");
  });

  await test("the focus stays in the page wherever the keyboard leads", async () => {
    const heading = (text) => page.getByRole("heading", { level: 1, name: text });
    const go = async (locator, there) => {
      await tabTo(locator);
      await page.keyboard.press("Enter");
      await there.waitFor();
      await focused(String(locator));
    };
    const menu = (text) => page.getByRole("navigation", { name: "Main" }).getByRole("link", { name: text, exact: true });
    await go(page.locator(".crumb").getByRole("link"), heading("Allocations"));
    await go(menu("Reservations"), heading("Reservations"));
    await go(menu("Usage"), heading("Usage"));
    await go(menu("Allocations"), heading("Allocations"));
    await tabTo(page.getByRole("switch", { name: "Show ended" }));
    await page.keyboard.press("Space");
    await page.getByRole("link", { name: `${name}-keys` }).waitFor();
    await go(page.getByRole("link", { name: `${name}-keys` }), state("Released"));
    await signOut();
    await signIn("user:admin");
    await go(menu("Nodes"), page.getByRole("article"));
    await go(page.getByRole("article").getByRole("link"), page.getByRole("heading", { name: /Slot 0/ }));
    await tabTo(page.getByRole("tab", { name: "Slots" }));
    await page.keyboard.press("ArrowRight");
    await page.getByRole("table", { name: "Candidates" }).waitFor();
    await focused("a change of tab");
    await go(menu("Capacity"), heading("Capacity"));
    await go(menu("All reservations"), heading("All reservations"));
    await signOut();
    await signIn("user:demo");
  });
}

export async function darkAndNarrow() {
  await test("in the dark, and on a phone", async () => {
    await page.getByRole("radio", { name: "Dark" }).check({ force: true });
    await page.goto(`${BASE}/allocations`);
    await page.getByRole("heading", { name: "Allocations", exact: true }).waitFor();
    await page.getByRole("switch", { name: "Show ended" }).check();
    const row = page.getByRole("link", { name, exact: true });
    await row.waitFor();
    await shot("allocations-dark");
    await accessible(page, "the list in the dark");
    await row.click();
    await page.getByRole("list", { name: "Timeline of Release" }).waitFor();
    await shot("released-dark");
    await accessible(page, "an allocation in the dark");
    await page.setViewportSize({ width: 390, height: 844 });
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth), "nothing is cut off at the side");
    await shot("phone");
    await page.getByRole("link", { name: "Launch", exact: true }).first().click();
    await page.getByText(/\d available/).first().waitFor();
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth), "nothing is cut off at the side");
    await shot("phone-launch");
    await accessible(page, "the launch form on a phone in the dark");
    await page.setViewportSize(WIDE);
  });
}
