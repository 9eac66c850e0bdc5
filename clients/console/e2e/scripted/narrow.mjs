// What only a narrow screen shows.
import { nodeId } from "./world.mjs";

export async function narrow({ assert, page, test, go, signIn, take }) {
  await signIn("admin");
  const hidden = () =>
    [...document.querySelectorAll("[aria-current=page], [role=tab][data-state=active]")].filter((e) => {
      const [own, row] = [e.getBoundingClientRect(), e.parentElement.getBoundingClientRect()];
      return own.left < row.left - 1 || own.right > row.right + 1 || own.left < 0 || own.right > innerWidth;
    }).length;

  await test("on a phone the menu and the tabs show where one is", async () => {
    const places = [
      ["/admin/capacity?tab=baremetal", "Capacity"],
      [`/admin/nodes/${nodeId(1)}?tab=evacuation`, "gpu-01"],
      ["/project?tab=settings", "Project vision"],
    ];
    for (const [path, title] of places) {
      await page.setViewportSize({ width: 390, height: 844 });
      await go(path, title);
      await page.getByRole("tab", { selected: true }).waitFor();
      await take(page, `narrow-${title.replace(/\W+/g, "-").toLowerCase()}`);
      assert.equal(await page.evaluate(hidden), 0, path);
      assert.equal(await page.evaluate(() => scrollY), 0, `${path} begins at its top`);
    }
    // a phone that is turned, while one reads further below
    await page.setViewportSize({ width: 844, height: 390 });
    await page.evaluate(() => scrollTo(0, 200));
    const from = await page.evaluate(() => scrollY);
    await page.setViewportSize({ width: 390, height: 390 });
    await page.waitForFunction(() => innerWidth === 390);
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
    assert.equal(await page.evaluate(hidden), 0, "the phone was turned");
    assert.ok(from > 0 && (await page.evaluate(() => scrollY)) > 0, "the page does not scroll with it");
  });

  await test("on a phone a title of two lines makes its cell as high", async () => {
    await page.setViewportSize({ width: 390, height: 844 });
    await go("/admin/capacity?tab=queue", "Capacity");
    const cell = page.getByRole("table", { name: "Queue" }).getByRole("cell", { name: "gpu-01" });
    await cell.waitFor();
    await take(page, "narrow-queue");
    const [own, next] = await cell.evaluate((e) => {
      const title = getComputedStyle(e, "::before");
      const probe = document.createElement("div");
      Object.assign(probe.style, { font: title.font, lineHeight: title.lineHeight, width: title.width });
      probe.textContent = JSON.parse(title.content);
      document.body.append(probe);
      const height = probe.offsetHeight;
      probe.remove();
      return [e.offsetHeight, height];
    });
    assert.ok(next > 30, `the title has two lines: ${next}`);
    assert.ok(own >= next, `a cell of ${own} for a title of ${next}`);
  });
}
