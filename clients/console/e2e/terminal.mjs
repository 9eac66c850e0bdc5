// A terminal in the page: typing, size, a cut connection, the recording.
import assert from "node:assert/strict";
import { accessible } from "./accessible.mjs";
import { page, shot, test } from "./world.mjs";

const rows = page.locator(".screen .xterm-rows");
const type = (line) => page.keyboard.type(`${line}\n`);
let asked = 0;

async function shellSize() {
  asked += 1;
  await type(`set -- $(stty size); echo size-${asked}: $1 x $2 .`);
  const line = await rows.getByText(new RegExp(`size-${asked}: \\d+ x \\d+ \\.`)).textContent();
  return /: (\d+ x \d+) /.exec(line)?.[1];
}

export async function terminal() {
  let recorded = false;

  await test("f_05_a_terminal_is_ready_and_shows_output", async () => {
    await page.getByRole("button", { name: "Terminal" }).click();
    await page.getByText("Connected", { exact: true }).waitFor();
    await type("echo out-$((20+3)); uname -s");
    await rows.getByText("out-23").waitFor();
    recorded = await page.getByText("Recorded").isVisible();
  });

  await test("a resize reaches the shell", async () => {
    const wide = await shellSize();
    await page.setViewportSize({ width: 1000, height: 760 });
    let narrow = wide;
    for (let attempt = 0; narrow === wide && attempt < 20; attempt++) narrow = await shellSize();
    assert.notEqual(narrow, wide);
    console.log(`      ${wide}, then ${narrow}`);
    await page.setViewportSize({ width: 1280, height: 860 });
  });

  await test("every row of a terminal is in sight, at every size", async () => {
    for (const size of [{ width: 1280, height: 720 }, { width: 1440, height: 900 }, { width: 390, height: 844 }, { width: 1280, height: 860 }]) {
      await page.setViewportSize(size);
      await page.waitForFunction(() => {
        const frame = document.querySelector(".screen").getBoundingClientRect();
        const rows = [...document.querySelectorAll(".screen .xterm-rows > div")].at(-1).getBoundingClientRect();
        return rows.bottom <= frame.bottom && rows.bottom > frame.bottom - 60;
      });
      await shot(`terminal-${size.width}x${size.height}`);
    }
  });

  await test("a reload goes on with the same shell and what was on the screen", async () => {
    await type("kept=$((40+1)); echo shown-$((kept+1))");
    await rows.getByText("shown-42").waitFor();
    await page.reload();
    await page.getByText("Connected", { exact: true }).waitFor();
    await rows.getByText("shown-42").waitFor();
    await page.locator(".screen").click();
    await type("echo still-$((kept+2))");
    await rows.getByText("still-43").waitFor();
  });

  await test("a cut connection is resumed without loss", async () => {
    await type("clear; n=1; while [ $n -le 40 ]; do echo count-$n; n=$((n+1)); sleep 0.1; done; echo all-$((n-1))");
    await rows.getByText("count-3", { exact: false }).first().waitFor();
    await page.evaluate(() => window.sockets.at(-1).close());
    await page.getByText("Disconnected").waitFor();
    await shot("terminal-lost");
    await page.getByText("Connected", { exact: true }).waitFor();
    await rows.getByText("all-40").waitFor();
    assert.equal(await page.locator(".screen").getAttribute("data-dropped"), "0");
    await type("clear; uname -a; free -m; uptime");
    await rows.getByText("load average").waitFor();
    await shot("terminal");
    await accessible(page, "an allocation with a terminal");
  });

  await test("the shell ends on exit", async () => {
    await type("exit");
    await page.getByText("Ended", { exact: true }).waitFor();
    await page.locator("#terminal-close").click();
  });

  if (!recorded) return;
  await test("the recording is replayed", async () => {
    await page.getByRole("button", { name: "Replay" }).click();
    await page.getByRole("radio", { name: "4×" }).check({ force: true });
    await page.locator(".replay .xterm-rows").getByText("out-23").waitFor();
    await page.locator(".replay .xterm-rows").getByText("count-9").waitFor();
    await shot("replay");
    await accessible(page, "a replay");
    await page.getByRole("button", { name: "Close" }).click();
  });
}
