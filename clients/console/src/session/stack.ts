/** The code of a development stack, which only its owner can read: kept in this browser, exchanged for a ticket per sign-in. */
import { request } from "../api/client";

const CODE_KEY = "gpuaas.sign-in-code";
const FRAGMENT = "#sign-in=";
let cameByLink = false;

/** The link that `make status` prints carries the code where no server sees it. */
function codeOfLink(): void {
  if (typeof location === "undefined" || !location.hash.startsWith(FRAGMENT)) return;
  keep(decodeURIComponent(location.hash.slice(FRAGMENT.length)));
  cameByLink = true;
  history.replaceState(null, "", location.pathname + location.search);
}

function keep(code: string): void {
  try {
    if (code) localStorage.setItem(CODE_KEY, code);
    else localStorage.removeItem(CODE_KEY);
  } catch {
    // without storage every sign-in asks for it
  }
}

function kept(): string {
  try {
    return localStorage.getItem(CODE_KEY) ?? "";
  } catch {
    return "";
  }
}

codeOfLink();

/** Whether this page was opened by the link, which means to sign in; true once. */
export function takeLink(): boolean {
  const came = cameByLink;
  cameByLink = false;
  return came;
}

/** What stands for the code at the issuer's page; nothing when the code is not known, and the page asks for it. */
export async function ticket(): Promise<string | undefined> {
  const code = kept();
  if (!code) return undefined;
  try {
    const given = await request<{ ticket: string }>("/dev/ticket", { method: "POST", body: new URLSearchParams({ code }) });
    return given.ticket;
  } catch {
    // of a stack that is gone
    keep("");
    return undefined;
  }
}

/** Leads from the address that a program shows to the issuer's page, without typing the code of the stack. */
export async function confirmDevice(): Promise<void> {
  const page = new URL("/dev/device", location.origin);
  page.searchParams.set("user_code", new URLSearchParams(location.search).get("user_code") ?? "");
  const given = await ticket();
  if (given) page.searchParams.set("ticket", given);
  location.replace(page);
}
