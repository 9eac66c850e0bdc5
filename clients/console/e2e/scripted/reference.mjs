// The page of the API reference, as the gateway serves it, with the document of this repository.
export async function reference({ assert, page, server, test, look, go, signIn }) {
  const visible = () => page.locator("#groups details:visible").count();

  await test("the reference is found, searched and linked to", async () => {
    await page.setViewportSize({ width: 1440, height: 900 });
    await go("/reference", "API reference");
    // the document is read after the page
    await page.locator("#groups details").first().waitFor();
    const all = await visible();
    assert.ok(all > 80, `${all} operations`);
    assert.equal(await page.locator("#count").textContent(), `${all} of ${all} operations`);
    await page.getByLabel("Find operations").fill("post allocations stop");
    const some = await visible();
    assert.ok(some > 0 && some < 10, `${some} operations`);
    await page.locator("details:visible summary").first().click();
    await page.getByRole("heading", { name: "As a command" }).waitFor();
    assert.match(await page.locator("details[open] pre").last().textContent(), /X-Idempotency-Key: .*uuidgen/);
    await page.getByLabel("Find operations").fill("");
    assert.equal(await visible(), all);
    await page.goto(`${server.base}/reference#AllocationService_ListAllocations`);
    const list = page.locator("#AllocationService_ListAllocations");
    for (const name of ["filter", "order_by", "read_mask", "page_token"]) await list.getByText(name, { exact: true }).first().waitFor();
    await list.getByRole("link", { name: "allocation.ListAllocationsResponse" }).click();
    await page.locator("[id='schema-allocation.ListAllocationsResponse']").getByText("next_page_token").waitFor();
    await look("reference");
    await page.emulateMedia({ colorScheme: "dark" });
    await look("reference-dark");
    await page.emulateMedia({ colorScheme: null });
  });

  await test("the console links to the reference", async () => {
    await signIn(false);
    await go("/overview", "Overview");
    await page.getByRole("link", { name: "API reference" }).click();
    await page.getByRole("heading", { level: 1, name: "API reference" }).waitFor();
  });
}
