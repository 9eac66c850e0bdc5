// What members of projects see.
import { readFileSync } from "node:fs";
import { OBSERVED, allocationId, failed } from "./world.mjs";

export async function members({ assert, page, server, test, look, go, signIn, take }) {
  await signIn();
  const table = (name) => page.getByRole("table", { name });
  const dialog = page.getByRole("alertdialog");

  await test("the overview says what runs, what it costs and what is left", async () => {
    await go("/", "Overview");
    await table("Running allocations").getByRole("link", { name: "train-large" }).waitFor();
    await page.getByText("10 of 16 left").waitFor();
    await page.getByText("A check of the host failed.").waitFor();
    await page.getByText("per hour now").waitFor();
    await look("overview");
  });

  await test("allocations are searched, filtered and stopped together", async () => {
    await go("/allocations", "Allocations");
    await table("Allocations").getByRole("link", { name: "notebook" }).waitFor();
    await look("allocations");
    await page.getByRole("searchbox").fill("team=vision train");
    await page.getByText("1 of 4 allocations").waitFor();
    await page.getByRole("checkbox", { name: "Select train-large" }).check();
    await page.getByText("1 selected").waitFor();
    await take(page, "allocations-selected");
    await page.getByRole("button", { name: "Stop 1" }).click();
    await dialog.getByText("Billing continues").waitFor();
    await dialog.getByRole("button", { name: "Stop" }).click();
    await page.getByText("1 selected").waitFor({ state: "detached" });
    assert.equal(server.changes.at(-1).key, `POST /api/v1/allocations/${allocationId(1)}:stop`);
    await page.getByRole("searchbox").fill("nothing like it");
    await page.getByText("No allocation matches").waitFor();
    await page.getByRole("button", { name: "Clear the filters" }).click();
    await table("Allocations").getByRole("link", { name: "notebook" }).waitFor();
  });

  await test("an allocation says what its VM has, who launched it and who did what to it", async () => {
    await go(`/allocations/${allocationId(1)}`, "train-large");
    await page.getByText("256 GiB").waitFor();
    await page.getByText("4 TiB, 4 dedicated disks").waitFor();
    await page.getByText("user:alice").first().waitFor();
    await page.getByText("By an operator: new firmware").waitFor();
    await look("allocation");
  });

  await test("a guest that hangs is reset", async () => {
    await go(`/allocations/${allocationId(1)}`, "train-large");
    const dialog = page.getByRole("alertdialog");
    const reboot = async (choose) => {
      await page.getByRole("button", { name: "Reboot" }).click();
      await choose(dialog.getByRole("checkbox", { name: /^Force/ }));
      await dialog.getByRole("button", { name: "Reboot" }).click();
      await dialog.waitFor({ state: "detached" });
      return server.changes.at(-1).body;
    };
    assert.deepEqual(
      await reboot(async (force) => {
        await force.check();
        await look("allocation-reset");
      }),
      { force: true },
    );
    assert.deepEqual(await reboot(async (force) => assert.ok(!(await force.isChecked()), "the next one asks the guest again")), {});
  });

  await test("d_90 the metrics of a VM are charts and a table, of the range that is chosen", async () => {
    await go(`/allocations/${allocationId(1)}`, "train-large");
    await page.getByRole("tab", { name: "Metrics" }).click();
    await page.getByRole("img", { name: /^CPU over 1 hour: CPU .* % now/ }).waitFor();
    for (const title of ["CPU (%)", "Memory (GiB)", "Network (MiB/s)", "Disk (MiB/s)", "GPU utilization (%)", "GPU memory (GiB)", "GPU temperature (°C)", "GPU power (W)"]) {
      await page.getByRole("heading", { name: title, exact: true }).waitFor();
    }
    const table = page.getByRole("table", { name: "Metrics in figures" });
    await table.getByRole("row", { name: /^Memory, total 480 GiB 480 GiB 480 GiB/ }).waitFor();
    await table.getByRole("row", { name: /^GPU utilization, GPU 1 / }).waitFor();
    await look("allocation-metrics");
    await page.getByRole("radio", { name: "24 hours" }).check({ force: true });
    await page.getByRole("img", { name: /^CPU over 24 hours/ }).waitFor();
    assert.match(page.url(), /range=24/);
    await page.reload();
    await page.getByRole("img", { name: /^GPU power over 24 hours: GPU 0 .*; GPU 1 / }).waitFor();
    await look("allocation-metrics-day");
  });

  await test("d_90 metrics that are missing say why, and what to do", async () => {
    await go(`/allocations/${allocationId(2)}?tab=metrics`, "train-large");
    await page.getByText("Nothing measured in the last hour").waitFor();
    await page.getByText("nvidia-smi is not installed in the VM").waitFor();
    await look("allocation-metrics-none");
    await go(`/allocations/${failed.id}?tab=metrics`, "broken-boot");
    await page.getByText("No VM to measure").waitFor();
    await look("allocation-metrics-ended");
  });

  await test("a serial log is followed, searched and downloaded", async () => {
    await go(`/allocations/${allocationId(1)}`, "train-large");
    await page.getByRole("tab", { name: "Serial log" }).click();
    const lines = page.getByRole("region", { name: "Lines of the serial log" });
    await lines.getByText("Linux version 6.1.0").waitFor();
    await lines.getByText("train-large login:").waitFor();
    assert.ok(!(await lines.textContent()).includes("\u001b"), "no escape sequence is shown");
    assert.ok(await lines.evaluate((e) => e.scrollHeight > e.clientHeight && e.scrollTop + e.clientHeight >= e.scrollHeight - 1), "it shows the end");
    await page.getByRole("checkbox", { name: "Times" }).check();
    await look("allocation-serial-log");
    await page.getByRole("searchbox", { name: "Search the serial log" }).fill("REACHED");
    await page.getByText("1 of 63 lines").waitFor();
    assert.equal(await lines.getByText("Linux version").count(), 0);
    const [saved] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Download" }).click()]);
    assert.equal(saved.suggestedFilename(), "train-large-serial.log");
    const text = readFileSync(await saved.path(), "utf8");
    assert.ok(text.startsWith("Linux version") && text.includes("\u001b[32m"), "it is as it was printed");
    await page.reload();
    await lines.getByText("train-large login:").waitFor();
  });

  await test("a failed launch says what went wrong, what the guest said, and what to do", async () => {
    await go(`/allocations/${failed.id}`, "broken-boot");
    const alert = page.getByRole("alert").filter({ hasText: "did not accept a login within 600 seconds" });
    await alert.getByText(OBSERVED).waitFor();
    await alert.getByText("Choose another image, or launch again.").waitFor();
    const guest = alert.locator(".guest-lines");
    assert.equal(await guest.innerText(), "[    4.2] Waiting for network... (2 times)\nno route to host");
    assert.equal(await guest.evaluate((e) => getComputedStyle(e).whiteSpaceCollapse), "preserve", "each of the guest's lines is a line");
    assert.equal(await alert.getByRole("link", { name: "Launch again" }).getAttribute("href"), `/launch?again=${failed.id}`);
    await look("allocation-failed");
    await go("/allocations?ended=1", "Allocations");
    await table("Allocations").getByText("did not accept a login within 600 seconds.", { exact: false }).waitFor();
    assert.equal(await table("Allocations").getByText("no route to host").count(), 0, "a list has the sentence alone");
  });

  await test("a lost stream and a lost terminal are said, and go on where they were", async () => {
    const firsts = [];
    let [typed, shell] = ["", undefined];
    await page.routeWebSocket("**/terminal-played", (socket) => {
      shell = socket;
      socket.onMessage((message) => {
        if (typeof message !== "string") return void (typed += message.subarray(8));
        const { type, received = 0 } = JSON.parse(message);
        if (type !== "attach" && type !== "resume") return;
        firsts.push({ type, received });
        socket.send(JSON.stringify({ type: "session_ready", session_id: "s", resumed: type === "resume", resume_token: "r", resume_seconds: 60, output_offset: received, input_offset: typed.length, output_window: 65536, input_window: 65536, recorded: false }));
        const head = Buffer.alloc(8);
        head.writeBigUInt64BE(BigInt(received));
        socket.send(Buffer.concat([head, Buffer.from(`${type} said `)]));
      });
    });
    await go(`/allocations/${allocationId(1)}?terminal=1`, "train-large");
    const shown = page.locator(".screen .xterm-rows");
    const live = page.getByText("Live", { exact: true }).first();
    await Promise.all([shown.getByText("attach said").waitFor(), live.waitFor()]);
    await page.keyboard.type("ls");
    await shell.close({ code: 1011 });
    await page.getByText("Disconnected, reconnecting").waitFor();
    await page.keyboard.type(" -l");
    await shown.getByText("resume said").waitFor();
    assert.deepEqual(firsts, [{ type: "attach", received: 0 }, { type: "resume", received: "attach said ".length }]);
    await page.context().setOffline(true);
    const resumed = page.waitForRequest((request) => request.url().includes("resume_token="));
    await page.evaluate(() => window.cuts.forEach((cut) => cut.abort()));
    await page.getByText("Reconnecting…").first().waitFor();
    await page.context().setOffline(false);
    await Promise.all([resumed, live.waitFor()]);
    assert.equal(typed, "ls -l");
    await page.getByRole("button", { name: "Close", exact: true }).click();
  });

  await test("a terminal fills the screen, and its letters grow, shrink and keep their size", async () => {
    await page.routeWebSocket("**/terminal-played", (socket) => {
      socket.onMessage((message) => {
        if (typeof message === "string" && JSON.parse(message).type === "attach") {
          socket.send(JSON.stringify({ type: "session_ready", session_id: "s", resumed: false, resume_token: "r", resume_seconds: 60, output_offset: 0, input_offset: 0, output_window: 65536, input_window: 65536, recorded: false }));
          socket.send(Buffer.concat([Buffer.alloc(8), Buffer.from("u@train-large:~$ ")]));
        }
      });
    });
    const rows = page.locator(".screen .xterm-rows");
    const size = () => rows.evaluate((element) => Number.parseFloat(getComputedStyle(element).fontSize));
    const height = () => page.locator(".screen").evaluate((element) => element.getBoundingClientRect().height);
    await go(`/allocations/${allocationId(1)}?terminal=1`, "train-large");
    await page.getByText("Connected", { exact: true }).waitFor();
    await rows.getByText("u@train-large").waitFor();
    const [usual, low] = [await size(), await height()];
    for (let press = 0; press < 3; press++) await page.getByRole("button", { name: /^A\+/ }).click();
    assert.equal(await size(), usual + 3);
    await page.getByRole("button", { name: /^A−/ }).click();
    assert.equal(await size(), usual + 2);
    await page.getByRole("button", { name: "Full screen" }).click();
    await page.getByRole("button", { name: "Leave full screen" }).waitFor();
    const { width, top, bottom } = await page.locator(".terminal-card").evaluate((element) => element.getBoundingClientRect().toJSON());
    assert.deepEqual([width, top, bottom], [1440, 0, 900], "it fills the window");
    assert.ok((await height()) > low);
    await look("terminal-full");
    await page.getByRole("button", { name: "Leave full screen" }).click();
    await page.getByRole("button", { name: "Full screen" }).waitFor();
    assert.ok((await page.locator(".terminal-card").evaluate((element) => element.getBoundingClientRect().height)) < 900);
    await look("terminal");
    await page.reload();
    await rows.getByText("u@train-large").waitFor();
    assert.equal(await size(), usual + 2, "the next terminal has the size");
    await page.getByRole("button", { name: "Close", exact: true }).click();
    await page.evaluate(() => localStorage.removeItem("gpuaas.terminal-size"));
  });

  await test("an allocation is renamed for people", async () => {
    await go(`/allocations/${allocationId(1)}`, "train-large");
    await page.getByRole("button", { name: "Rename" }).click();
    await dialog.getByLabel("Display name").fill("Training, run 7");
    await look("allocation-rename");
    await dialog.getByRole("button", { name: "Rename" }).click();
    await dialog.waitFor({ state: "detached" });
    const change = server.changes.at(-1);
    assert.equal(change.key, `PATCH /api/v1/allocations/${allocationId(1)}`);
    assert.deepEqual(change.body, { display_name: "Training, run 7" });
  });

  await test("an allocation is protected from release", async () => {
    await page.getByRole("button", { name: "Termination settings" }).click();
    await dialog.getByRole("checkbox", { name: "Protect from release" }).check();
    await look("allocation-protect");
    await dialog.getByRole("button", { name: "Save" }).click();
    await dialog.waitFor({ state: "detached" });
    assert.deepEqual(server.changes.at(-1).body, { termination_protection: true, no_auto_release: true });
  });

  await test("what an operator did to an allocation stands in the list with the reason", async () => {
    await go("/allocations", "Allocations");
    await table("Allocations").getByText("An operator stopped this allocation. Reason: the node gets new fans.").waitFor();
  });

  await test("the launch form shows a month's price, the quota left, and the same as command and call", async () => {
    await go("/launch", "Launch");
    await page.getByText(/^About €1,825.00 per month/).waitFor();
    await page.getByText("Quota left: 10 GPUs of this SKU, 28 allocations").waitFor();
    await page.getByLabel("Name").fill("web");
    await page.getByRole("checkbox", { name: /workstation/ }).uncheck();
    await page.getByText("Show as CLI, curl or SDK call").click();
    const command = page.getByRole("region", { name: "Command" });
    assert.match(await command.textContent(), /gpuaas launch[^]*--sku h200-sxm-slice[^]*--name web[^]*--ssh-key laptop/);
    await page.getByRole("radio", { name: "curl" }).check({ force: true });
    const call = await page.getByRole("region", { name: "Call" }).textContent();
    assert.match(call, /Bearer \$GPUAAS_TOKEN/);
    assert.ok(!call.includes("a.b.c"), "the token is not in it");
    for (const [way, what] of [["Python", /client\.create_allocation\([^]*ssh_key_names=\["laptop"\]/], ["TypeScript", /client\.POST\("\/api\/v1\/allocations", \{ body \}\)/]]) {
      await page.getByRole("radio", { name: way }).check({ force: true });
      const program = await page.getByRole("region", { name: "Call" }).textContent();
      assert.match(program, what);
      assert.ok(!program.includes("a.b.c"), "the token is not in it");
      await look(`launch-${way.toLowerCase()}`);
    }
    assert.match(page.url(), /[?&]keys=laptop(&|$)/);
    await page.reload();
    await page.getByRole("checkbox", { name: /laptop/ }).waitFor();
    assert.deepEqual([await page.getByRole("checkbox", { name: /laptop/ }).isChecked(), await page.getByRole("checkbox", { name: /workstation/ }).isChecked()], [true, false], "a reload keeps the picked keys");
    await page.getByRole("radio", { name: "Bare metal" }).check({ force: true });
    await page.reload();
    await page.getByRole("radio", { name: "Bare metal" }).waitFor();
    assert.ok(await page.getByRole("radio", { name: "Bare metal" }).isChecked(), "a reload keeps the shape");
    await look("launch-bare-metal");
    await page.getByRole("radio", { name: "Virtual machine" }).check({ force: true });
    await page.getByText("Show as CLI, curl or SDK call").click();
    await page.getByRole("radio", { name: "curl" }).check({ force: true });
    await page.getByRole("checkbox", { name: "Protect from release" }).check();
    assert.match(await page.getByRole("region", { name: "Call" }).textContent(), /"termination_protection": true/);
    await look("launch");
  });

  await test("the launch form says which disks and network come with the SKU, and changes whether VMs reach each other", async () => {
    await go("/launch?gpus=4", "Launch");
    const card = page.locator(".card").filter({ has: page.getByRole("heading", { name: "Storage and network" }) });
    await card.getByText("4 dedicated disks, one per GPU", { exact: false }).waitFor();
    await card.getByText("VMs cannot connect to each other").waitFor();
    const before = server.changes.filter(({ key, body }) => key === "POST /api/v1/allocations" && !body.validate_only).length;
    await card.getByRole("button", { name: "Connect VMs" }).click();
    await look("launch-network");
    await dialog.getByRole("button", { name: "Allow" }).click();
    await dialog.waitFor({ state: "detached" });
    await card.getByText("VMs of the project on the same host can connect (IPv4)").waitFor();
    assert.equal(server.changes.findLast(({ key }) => key === "PUT /api/v1/project-network").body.vms_reach_each_other, true);
    assert.equal(server.changes.findLast(({ key }) => key === "PUT /api/v1/project-network").body.etag, "n1");
    assert.equal(server.changes.filter(({ key, body }) => key === "POST /api/v1/allocations" && !body.validate_only).length, before, "the form of the dialog launches nothing");
    await card.getByRole("button", { name: "Isolate VMs" }).click();
    await dialog.getByRole("button", { name: "Isolate" }).click();
    await dialog.waitFor({ state: "detached" });
  });

  await test("usage has dates, groups, a chart and an export", async () => {
    await go("/usage?range=7+days", "Usage");
    await page.locator(".chart canvas").waitFor();
    await table("Cost in groups").getByText("l40s-slice").waitFor();
    await page.getByRole("radio", { name: "Allocation" }).check({ force: true });
    await table("Cost in groups").getByText("train-large").waitFor();
    await page.getByText("Show as a table").click();
    const days = table("Cost by day in EUR");
    await days.getByRole("row").nth(2).waitFor();
    await look("usage-table");
    const [twin] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Export cost by day" }).click()]);
    const lines = readFileSync(await twin.path(), "utf8").trim().split("\r\n");
    assert.equal(lines[0], "day,gpu_hours,amount,currency");
    assert.equal(lines.length, 9, "seven days and a part of the one before");
    const saved = page.waitForEvent("download");
    await page.getByRole("button", { name: "Export CSV" }).click();
    const file = await saved;
    const text = readFileSync(await file.path(), "utf8");
    assert.match(file.suggestedFilename(), /^usage-\d{4}-\d\d-\d\d-.*\.csv$/);
    assert.equal(text.trim().split("\r\n").length, 4);
    assert.match(text, /^project,allocation,/);
    await page.getByRole("radio", { name: "Dates" }).check({ force: true });
    await page.getByLabel("From").waitFor();
    await look("usage");
    await page.getByLabel("From").fill("2020-01-01");
    await page.getByLabel("To", { exact: true }).fill("2020-01-02");
    await page.getByText("Nothing was billed in this period").waitFor();
  });

  await test("the command palette leads anywhere by keyboard", async () => {
    await go("/usage", "Usage");
    await page.keyboard.press("Control+k");
    const input = page.getByRole("combobox", { name: /Go to/ });
    await input.waitFor();
    await look("palette");
    await input.fill("noteb");
    await page.getByRole("option", { name: /notebook/ }).waitFor();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: /train-large|notebook/ }).waitFor();
    assert.ok(page.url().endsWith(allocationId(2)));
    await page.keyboard.press("Control+k");
    await input.fill("zzz");
    await page.getByText("Nothing found").waitFor();
    await page.keyboard.press("Escape");
    await input.waitFor({ state: "detached" });
  });

  await test("SSH keys are kept by name", async () => {
    await go("/keys", "SSH keys");
    await table("Your keys").getByText("laptop").waitFor();
    await table("Keys of the project").getByText("deploy").waitFor();
    await look("keys");
    await page.getByRole("button", { name: "Add a key" }).first().click();
    await dialog.getByLabel("Public key").fill("-----BEGIN OPENSSH PRIVATE KEY-----");
    await dialog.getByText("This is a private key").waitFor();
    assert.ok(await dialog.getByRole("button", { name: "Add" }).isDisabled());
    await dialog.getByLabel("Public key").fill(`ssh-ed25519 ${"B".repeat(68)} me@desk`);
    assert.equal(await dialog.getByLabel("Name").inputValue(), "me-desk");
    await look("key-add");
    await dialog.getByRole("button", { name: "Add" }).click();
    await dialog.waitFor({ state: "detached" });
    assert.equal(server.changes.at(-1).body.name, "me-desk");
    await page.getByRole("button", { name: "Delete workstation" }).click();
    await dialog.getByRole("button", { name: "Delete" }).click();
    await dialog.waitFor({ state: "detached" });
    assert.match(server.changes.at(-1).key, /^DELETE .*000000000002$/);
  });

  await test("members have roles, and are invited with a link that is shown once", async () => {
    await go("/project", "Project vision");
    await table("Members").getByText("bob@example.com").waitFor();
    await look("members");
    await page.getByLabel("Role of Bob").selectOption("viewer");
    await page.getByRole("button", { name: "Remove Bob" }).click();
    await dialog.getByRole("button", { name: "Remove" }).click();
    await dialog.waitFor({ state: "detached" });
    const roles = server.changes.filter(({ key }) => key.startsWith("PATCH ")).at(-1);
    assert.deepEqual(roles.body, { role: "viewer", etag: "m2" });
    await page.getByRole("tab", { name: "Invitations" }).click();
    await table("Invitations").getByText("dan@example.com").waitFor();
    await look("invitations");
    await page.getByRole("button", { name: "Invite" }).click();
    await dialog.getByLabel("Email").fill("frank@example.com");
    await dialog.getByLabel("Role").selectOption("billing");
    await dialog.getByRole("button", { name: "Invite" }).click();
    await page.getByText("/join#invite-once-42").waitFor();
    await look("invitation-link");
    await page.getByRole("button", { name: "I have saved it" }).click();
    await page.getByText("/join#invite-once-42").waitFor({ state: "detached" });
    await page.getByRole("tab", { name: "Settings" }).click();
    await page.getByText("Your role").waitFor();
    await look("project-settings");
  });

  await test("several members, invitations and keys are changed together, and those that are refused stay selected", async () => {
    const changed = (pattern) => server.changes.filter(({ key }) => pattern.test(key)).length;
    await go("/project", "Project vision");
    assert.equal(await page.getByRole("checkbox", { name: "Select Alice" }).count(), 0, "nobody leaves with the others");
    for (const name of ["Bob", "Carol"]) await page.getByRole("checkbox", { name: `Select ${name}` }).check();
    const group = page.getByRole("group", { name: "Selected members" });
    await group.getByRole("button", { name: "Change role of 2" }).click();
    await dialog.getByText("Bob, Carol").waitFor();
    assert.ok(await dialog.getByRole("button", { name: "Change" }).isDisabled(), "no role is chosen yet");
    await dialog.getByLabel("Role").selectOption("billing");
    await look("members-selected-role");
    const before = changed(/^PATCH .*members/);
    await dialog.getByRole("button", { name: "Change" }).click();
    // the open dialog hides what is behind it from roles, so the group says nothing yet
    await dialog.waitFor({ state: "detached" });
    await group.waitFor({ state: "detached" });
    assert.equal(changed(/^PATCH .*members/) - before, 2);
    assert.deepEqual(server.changes.at(-1).body.role, "billing");
    for (const name of ["Bob", "Carol"]) await page.getByRole("checkbox", { name: `Select ${name}` }).check();
    await page.route("**/members/*000000000003?*", (route) => route.fulfill({ status: 409, json: { error: { code: 409, status: "FAILED_PRECONDITION", message: "Carol is needed.", details: [] } } }));
    await group.getByRole("button", { name: "Remove 2" }).click();
    await dialog.getByRole("button", { name: "Remove" }).click();
    await page.getByText("Carol is needed.").waitFor();
    await page.getByText("1 selected").waitFor();
    await look("members-selected");
    await page.unroute("**/members/*000000000003?*");
    await page.getByRole("tab", { name: "Invitations" }).click();
    await page.getByRole("searchbox").fill("dan");
    await table("Invitations").getByText("eve@example.com").waitFor({ state: "detached" });
    await page.getByRole("checkbox", { name: "Select dan@example.com" }).check();
    await look("invitations-selected");
    await page.getByRole("button", { name: "Revoke 1" }).click();
    await dialog.getByRole("button", { name: "Revoke" }).click();
    await dialog.waitFor({ state: "detached" });
    assert.match(server.changes.at(-1).key, /invitations\/[^/]+:revoke$/);
    await page.getByRole("combobox", { name: "State" }).selectOption("revoked");
    await page.getByText("No invitation matches").waitFor();
    await look("invitations-none-found");
    await page.getByRole("button", { name: "Clear the filters" }).click();
    await table("Invitations").getByText("eve@example.com").waitFor();
    await go("/keys", "SSH keys");
    for (const name of ["laptop", "workstation"]) await page.getByRole("checkbox", { name: `Select ${name}` }).check();
    await look("keys-selected");
    const keys = changed(/^DELETE .*ssh-keys/);
    await page.getByRole("group", { name: "Selected of your keys" }).getByRole("button", { name: "Delete 2" }).click();
    await dialog.getByRole("button", { name: "Delete" }).click();
    await dialog.waitFor({ state: "detached" });
    assert.equal(changed(/^DELETE .*ssh-keys/) - keys, 2);
    await go("/api-keys", "Service accounts");
    await page.getByRole("checkbox", { name: "Select pipeline" }).check();
    assert.equal(await page.getByRole("checkbox", { name: /^Select/ }).count(), 1, "one that is disabled is so for good");
    await look("api-keys-selected");
    await page.getByRole("button", { name: "Disable 1" }).click();
    await dialog.getByRole("button", { name: "Disable" }).click();
    await dialog.waitFor({ state: "detached" });
    assert.match(server.changes.at(-1).key, /api-keys\/[^/]+:disable$/);
    await page.getByRole("searchbox").fill("nothing like it");
    await page.getByText("No service account matches").waitFor();
    await look("api-keys-none-found");
    await page.getByRole("button", { name: "Clear the search" }).click();
    await page.getByRole("heading", { name: "ci", exact: true }).waitFor();
    for (const [tab, none, shown] of [["webhooks", "No webhook matches", "https://hooks.example.com/gpuaas"], ["access", "No grant matches", "user:carol"]]) {
      await go(`/project?tab=${tab}`, "Project vision");
      await page.getByText(shown).first().waitFor();
      await page.getByRole("searchbox").first().fill("nothing like it");
      await page.getByText(none).waitFor();
      await page.getByRole("button", { name: "Clear the search" }).click();
      await page.getByText(shown).first().waitFor();
      await look(`searched-${tab}`);
    }
  });

  await test("webhooks: one with a secret that is shown once, its deliveries, one of them again", async () => {
    await go("/project?tab=webhooks", "Project vision");
    const sent = table("Deliveries to https://hooks.example.com/gpuaas");
    await sent.getByText("No answer in time").waitFor();
    await page.getByText("The endpoint answered 410 Gone.").waitFor();
    await look("webhooks");
    await page.getByRole("button", { name: "Add a webhook" }).click();
    await dialog.getByLabel("Address").fill("http://hooks.example.com/");
    await dialog.getByText("The URL must begin with https://.").waitFor();
    assert.ok(await dialog.getByRole("button", { name: "Add" }).isDisabled());
    await dialog.getByLabel("Address").fill("https://hooks.example.com/new");
    await dialog.getByText("All events").click();
    await dialog.getByRole("checkbox", { name: "allocation.failed" }).check();
    await look("webhook-add");
    await dialog.getByRole("button", { name: "Add" }).click();
    await page.getByText("whsec_shown_once").waitFor();
    assert.deepEqual(server.changes.at(-1).body, { url: "https://hooks.example.com/new", description: "", event_types: ["allocation.failed"] });
    await look("webhook-once");
    await page.getByRole("button", { name: "I have saved it" }).click();
    await page.getByText("whsec_shown_once").waitFor({ state: "detached" });
    const search = page.getByRole("searchbox", { name: "Search deliveries by event, error or whole id" }).first();
    await search.fill("nothing like it");
    await page.getByText("No delivery matches.").first().waitFor();
    await search.fill("FAILED");
    await sent.getByText("allocation.failed").waitFor();
    assert.equal(await sent.getByText("allocation.active").count(), 0);
    await look("webhook-deliveries-found");
    await search.fill("");
    await sent.getByText("allocation.active").first().waitFor();
    await page.getByLabel("Deliveries", { exact: true }).first().selectOption("failed");
    await sent.getByText("No answer in time").waitFor({ state: "detached" });
    await page.reload();
    await sent.getByRole("button", { name: /^Redeliver allocation.failed/ }).waitFor();
    assert.equal(await page.getByLabel("Deliveries", { exact: true }).first().inputValue(), "failed", "a reload keeps the filter");
    assert.equal(await sent.getByText("No answer in time").count(), 0);
    await sent.getByRole("button", { name: /^Redeliver allocation.failed/ }).click();
    await dialog.getByRole("button", { name: "Redeliver" }).click();
    await dialog.waitFor({ state: "detached" });
    assert.match(server.changes.at(-1).key, /deliveries\/[^/]+:redeliver$/);
    await page.getByRole("button", { name: "Rotate secret of https://hooks.example.com/gpuaas" }).click();
    await dialog.getByRole("button", { name: "Rotate" }).click();
    await page.getByText("whsec_rotated").waitFor();
    await page.getByRole("button", { name: "I have saved it" }).click();
    await page.getByRole("button", { name: /^Enable https:..old/ }).click();
    await dialog.getByRole("button", { name: "Enable" }).click();
    await dialog.waitFor({ state: "detached" });
    assert.deepEqual(server.changes.at(-1).body, { disabled: false, etag: "7" });
  });

  await test("API keys: an account, a key that is shown once, its rotation and its end", async () => {
    await go("/api-keys", "Service accounts");
    const keys = table("API keys of ci");
    await keys.getByText("pipeline").waitFor();
    await keys.getByText("read, write").waitFor();
    await keys.getByText("Disabled").waitFor();
    await look("api-keys");
    await page.getByRole("button", { name: "Add a service account" }).click();
    await dialog.getByLabel("Slug").fill("etl");
    await dialog.getByRole("button", { name: "Add" }).click();
    await dialog.waitFor({ state: "detached" });
    assert.deepEqual(server.changes.at(-1).body, { slug: "etl", role: "member", description: "" });
    await page.getByRole("button", { name: "Add a key to ci" }).click();
    await dialog.getByLabel("Name").fill("nightly");
    await dialog.getByRole("checkbox", { name: /Launch/ }).check();
    await look("api-key-add");
    await dialog.getByRole("button", { name: "Add" }).click();
    await page.getByText("gpuaas_1_shown_once").waitFor();
    const { display_name, scopes, expire_time } = server.changes.at(-1).body;
    assert.deepEqual([display_name, scopes], ["nightly", ["read", "write"]]);
    assert.ok(Date.parse(expire_time) > Date.now(), "it expires in 90 days unless another time is chosen");
    await look("api-key-once");
    await page.getByRole("button", { name: "Copy API key" }).waitFor();
    await page.getByRole("button", { name: "I have saved it" }).click();
    await page.getByText("gpuaas_1_shown_once").waitFor({ state: "detached" });
    await keys.getByRole("button", { name: "Rotate pipeline" }).click();
    await dialog.getByRole("button", { name: "Rotate" }).click();
    await page.getByText("gpuaas_1_rotated").waitFor();
    await page.getByRole("button", { name: "I have saved it" }).click();
    await keys.getByRole("button", { name: "Disable pipeline" }).click();
    await dialog.getByRole("button", { name: "Disable" }).click();
    await dialog.waitFor({ state: "detached" });
    assert.match(server.changes.at(-1).key, /api-keys\/[^/]+:disable$/);
  });

  await test("a project without service accounts says what to do next", async () => {
    await page.route("**/service-accounts?*", (route) => route.fulfill({ json: { service_accounts: [] } }));
    await go("/api-keys", "Service accounts");
    await page.getByText("No service accounts").waitFor();
    await page.getByRole("button", { name: "Add a service account" }).waitFor();
    await look("api-keys-empty");
    await page.unroute("**/service-accounts?*");
  });

  await test("an organisation shows its members, invites and is renamed by its owners", async () => {
    await go("/organisation", "Organisation");
    await table("Members").getByText("bob@example.com").waitFor();
    await look("organisation-members");
    await page.getByRole("tab", { name: "Invitations" }).click();
    await page.getByText("No invitations").waitFor();
    await page.getByRole("tab", { name: "Settings" }).click();
    await page.getByRole("button", { name: "Rename" }).click();
    await dialog.getByLabel("Display name").fill("Acme Labs");
    await dialog.getByRole("button", { name: "Rename" }).click();
    await dialog.waitFor({ state: "detached" });
    assert.deepEqual(server.changes.at(-1).body, { display_name: "Acme Labs", etag: "o1" });
    await look("organisation-settings");
  });

  await test("the link of an invitation is accepted once, and a bad one says why", async () => {
    await go("/join#bad", "Join");
    assert.ok(!page.url().includes("bad"), "the token stays in no history");
    await page.getByRole("button", { name: "Accept" }).click();
    await page.getByRole("alert").getByText("This invitation has expired.").waitFor();
    await look("join-refused");
    await page.goto("about:blank");
    await go("/join#good", "Join");
    await page.getByRole("button", { name: "Accept" }).click();
    await page.getByText("You are in acme/vision").waitFor();
  });

  await test("a new project's pages say what to do next", async () => {
    const none = [
      ["**/api/v1/allocations:watch*", { body: `${JSON.stringify({ synced: {}, resume_token: "1" })}\n`, contentType: "application/x-ndjson" }],
      ["**/api/v1/usage?*", { json: { intervals: [], totals: [], next_page_token: "" } }],
      ["**/api/v1/health-events?*", { json: { events: [] } }],
    ];
    for (const [path, answer] of none) await page.route(path, (route) => route.fulfill(answer));
    await go("/overview", "Overview");
    await page.getByText("No active allocations").waitFor();
    await page.getByText("Nothing was billed this month").waitFor();
    await look("overview-empty");
    for (const [path] of none) await page.unroute(path);
  });
}
