// Lists that are longer than a page: the rest is shown on demand, and the server searches.
export async function pages({ assert, page, server, test, look, go, signIn }) {
  const table = (name) => page.getByRole("table", { name });
  const dialog = page.getByRole("alertdialog");
  const person = (number) => ({ member_id: `m-${number}`, principal: `user:p${number}`, display_name: `Person ${number}`, email: `p${number}@example.com`, role: "member", kind: "user", etag: `e${number}`, create_time: new Date().toISOString() });
  const people = Array.from({ length: 501 }, (_, index) => person(index + 1));

  /** The page that a request asks for, of all rows that its filter keeps. */
  function paged(route, field, rows) {
    const { searchParams } = new URL(route.request().url());
    const part = /principal:"([^"]*)"/.exec(searchParams.get("filter") ?? "")?.[1];
    const kept = part ? rows.filter(({ principal }) => principal.includes(part)) : rows;
    const from = Number(searchParams.get("page_token") || 0);
    const to = from + Number(searchParams.get("page_size"));
    return route.fulfill({ json: { [field]: kept.slice(from, to), next_page_token: to < kept.length ? String(to) : "" } });
  }

  await test("the 501st member is found by the server's search, and removed", async () => {
    await signIn(undefined, "owner");
    await page.route("**/api/v1/projects/*/members?*", (route) => paged(route, "members", people));
    await go("/project", "Project vision");
    await table("Members").getByText("Person 100", { exact: true }).waitFor();
    await page.getByText("100 members, and more").waitFor();
    await page.getByRole("button", { name: "Show more" }).click();
    await table("Members").getByText("Person 200", { exact: true }).waitFor();
    assert.equal(await table("Members").getByText("Person 501").count(), 0);
    await page.getByRole("searchbox", { name: "Search by name, principal or email" }).fill("p501");
    await page.getByRole("button", { name: "Remove Person 501" }).click();
    await dialog.getByRole("button", { name: "Remove" }).click();
    await dialog.waitFor({ state: "detached" });
    assert.match(server.changes.at(-1).key, /^DELETE .*\/members\/m-501$/);
    await look("members-found");
    await page.getByRole("searchbox").fill("nobody");
    await page.getByText("No member matches").waitFor();
    await look("members-none-found");
    // a text that the API would refuse as a filter
    await page.getByRole("searchbox").fill("a long text ".repeat(30));
    await page.getByText("A search has at most 120 characters.").waitFor();
    assert.equal((await page.getByRole("searchbox").inputValue()).length, 120);
    await page.getByText("No member matches").waitFor();
    await look("members-long-search");
    await page.getByRole("button", { name: "Clear the search" }).click();
    await table("Members").getByText("Person 1", { exact: true }).waitFor();
    await page.unroute("**/api/v1/projects/*/members?*");
  });

  await test("service accounts and groups of a later page are shown on demand", async () => {
    const accounts = Array.from({ length: 101 }, (_, index) => ({ id: `a-${index + 1}`, project_id: "p", slug: `robot-${index + 1}`, role: "member", principal: `sa:${index + 1}` }));
    const groups = Array.from({ length: 101 }, (_, index) => ({ id: `g-${index + 1}`, display_name: `group-${index + 1}`, member_count: 1, mappings: [] }));
    await page.route("**/service-accounts?*", (route) => paged(route, "service_accounts", accounts));
    await page.route("**/scim/groups?*", (route) => paged(route, "groups", groups));
    await go("/api-keys", "Service accounts");
    await page.getByText("100 service accounts, and more").waitFor();
    await page.getByRole("button", { name: "Show more" }).click();
    await page.getByRole("heading", { name: "robot-101" }).waitFor();
    await go("/organisation?tab=groups", "Organisation");
    await page.getByText("100 groups, and more").waitFor();
    await page.getByRole("button", { name: "Show more" }).click();
    await table("Groups").getByText("group-101", { exact: true }).waitFor();
    await page.unroute("**/service-accounts?*");
    await page.unroute("**/scim/groups?*");
  });
}
