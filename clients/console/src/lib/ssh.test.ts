import { describe, expect, it } from "vitest";
import { keyProblem, keyText, keysOf, knownHosts, sshCommand } from "./ssh";

const KEY = `ssh-ed25519 ${"A".repeat(68)} me@example.com`;

describe("ssh", () => {
  it("takes keys line by line", () => {
    expect(keysOf(` ${KEY}\n\n# old\n${KEY}\n`)).toEqual([KEY, KEY]);
  });

  it("tells keys from other text", () => {
    expect(keyProblem(KEY)).toBeUndefined();
    expect(keyProblem("-----BEGIN OPENSSH PRIVATE KEY-----")).toContain("private");
    expect(keyProblem("ssh-ed25519 AAAA")).toContain("not an OpenSSH public key");
  });

  it("tells a key from others by its kind, its end and its comment", () => {
    expect(keyText(KEY)).toBe("ssh-ed25519 …AAAAAAAA me@example.com");
    expect(keyText(KEY.replace(" me@example.com", ""))).toBe("ssh-ed25519 …AAAAAAAA");
  });

  it("names the port only when it is not the usual one", () => {
    const access = { guest_user: "u_1", ssh_host: "10.0.0.1", ssh_host_port: 22000, ssh_host_keys: ["ssh-ed25519 AAAA"] };
    expect(sshCommand(access)).toBe("ssh -p 22000 u_1@10.0.0.1");
    expect(sshCommand({ ...access, ssh_host_port: 22 })).toBe("ssh u_1@10.0.0.1");
    expect(knownHosts(access)).toBe("[10.0.0.1]:22000 ssh-ed25519 AAAA");
  });
});
