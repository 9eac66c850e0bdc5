// What operators see.
import { SPEECH, allocationId, nodeId } from "./world.mjs";

export async function operators({ assert, page, server, test, look, go, signIn }) {
  await signIn("admin");
  const table = (name) => page.getByRole("table", { name });
  const dialog = page.getByRole("alertdialog");
  const hasFocus = () => page.getByRole("searchbox").evaluate((box) => box === document.activeElement);
  const sent = (key) => server.changes.filter((change) => change.key === key).at(-1)?.body;

  await test("the platform at a glance: capacity, blocked nodes by reason, work against its deadline", async () => {
    await go("/admin", "Platform overview");
    await table("Blocked nodes by reason").getByText("1 hugepage pool is too small").waitFor();
    await table("Allocations in progress").getByText("Booting the VM").waitFor();
    await page.getByText(/m \d+ s left|m left/).first().waitFor();
    await page.getByText("of 20 in active allocations").waitFor();
    await page.getByText("Out of service: 2 on gpu-03, cordoned: new cables").waitFor();
    await page.getByRole("list", { name: "GPUs of l40s in eu-1" }).getByText("0 free").waitFor();
    await look("platform");
  });

  await test("allocations of all projects, and the way out of a lost host", async () => {
    await go("/admin/allocations", "All allocations");
    await table("All allocations").getByText("speech-train").waitFor();
    await page.getByRole("searchbox").pressSequentially("speech gpu-04");
    assert.equal(await page.getByRole("searchbox").inputValue(), "speech gpu-04", "the box stays while one types");
    assert.ok(await hasFocus(), "and keeps the focus");
    await page.getByText("1 allocation", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Force release" }).waitFor();
    await page.getByRole("searchbox").fill("gpu a b c d e f");
    await page.getByText(/Only the first [56] words are searched/).waitFor();
    await look("all-allocations-cut");
    // also where a search fails, and from an address without the rows of no search
    await page.route("**/api/v1/admin/allocations?*absent*", (route) => route.fulfill({ status: 400, json: { error: { code: 400, status: "INVALID_ARGUMENT", message: "The filter is wrong.", details: [] } } }));
    await page.getByRole("searchbox").fill("absent");
    await page.getByText("The filter is wrong.").waitFor();
    assert.ok(await hasFocus(), "after a refusal");
    await page.reload();
    await page.getByText("The filter is wrong.").waitFor();
    await page.getByRole("searchbox").press("ControlOrMeta+a");
    await page.getByRole("searchbox").press("Delete");
    await table("All allocations").getByText("train-large").waitFor();
    assert.ok(await hasFocus(), "while all are loaded");
    await page.unroute("**/api/v1/admin/allocations?*absent*");
    await look("all-allocations");
  });

  await test("operators find allocations by state, project and node, and release one with a reason", async () => {
    const all = table("All allocations");
    await page.getByLabel("State", { exact: true }).selectOption("provisioning");
    await page.getByText("1 allocation", { exact: true }).waitFor();
    await page.getByLabel("State", { exact: true }).selectOption("");
    await page.getByLabel("Project", { exact: true }).selectOption(SPEECH);
    await all.getByText("train-large").waitFor({ state: "detached" });
    await all.getByText("speech-train").waitFor();
    await page.getByLabel("Project", { exact: true }).selectOption("");
    await page.getByLabel("Node", { exact: true }).selectOption(nodeId(1));
    await all.getByText("speech-train").waitFor({ state: "detached" });
    await all.getByRole("button", { name: "Release train-large" }).click();
    assert.ok(await dialog.getByRole("button", { name: "Release" }).isDisabled(), "a reason is needed");
    await dialog.getByLabel("Reason").fill("the node is drained");
    await look("operator-release");
    await dialog.getByRole("button", { name: "Release" }).click();
    await dialog.waitFor({ state: "detached" });
    assert.deepEqual(sent(`POST /api/v1/admin/allocations/${allocationId(1)}:release`), { reason: "the node is drained" });
    await all.getByRole("button", { name: "Stop train-large" }).click();
    await dialog.getByLabel("Reason").fill("new fans");
    await dialog.getByRole("button", { name: "Stop" }).click();
    await dialog.waitFor({ state: "detached" });
    assert.deepEqual(sent(`POST /api/v1/admin/allocations/${allocationId(1)}:stop`), { reason: "new fans" });
    for (const name of ["train-large", "notebook"]) await all.getByRole("checkbox", { name: `Select ${name}` }).check();
    const group = page.getByRole("group", { name: "Selected allocations" });
    await group.getByRole("button", { name: "Stop 1" }).waitFor();
    await look("operator-selected");
    await group.getByRole("button", { name: "Release 2" }).click();
    await dialog.getByText("train-large, notebook").waitFor();
    assert.ok(await dialog.getByRole("button", { name: "Release" }).isDisabled(), "a reason is needed for all of them");
    await dialog.getByLabel("Reason").fill("the hall is closed");
    await dialog.getByRole("button", { name: "Release" }).click();
    await dialog.waitFor({ state: "detached" });
    await group.waitFor({ state: "detached" });
    for (const number of [1, 2]) assert.deepEqual(sent(`POST /api/v1/admin/allocations/${allocationId(number)}:release`), { reason: "the hall is closed" });
    await page.getByRole("searchbox").fill("nothing like it");
    await page.getByText("No allocation matches").waitFor();
    await page.getByRole("button", { name: "Clear the filters" }).click();
    await all.getByText("speech-train").waitFor();
  });

  await test("an operator reads an allocation of any project: where it is, its devices, its timeline, and no login", async () => {
    await go("/admin/allocations", "All allocations");
    await table("All allocations").getByRole("link", { name: "train-large" }).click();
    await page.getByRole("heading", { level: 1, name: "train-large" }).waitFor();
    await table("Devices").getByText("0000:1b:00.0").waitFor();
    await table("Tasks on the node").getByText("slice.vm_provision").waitFor();
    await page.getByText("Reserved 4 GPU of h200-sxm-slice in eu-1.").waitFor();
    await page.getByRole("link", { name: "gpu-01" }).waitFor();
    const text = await page.locator("main").innerText();
    for (const secret of ["ssh-ed25519", "u_0123456789abcdef", "eu-1.example.com", "10.0.0.5"]) assert.ok(!text.includes(secret), `${secret} is the tenant's`);
    await look("operator-allocation");
  });

  await test("ledger, host and hypervisor of a node beside each other, differences first, each with its correction", async () => {
    await page.goto(`${server.base}/admin/nodes/${nodeId(1)}?tab=comparison`);
    const compared = table("Ledger, host and hypervisor");
    await compared.getByText("Operator decides").first().waitFor();
    const verdicts = await compared.locator("tbody tr td:nth-child(5) .badge").allInnerTexts();
    assert.deepEqual(verdicts, ["Operator decides", "Operator decides", "Operator decides", "Finish operation", "Agrees"]);
    await table("Slots and GPU partitions").getByText("no VM of this host has it").waitFor();
    await look("node-comparison");
    await compared.getByRole("button", { name: "Release notebook" }).waitFor();
    await compared.getByRole("button", { name: /Repair slot/ }).first().click();
    assert.ok(await dialog.getByRole("button", { name: "Wipe and repair" }).isDisabled(), "a reason is needed");
    await dialog.getByLabel("Reason").fill("the host kept it");
    await dialog.getByRole("button", { name: "Wipe and repair" }).click();
    await dialog.waitFor({ state: "detached" });
    assert.deepEqual(server.changes.at(-1).body, { reason: "the host kept it" });
    await compared.getByText("cloud-init disk, NVRAM").waitFor();
    await compared.getByRole("button", { name: /^Undo/ }).click();
    assert.ok(await dialog.getByRole("button", { name: "Undo" }).isDisabled(), "a reason is needed");
    await dialog.getByLabel("Reason").fill("left over");
    await dialog.getByRole("button", { name: "Undo" }).click();
    await dialog.waitFor({ state: "detached" });
    assert.deepEqual(server.changes.at(-1).body, { correction: "undo", etag: "62b", reason: "left over" });
  });

  await test("a_68_a_slot_whose_disk_is_dead_gets_a_spare_one_before_it_is_approved", async () => {
    await page.goto(`${server.base}/admin/nodes/${nodeId(2)}?tab=topology`);
    const candidates = table("Candidates");
    const second = candidates.getByRole("checkbox", { name: "Candidate 12" });
    await second.waitFor();
    assert.ok(await second.isDisabled(), "its disk is dead");
    await candidates.getByText("Change").nth(1).click();
    await candidates.getByLabel("Disk", { exact: true }).nth(1).selectOption({ label: "/dev/disk/by-id/nvme-eui.spare (3.5 TiB)" });
    await candidates.getByLabel("Wipe policy").nth(1).selectOption("nvme_format");
    assert.ok(await second.isChecked(), "another disk settles it");
    await look("node-choices");
    await page.getByRole("button", { name: "Approve 2" }).click();
    await page.getByRole("alertdialog").getByText("Slot 12 gets disk /dev/disk/by-id/nvme-eui.spare, wipe policy nvme_format.").waitFor();
    await page.getByRole("alertdialog").getByRole("button", { name: "Approve" }).click();
    await page.getByRole("alertdialog").waitFor({ state: "detached" });
    assert.deepEqual(server.changes.at(-1).body, { discovery_id: "d", slot_indexes: [11, 12], choices: [{ slot_index: 12, nvme_device: "/dev/disk/by-id/nvme-eui.spare", destructive_wipe_policy: "nvme_format" }] });
  });

  await test("several slots of a node are disabled together, and reservations of all projects are searched", async () => {
    await go(`/admin/nodes/${nodeId(2)}`, "gpu-02");
    for (const slot of [1, 2]) await page.getByRole("checkbox", { name: `Select slot ${slot}` }).check();
    const group = page.getByRole("group", { name: "Selected slots" });
    assert.ok(await group.getByRole("button", { name: "Repair" }).isDisabled(), "none of them needs a repair");
    await look("slots-selected");
    await group.getByRole("button", { name: "Disable 2" }).click();
    await dialog.getByText("slot 1, slot 2").waitFor();
    await dialog.getByLabel("Reason").fill("dead fans");
    await dialog.getByRole("button", { name: "Disable" }).click();
    // by its text: the open dialog hides what is behind it from roles
    await page.getByText("2 selected").waitFor({ state: "detached" });
    const disabled = server.changes.filter(({ key }) => key.endsWith(":disable") && key.includes("resource-slots"));
    assert.deepEqual(disabled.map(({ body }) => body), [{ reason: "dead fans" }, { reason: "dead fans" }]);
    await go("/admin/reservations", "All reservations");
    await page.getByRole("searchbox").pressSequentially("vision conference-3");
    assert.ok(await hasFocus(), "the box stays while one types");
    await page.getByText("1 reservation", { exact: true }).waitFor();
    await page.getByRole("combobox", { name: "State" }).selectOption("active");
    await page.getByText("No reservation matches").waitFor();
    await page.getByRole("searchbox").fill("no such reservation");
    await page.getByText("No reservation matches").waitFor();
    await look("reservations-none-found");
    await page.getByRole("button", { name: "Clear the filters" }).click();
    await table("All reservations").waitFor();
  });

  await test("nodes as cards and as a dense table; a node is registered and its token shown once", async () => {
    await go("/admin/nodes", "Nodes");
    await page.getByRole("article").first().waitFor();
    await look("nodes-cards");
    await page.getByRole("radio", { name: "Table" }).check({ force: true });
    await table("Nodes").getByRole("link", { name: "gpu-02" }).waitFor();
    await look("nodes-table");
    for (const name of ["gpu-01", "gpu-03"]) await table("Nodes").getByRole("checkbox", { name: `Select ${name}` }).check();
    await page.getByRole("button", { name: "Uncordon 1" }).waitFor();
    await page.getByRole("button", { name: "Cordon 1", exact: true }).click();
    await page.getByRole("alertdialog").getByLabel("Reason").fill("new firmware");
    await look("nodes-selected");
    await page.getByRole("alertdialog").getByRole("button", { name: "Cordon" }).click();
    await page.getByText("2 selected").waitFor({ state: "detached" });
    assert.equal(sent(`POST /api/v1/admin/nodes/${nodeId(1)}:cordon`).reason, "new firmware");
    await page.getByRole("button", { name: "Register a node" }).click();
    await page.getByRole("dialog").getByLabel("Hostname").fill("gpu-05");
    await page.getByRole("dialog").getByRole("button", { name: "Register" }).click();
    await page.getByText("The token is shown once").waitFor();
    await page.getByText("enrol-once-0123456789").waitFor();
    await look("node-token");
    assert.equal(sent("POST /api/v1/admin/nodes").hostname, "gpu-05");
    await page.getByRole("button", { name: "I have saved it" }).click();
    await page.getByText("enrol-once-0123456789").waitFor({ state: "detached" });
  });

  await test("regions are added, edited and closed", async () => {
    await go("/admin/catalog", "Catalog");
    await table("Regions").getByText("This site is being built.").waitFor();
    await look("catalog-regions");
    await page.getByRole("button", { name: "Edit eu-1" }).click();
    await dialog.getByLabel("Open for launches").uncheck();
    await dialog.getByLabel("Reason, shown to users").fill("fire in hall 2");
    await look("catalog-region-edit");
    await dialog.getByRole("button", { name: "Save" }).click();
    await dialog.waitFor({ state: "detached" });
    assert.deepEqual(sent("PUT /api/v1/admin/regions/eu-1"), { code: "eu-1", display_name: "Europe 1", enabled: false, unavailable_reason: "fire in hall 2" });
  });

  await test("SKUs, prices and images", async () => {
    await go("/admin/catalog?tab=skus", "Catalog");
    await table("SKUs").getByText("No price, not offered").waitFor();
    assert.equal(await table("SKUs").locator("td.number .money").getAttribute("title"), "€2.50");
    await look("catalog-skus");
    await page.getByRole("button", { name: "Edit l40s-slice" }).click();
    await dialog.getByLabel("GPU counts").fill("1, x");
    await dialog.getByText("Enter whole numbers").waitFor();
    assert.ok(await dialog.getByRole("button", { name: "Save" }).isDisabled());
    await look("catalog-sku-edit");
    await dialog.getByLabel("GPU counts").fill("4 1 2");
    await dialog.getByRole("button", { name: "Save" }).click();
    await dialog.waitFor({ state: "detached" });
    assert.deepEqual(sent("PUT /api/v1/admin/skus/l40s-slice").allowed_gpu_counts, [1, 2, 4]);
    await page.getByRole("tab", { name: "Prices" }).click();
    await table("Prices").getByText("Current").waitFor();
    const prices = table("Prices").locator(".money");
    assert.deepEqual(await prices.allInnerTexts(), ["€2.5000", "€2.9123", "€0.0400"]);
    assert.equal(await prices.nth(1).getAttribute("title"), "€2.912345678");
    await look("catalog-prices");
    await page.getByRole("combobox", { name: "SKU" }).focus();
    await page.getByRole("combobox", { name: "SKU" }).selectOption("l40s-slice");
    await table("Prices").getByText("h200-sxm-slice").first().waitFor({ state: "detached" });
    assert.equal(await prices.count(), 1);
    assert.ok(await page.getByRole("combobox", { name: "SKU" }).evaluate((one) => one === document.activeElement), "the choice keeps the focus");
    await page.getByRole("combobox", { name: "SKU" }).selectOption("");
    await prices.nth(2).waitFor();
    await page.getByRole("button", { name: "Publish a price" }).click();
    await dialog.getByLabel("Price per GPU-hour").fill("1.25");
    await dialog.getByRole("button", { name: "Publish" }).click();
    await dialog.waitFor({ state: "detached" });
    assert.deepEqual(sent("POST /api/v1/admin/prices").price_per_gpu_hour, { currency_code: "EUR", units: "1", nanos: 250_000_000 });
    await page.getByRole("tab", { name: "Images" }).click();
    await table("Images").getByText("ubuntu-24.04").waitFor();
    await look("catalog-images");
    await page.getByRole("combobox", { name: "Status" }).selectOption("disabled");
    await table("Images").getByText("ubuntu-24.04").waitFor({ state: "detached" });
    await table("Images").getByText("debian-12").waitFor();
    await page.getByRole("searchbox").fill("ubuntu");
    await page.getByText("No image matches").waitFor();
    await look("catalog-images-none-found");
    await page.getByRole("button", { name: "Clear the filters" }).click();
    await table("Images").getByText("ubuntu-24.04").waitFor();
    await page.getByRole("button", { name: "Add an image" }).click();
    await dialog.getByLabel("Slug").fill("cuda-13");
    await dialog.getByLabel("Source").fill("oci://registry.test/images/cuda:13");
    await dialog.getByLabel("L40S slice").check();
    await dialog.getByRole("button", { name: "Add a check" }).click();
    assert.ok(await dialog.getByRole("button", { name: "Add", exact: true }).isDisabled());
    await dialog.getByLabel("Name", { exact: true }).fill("gpus");
    await dialog.getByLabel("Command").fill("nvidia-smi -L");
    await dialog.getByLabel("Once per GPU").check();
    await look("catalog-image-add");
    await dialog.getByRole("button", { name: "Add", exact: true }).click();
    await dialog.waitFor({ state: "detached" });
    assert.deepEqual(sent("POST /api/v1/admin/images").readiness_checks, [{ name: "gpus", command: "nvidia-smi -L", line_per_gpu: true }]);
    await page.getByRole("button", { name: "Activate debian-12" }).click();
    await dialog.getByRole("button", { name: "Activate" }).click();
    await dialog.waitFor({ state: "detached" });
    assert.deepEqual(sent("POST /api/v1/admin/images/debian-12:setStatus"), { status: "active" });
  });

  await test("quotas of all projects are seen and set", async () => {
    await go("/admin/quotas", "Quotas");
    await table("Quotas of projects").getByText("speech").first().waitFor();
    await look("quotas");
    await page.getByRole("button", { name: "Set quota of speech" }).click();
    await dialog.getByLabel("Resource").selectOption({ label: "GPUs of L40S slice" });
    await dialog.getByLabel("Limit").fill("4");
    await dialog.getByRole("button", { name: "Set quota" }).click();
    await dialog.waitFor({ state: "detached" });
    assert.deepEqual(sent(`PUT /api/v1/admin/projects/${SPEECH}/quotas/l40s-slice`), { max_gpus: 4, etag: "q7" });
  });

  await test("a change that somebody else was quicker with is told, and made anew after a reload", async () => {
    const details = [{ "@type": "type.googleapis.com/google.rpc.ErrorInfo", reason: "ETAG_STALE", domain: "gpuaas", metadata: {} }, { "@type": "type.googleapis.com/google.rpc.BadRequest", field_violations: [{ field: "etag", description: "must be the one of the resource as it is now" }] }];
    const stale = { status: 409, json: { error: { code: 409, status: "ABORTED", message: "It was changed after you read it. Read it again, and decide anew.", details } } };
    const address = "**/api/v1/admin/projects/*/priority";
    let now = { priority: "normal", etag: "1" };
    await page.route(address, (route) => {
      if (route.request().method() === "GET") return route.fulfill({ json: now });
      return route.request().postDataJSON().etag === now.etag ? route.fallback() : route.fulfill(stale);
    });
    await go("/admin/capacity?tab=queue", "Capacity");
    await page.getByRole("button", { name: "Change the priority of project vision" }).click();
    await dialog.getByText("Now normal.").waitFor();
    now = { priority: "low", etag: "2" };
    await dialog.getByRole("radio", { name: "High" }).check({ force: true });
    await dialog.getByRole("button", { name: "Set priority" }).click();
    await dialog.getByText("Somebody else changed it meanwhile.").waitFor();
    assert.ok(!(await dialog.innerText()).includes("must be the one"), "what the API says of its field helps nobody");
    await look("priority-stale");
    await dialog.getByRole("button", { name: "Reload" }).click();
    await dialog.getByText("Now low.").waitFor();
    await dialog.getByRole("alert").waitFor({ state: "detached" });
    assert.ok(await dialog.getByRole("radio", { name: "High" }).isChecked(), "what was chosen stays");
    await dialog.getByRole("button", { name: "Set priority" }).click();
    await dialog.waitFor({ state: "detached" });
    assert.deepEqual(server.changes.at(-1).body, { priority: "high", etag: "2" });
    await page.unroute(address);
    await go("/admin/reservations", "All reservations");
    await page.getByRole("button", { name: "Set limit" }).click();
    await dialog.getByLabel("Project").fill("speech");
    await dialog.getByText("Now 16 GPUs; 6 reserved.").waitFor();
    await dialog.getByLabel("Maximum GPUs").fill("24");
    await look("reservation-limit");
    await dialog.getByRole("button", { name: "Set limit" }).click();
    await dialog.waitFor({ state: "detached" });
    assert.deepEqual(sent(`PUT /api/v1/admin/projects/${SPEECH}/reservation-limit`), { max_gpus: 24, etag: "l1" });
  });

  await test("organisations and their projects are made and suspended with a reason", async () => {
    await go("/admin/organisations", "Organisations");
    await table("Projects of acme").getByText("Speech").first().waitFor();
    await look("organisations");
    await page.getByRole("button", { name: "Suspend acme" }).click();
    assert.ok(await dialog.getByRole("button", { name: "Suspend" }).isDisabled(), "a reason is required");
    await dialog.getByLabel("Reason").fill("unpaid");
    await dialog.getByRole("button", { name: "Suspend" }).click();
    await dialog.waitFor({ state: "detached" });
    assert.equal(server.changes.at(-1).body.reason, "unpaid");
    await page.getByRole("button", { name: "Add an organisation" }).click();
    await dialog.getByLabel("Slug").fill("Initech");
    await dialog.getByText("Lowercase letters").waitFor();
    await dialog.getByLabel("Slug").fill("initech");
    await look("organisation-add");
    await dialog.getByRole("button", { name: "Add" }).click();
    await dialog.waitFor({ state: "detached" });
    assert.equal(sent("POST /api/v1/admin/organisations").slug, "initech");
  });

  await test("a refusal says what went wrong and keeps what was typed", async () => {
    await page.route("**/api/v1/admin/projects/*/allocation-limit", (route) =>
      route.fulfill({ status: 400, json: { error: { code: 400, status: "INVALID_ARGUMENT", message: "max_allocations: must be at most 1000", details: [{ "@type": "type.googleapis.com/google.rpc.BadRequest", field_violations: [{ field: "max_allocations", description: "must be at most 1000" }] }] } } }),
    );
    await go("/admin/quotas", "Quotas");
    await page.getByRole("button", { name: "Set quota of vision" }).click();
    await dialog.getByLabel("Limit").fill("5000");
    await dialog.getByRole("button", { name: "Set quota" }).click();
    await dialog.getByRole("alert").getByText("Maximum allocations: must be at most 1000").waitFor();
    assert.ok(!(await dialog.innerText()).includes("max_allocations"), "the field is named as a person knows it");
    assert.equal(await dialog.getByLabel("Limit").inputValue(), "5000");
    await look("quota-refused");
    await page.unroute("**/api/v1/admin/projects/*/allocation-limit");
  });

  await test("operators see the terminals of all projects, found by person, allocation and state", async () => {
    await go("/admin/terminals", "Terminals");
    const all = table("Terminals");
    await all.getByText("user:alice").first().waitFor();
    await all.getByText("SSH tunnel").waitFor();
    // what was opened is named, and leads there
    await all.getByRole("link", { name: "train-large" }).first().waitFor();
    await all.getByRole("link", { name: "vision" }).first().waitFor();
    await look("terminals");
    await page.getByLabel("State", { exact: true }).selectOption("open");
    await page.getByText("1 terminal", { exact: true }).waitFor();
    await page.reload();
    await page.getByText("1 terminal", { exact: true }).waitFor();
    await page.getByLabel("State", { exact: true }).selectOption("");
    await page.getByLabel("Allocation id").fill(allocationId(2));
    await page.getByLabel("Allocation id").press("Enter");
    await page.getByText("1 terminal", { exact: true }).waitFor();
    await page.getByRole("searchbox", { name: "Search by person, project, kind of end or whole id" }).fill("nobody");
    await page.getByText("No terminal matches").waitFor();
    await look("terminals-none-found");
    await page.getByRole("button", { name: "Clear the filters" }).click();
    await page.getByText("3 terminals", { exact: true }).waitFor();
    await page.getByRole("button", { name: "End the terminal of user:alice" }).click();
    const end = page.getByRole("alertdialog");
    assert.ok(await end.getByRole("button", { name: "End", exact: true }).isDisabled(), "a reason is asked for");
    await end.getByLabel("Reason").fill("left open over the weekend");
    await look("terminal-end");
    await end.getByRole("button", { name: "End", exact: true }).click();
    await all.getByText("left open over the weekend").waitFor();
    await all.getByText("Ending").waitFor();
    await all.getByRole("link", { name: "train-large" }).first().click();
    await page.getByRole("heading", { level: 1, name: "train-large" }).waitFor();
    await page.goBack();
    await all.getByRole("link", { name: "vision" }).first().click();
    await page.getByRole("heading", { level: 1, name: "vision" }).waitFor();
  });

  await test("administrators set which issuer the people of an organisation have", async () => {
    await go("/admin/organisations", "Organisations");
    await page.getByRole("button", { name: "Set up SCIM of acme" }).click();
    await dialog.getByText("It keeps 42 now").waitFor();
    assert.ok(await dialog.getByRole("button", { name: "Save" }).isDisabled(), "nothing is changed yet");
    await dialog.getByLabel("Issuer").fill("login");
    await dialog.getByText("The issuer is a URL").waitFor();
    await dialog.getByLabel("Issuer").fill("https://login.acme.example/new");
    await dialog.getByLabel("Subject of the tokens").selectOption("external_id");
    await look("scim-set");
    await dialog.getByRole("button", { name: "Save" }).click();
    await dialog.waitFor({ state: "detached" });
    assert.match(server.changes.at(-1).key, /^PUT \/api\/v1\/admin\/organisations\/[^/]+\/scim$/);
    assert.deepEqual(server.changes.at(-1).body, { issuer: "https://login.acme.example/new", subject_attribute: "external_id", etag: "s1" });
  });

  await test("operators run the platform and auditors read it: nobody is offered what would be refused", async () => {
    const menu = page.getByRole("navigation", { name: "Main" });
    const buttons = async (path, heading, shown) => {
      await go(path, heading);
      await shown.first().waitFor();
      return page.locator("main").getByRole("button").allInnerTexts();
    };
    const seen = {};
    for (const role of ["auditor", "operator"]) {
      await signIn(role);
      await go("/admin", "Platform overview");
      assert.equal(await menu.getByRole("link").count(), 22, "all pages of the platform are read");
      await page.getByText(role, { exact: true }).waitFor();
      await look(`menu-${role}`);
      seen[role] = [
        ...(await buttons("/admin/nodes", "Nodes", page.getByRole("article"))),
        ...(await buttons("/admin/quotas", "Quotas", table("Quotas of projects"))),
        ...(await buttons("/admin/allocations", "All allocations", table("All allocations"))),
        ...(await buttons("/admin/catalog?tab=images", "Catalog", table("Images"))),
        ...(await buttons("/admin/organisations", "Organisations", table("Projects of acme"))),
      ].map((text) => text.trim());
    }
    const offered = (role) => ["Register a node", "Release", "Activate", "Set quota", "Suspend"].filter((word) => seen[role].includes(word));
    assert.deepEqual([offered("auditor"), offered("operator")], [[], ["Register a node", "Release", "Activate"]]);
    await signIn("admin");
  });

  await test("in a low window the places scroll, and signing out stays in sight", async () => {
    await page.setViewportSize({ width: 1280, height: 640 });
    await go("/admin", "Platform overview");
    const box = await page.getByRole("button", { name: "Sign out" }).boundingBox();
    assert.ok(box.y + box.height <= 640, `it ends at ${box.y + box.height}`);
    await page.getByRole("link", { name: "Audit", exact: true }).click();
    await page.getByRole("heading", { level: 1, name: "Audit" }).waitFor();
    await look("low-window");
    await page.setViewportSize({ width: 1440, height: 900 });
  });

  await test("a project is chosen by its name", async () => {
    await go("/admin/reservations/new", "Reserve GPUs");
    const project = page.getByLabel("Project", { exact: true });
    assert.equal(await project.inputValue(), "vision", "no id where there is a name");
    await project.fill("speech");
    await page.getByLabel("GPUs", { exact: true }).fill("1");
    await page.getByRole("button", { name: "Reserve", exact: true }).click();
    await page.waitForFunction(() => !document.querySelector("form [aria-busy=true]"));
    const change = server.changes.findLast(({ key }) => key === "POST /api/v1/admin/capacity-reservations");
    assert.equal(change?.body.config.project_id, SPEECH);
  });

  await test("a rollout says why it stopped, node by node, and goes on", async () => {
    await go("/admin/agent-rollouts", "Agent rollouts");
    await page.getByRole("searchbox").pressSequentially("security olga");
    assert.ok(await hasFocus(), "the box stays while one types");
    await page.getByText("1 rollout", { exact: true }).waitFor();
    await look("rollouts-found");
    await page.getByRole("combobox", { name: "State" }).selectOption("completed");
    await page.getByText("No rollout matches").waitFor();
    await look("rollouts-none-found");
    await page.getByRole("button", { name: "Clear the filters" }).click();
    await page.getByRole("link", { name: "0.9.1" }).click();
    await page.getByText("the package has another digest").waitFor();
    await page.getByText("1 node failed, 0 are allowed").waitFor();
    await page.getByRole("button", { name: "Resume" }).click();
    await dialog.getByLabel("Reason").fill("the package was put right");
    await dialog.getByRole("button", { name: "Resume" }).click();
    await dialog.waitFor({ state: "detached" });
    assert.equal(server.changes.at(-1).body.reason, "the package was put right");
  });
}
