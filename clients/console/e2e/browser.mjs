// A real Chromium with nothing of its own on the network, and small helpers around it.
import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";

const EXECUTABLE = "/usr/bin/chromium";
const ARGUMENTS = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--no-first-run",
  "--disable-quic",
];

export async function start() {
  if (!existsSync(EXECUTABLE)) throw new Error(`${EXECUTABLE} is missing: apt-get install chromium`);
  return chromium.launch({ executablePath: EXECUTABLE, args: ARGUMENTS });
}

/** A page that fails the test when the console throws, or breaks its content policy. */
export async function open(browser, options = {}) {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 860 },
    permissions: ["clipboard-read", "clipboard-write"],
    ...options,
  });
  // the connections of terminals and the streams of watches, so that one can be cut: going offline alone leaves open
  // what is open
  await context.addInitScript(() => {
    const Plain = window.WebSocket;
    window.sockets = [];
    const ask = window.fetch;
    window.cuts = [];
    window.fetch = (input, init) => {
      if (!(input instanceof Request) || input.headers.get("accept") !== "application/x-ndjson") return ask(input, init);
      const cut = new AbortController();
      window.cuts.push(cut);
      return ask(input, { ...init, signal: AbortSignal.any([input.signal, cut.signal]) });
    };
    window.WebSocket = class extends Plain {
      constructor(...given) {
        super(...given);
        window.sockets.push(this);
      }
    };
  });
  const page = await context.newPage();
  page.faults = [];
  page.on("pageerror", (error) => page.faults.push(String(error)));
  page.on("console", (message) => {
    if (message.type() === "error" && !message.text().startsWith("Failed to load resource")) page.faults.push(message.text());
  });
  page.setDefaultTimeout(15_000);
  return page;
}

export function camera(folder) {
  mkdirSync(folder, { recursive: true });
  return (page, name, options = {}) => page.screenshot({ path: join(folder, `${name}.png`), animations: "disabled", ...options });
}
