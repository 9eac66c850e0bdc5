/** How to log in, and what a public key looks like. */
import type { Access } from "../api/types";

const KEY = /^(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)|sk-ssh-ed25519@openssh\.com|sk-ecdsa-sha2-nistp256@openssh\.com) [A-Za-z0-9+/]{40,}={0,2}( .*)?$/;

/** The keys of a text with one key per line. */
export function keysOf(text: string): string[] {
  return text.split("\n").map((line) => line.trim()).filter((line) => line !== "" && !line.startsWith("#"));
}

/** Why a line is not a public key; `undefined` when it is one. */
export function keyProblem(line: string): string | undefined {
  if (line.includes("PRIVATE KEY")) return "This is a private key. Never share it. Paste the file that ends in .pub.";
  return KEY.test(line) ? undefined : `“${line.slice(0, 24)}${line.length > 24 ? "…" : ""}” is not an OpenSSH public key.`;
}

/** A public key as people tell it from others: its kind, its end and its comment. */
export function keyText(key: string): string {
  const [kind = "", body = "", ...comment] = key.split(" ");
  return [kind, `…${body.slice(-8)}`, ...comment].join(" ").trim();
}

export function sshCommand(access: Access): string {
  const port = access.ssh_host_port ?? 22;
  return `ssh ${port === 22 ? "" : `-p ${port} `}${access.guest_user}@${access.ssh_host}`;
}

/** Lines for `known_hosts`, so that the first login already knows the guest. */
export function knownHosts(access: Access): string {
  const port = access.ssh_host_port ?? 22;
  const host = port === 22 ? access.ssh_host : `[${access.ssh_host}]:${port}`;
  return (access.ssh_host_keys ?? []).map((key) => `${host} ${key}`).join("\n");
}
