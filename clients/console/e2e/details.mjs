// What is told of an allocation and changed of it while it runs: its name, its end, its metrics, who else gets in.
import assert from "node:assert/strict";
import { connect } from "node:net";
import { OWNER, VIEWER, run } from "./people.mjs";
import { accessible } from "./accessible.mjs";
import { open } from "./browser.mjs";
import { BASE, answer, as, browser, dialog, enter, go, heading, look, name, page, shot, state, table, test } from "./world.mjs";

const fact = (term) => page.locator(".facts > div").filter({ has: page.getByText(term, { exact: true }) }).locator("dd");

async function openAllocation() {
  await go("Allocations");
  await page.getByRole("link", { name, exact: true }).click();
  await state("Active").waitFor();
}

async function rename(to, from = name) {
  await page.getByRole("button", { name: "Rename" }).click();
  await dialog.getByText(`Rename ${from}`).waitFor();
  await dialog.getByLabel("Display name").fill(to);
}

/** A time of a field, so many minutes from now. */
function inMinutes(minutes) {
  const time = new Date(Date.now() + minutes * 60_000);
  return new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

async function settings(change) {
  await page.getByRole("button", { name: "Termination settings" }).click();
  await change(dialog.getByRole("checkbox", { name: "Protect from release" }), dialog.getByLabel("Release at (optional)"));
}

/** What a server says first; nothing where none is. */
function greeting(host, port) {
  return new Promise((resolve) => {
    const socket = connect({ host, port: Number(port), timeout: 5000 });
    const end = (text) => {
      socket.destroy();
      resolve(text);
    };
    socket.on("data", (text) => end(String(text)));
    for (const event of ["error", "timeout", "close"]) socket.on(event, () => end(""));
  });
}

export async function details() {
  await test("an allocation says what its VM has, and is renamed for people alone", async () => {
    await as("user:demo");
    await openAllocation();
    await fact("vCPU").getByText("1", { exact: true }).waitFor();
    await fact("Memory").getByText("256 MiB").waitFor();
    await fact("Launched by").getByText("user:demo").waitFor();
    await rename("x".repeat(201));
    await dialog.getByText("At most 200 characters.").waitFor();
    assert.ok(await dialog.getByRole("button", { name: "Rename" }).isDisabled());
    await dialog.getByLabel("Display name").fill("Training, 日本語");
    await shot("allocation-rename");
    await answer("Rename");
    await heading("Training, 日本語").waitFor();
    await page.reload();
    await heading("Training, 日本語").waitFor();
    await fact("Host name").getByText(name, { exact: true }).waitFor();
    await go("Allocations");
    await page.getByRole("link", { name: "Training, 日本語" }).click();
    await rename("", "Training, 日本語");
    await answer("Rename");
    await heading(name).waitFor();
  });

  await test("a protected allocation is not released, and one is released at a time", async () => {
    await settings((isProtected) => isProtected.check());
    await look("the termination settings");
    await answer("Save");
    await page.reload();
    await fact("Protection").getByText("A release is refused").waitFor();
    await page.getByRole("button", { name: "Release", exact: true }).click();
    await dialog.getByRole("button", { name: "Release" }).click();
    await dialog.getByRole("alert").waitFor();
    // the pointer rests on the button
    await look("a release that is refused");
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await settings(async (isProtected, at) => {
      await isProtected.uncheck();
      await at.fill(inMinutes(-10));
      await dialog.getByText("Choose a time in the future.").waitFor();
      assert.ok(await dialog.getByRole("button", { name: "Save" }).isDisabled());
      await at.fill(inMinutes(24 * 60));
    });
    await answer("Save");
    await page.reload();
    await fact("Scheduled release").waitFor();
    await look("an allocation that is released at a time");
    await settings((_, at) => at.fill(""));
    await answer("Save");
    await page.reload();
    await fact("Host name").waitFor();
    assert.equal(await fact("Scheduled release").count(), 0);
  });

  await test("the metrics of its VM, and what it printed, are there", async () => {
    await page.getByRole("tab", { name: "Metrics" }).click();
    await page.getByRole("heading", { name: "Memory (GiB)" }).waitFor({ timeout: 60_000 });
    await look("the metrics of an allocation");
    await page.getByRole("tab", { name: "Serial log" }).click();
    await page.getByRole("region", { name: "Lines of the serial log" }).waitFor();
    await look("the serial log of an allocation");
    await page.getByRole("tab", { name: "Overview" }).click();
  });

  await test("a port of its VM is opened to the outside, and closed", async () => {
    await page.getByRole("button", { name: "Open a port" }).click();
    await dialog.getByLabel("Port of the VM").fill("70000");
    await dialog.getByText("A port is a number from 1 to 65535.").waitFor();
    await dialog.getByLabel("Port of the VM").fill("22");
    await dialog.getByLabel("Networks that may connect (optional)").fill("everybody");
    await dialog.getByRole("button", { name: "Open", exact: true }).click();
    await dialog.getByRole("alert").waitFor();
    await look("a port that cannot be opened");
    await dialog.getByLabel("Networks that may connect (optional)").fill("");
    await answer("Open");
    await page.getByText("Active: TCP to port 22 of the VM, for everybody").waitFor();
    await page.reload();
    const external = await page.getByRole("group", { name: "External address" }).innerText();
    assert.match(await greeting(...external.trim().split(":")), /^SSH-/);
    await look("an allocation with an open port");
    await page.getByRole("button", { name: "Close port" }).click();
    await answer("Close port");
    await page.getByText("No port of the VM is exposed.").waitFor();
    assert.equal(await greeting(...external.trim().split(":")), "");
  });
}

export async function grants() {
  const grantees = table("Access to allocations");
  await test("an owner lets a viewer into one allocation, and takes it back", async () => {
    await as("user:demo");
    await go("Project", /^Project/);
    await page.getByRole("button", { name: "Add a member" }).click();
    await dialog.getByLabel("Principal").fill(VIEWER);
    await dialog.getByLabel("Role").selectOption("viewer");
    await dialog.getByRole("button", { name: "Add", exact: true }).click();
    // an owner adds who is in the organisation, and invites everybody else
    await dialog.getByRole("alert").waitFor();
    await shot("member-of-nobody");
    await dialog.getByRole("button", { name: "Cancel" }).click();
    await as("user:admin");
    await go("Organisations");
    await page.getByRole("table").getByRole("link", { name: "demo", exact: true }).click();
    await page.getByRole("button", { name: "Add a member" }).click();
    await dialog.getByLabel("Principal").fill(VIEWER);
    await dialog.getByLabel("Role").selectOption("viewer");
    await answer("Add");
    await as("user:demo");
    await page.goto(`${BASE}/project?tab=access`);
    await page.getByText("No grants").waitFor();
    await look("a project without grants");
    await page.getByRole("button", { name: "Grant access" }).click();
    await dialog.getByLabel("Allocation").selectOption({ label: name });
    await dialog.getByLabel("Principal").fill(OWNER);
    await dialog.getByRole("button", { name: "Grant access" }).click();
    await dialog.getByRole("alert").waitFor();
    await shot("grant-refused");
    await dialog.getByLabel("Principal").fill(VIEWER);
    await look("the form of a grant");
    await answer("Grant access");
    await page.reload();
    await grantees.getByText(VIEWER).waitFor();
    await look("the grants of a project");
  });

  await test("a viewer with a grant gets a terminal, an operator ends it, and nothing else is offered", async () => {
    await as(VIEWER);
    assert.equal(await page.getByRole("link", { name: "Launch" }).count(), 0);
    await openAllocation();
    for (const word of ["Stop", "Release", "Rename", "Termination settings", "Open a port"]) assert.equal(await page.getByRole("button", { name: word, exact: true }).count(), 0, word);
    await page.getByRole("button", { name: "Terminal" }).click();
    await page.getByText("Connected", { exact: true }).waitFor();
    await look("an allocation of a viewer with a terminal");
    const other = await open(browser);
    await enter("user:admin", other);
    await other.goto(`${BASE}/admin/terminals?state=open`);
    const session = other.getByRole("row").filter({ hasText: VIEWER });
    await session.waitFor();
    await other.screenshot();
    await accessible(other, "the terminals");
    await session.getByRole("button", { name: `End the terminal of ${VIEWER}` }).click();
    const question = other.getByRole("alertdialog");
    assert.ok(await question.getByRole("button", { name: "End" }).isDisabled(), "a reason is needed");
    await question.getByLabel("Reason").fill("maintenance");
    await question.getByRole("button", { name: "End" }).click();
    await question.waitFor({ state: "detached" });
    await page.getByText(/maintenance|Ended/).first().waitFor();
    await shot("terminal-ended-by-operator");
    await other.context().close();
    await as("user:admin");
    await go("Terminals");
    await table("Terminals").getByRole("row").filter({ hasText: VIEWER }).getByText("maintenance").waitFor();
    await look("the terminals of all projects");
    await page.getByRole("searchbox", { name: /^Search by person/ }).fill("nobody at all");
    await page.getByText("No terminal matches").waitFor();
  });

  await test("a grant that is taken back is gone", async () => {
    await as("user:demo");
    await page.goto(`${BASE}/project?tab=access`);
    await grantees.getByRole("button", { name: new RegExp(`^Delete the grant of ${VIEWER}`) }).click();
    await answer("Delete");
    await page.getByText("No grants").waitFor();
    await as(VIEWER);
    await openAllocation();
    assert.equal(await page.getByRole("button", { name: "Terminal" }).count(), 0);
    await as("user:demo");
    await go("Project", /^Project/);
    await page.getByRole("button", { name: `Remove ${VIEWER}` }).click();
    await answer("Remove");
    await page.reload();
    await table("Members").waitFor();
    assert.equal(await table("Members").getByText(VIEWER).count(), 0);
  });
}

export async function breakFix() {
  const fault = `fan ${run} is loud`;
  // what the fault was is not the tenants' business
  const event = table("Health events").getByText("An operator works on the host").first();
  await test("break-fix while an allocation runs is a health event of the project", async () => {
    await as("user:admin");
    await go("Nodes");
    await page.getByRole("article").getByRole("link", { name: /lab-host/ }).click();
    await page.getByRole("tab", { name: "History" }).click();
    await page.getByRole("button", { name: "Open a break-fix record" }).click();
    await dialog.getByLabel("Fault").fill(fault);
    await look("the form of a break-fix record");
    await answer("Open record");
    await page.getByText(`Node: ${fault}`).waitFor();
    await page.getByRole("button", { name: "Add action" }).click();
    await dialog.getByLabel("What was done").fill(`fan ${run} was replaced`);
    await answer("Add action");
    await page.getByText(`fan ${run} was replaced`).waitFor();
    await look("the history of a node with an open break-fix record");
    await page.getByRole("button", { name: "Close", exact: true }).click();
    await dialog.getByLabel("Outcome").fill("quiet again");
    await answer("Close record");
    await page.getByText("quiet again").first().waitFor();
    await page.getByRole("button", { name: "Uncordon" }).click();
    await answer("Uncordon");
    await page.reload();
    await page.getByRole("button", { name: "Cordon", exact: true }).waitFor();
    await as("user:demo");
    await heading("Overview").waitFor();
    await look("the overview of a member");
    await page.goto(`${BASE}/health-events`);
    await event.waitFor();
    await look("the health events of a project");
    await page.getByLabel("Kind", { exact: true }).selectOption("failed");
    await page.getByText("No health event matches").waitFor();
    await page.getByRole("button", { name: "Clear the filters" }).click();
    await event.waitFor();
  });
}
