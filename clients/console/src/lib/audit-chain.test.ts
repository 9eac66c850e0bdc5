import { expect, it } from "vitest";
import type { AuditRecord } from "../api/audit";
import { Chain, type Expected, digestOf, headText, headsOf } from "./audit-chain";

const GENESIS = { position: 0, digest: "0".repeat(64) };

/** Records of a sound chain. */
async function records(count: number, change: (record: AuditRecord) => AuditRecord = (record) => record): Promise<AuditRecord[]> {
  const made: AuditRecord[] = [];
  let before = GENESIS.digest;
  for (let position = 1; position <= count; position++) {
    const record = change({ id: `id-${position}`, source: "edge", service: "edge", principal: "user:zoë", create_time: "2026-01-01T00:00:00.120Z", action: "a.b", resource: "c", resource_id: "d\u0001", address: "192.0.2.1", user_agent: 'curl/8 "x"', detail: "{}", position: String(position), outcome: "denied" });
    before = await digestOf(before, record);
    made.push({ ...record, digest: before });
  }
  return made;
}

async function found(all: AuditRecord[], expected: Expected[] = []) {
  const chain = new Chain("edge", GENESIS, expected);
  for (const record of all) await chain.add(record);
  return chain.finish();
}

const headOf = ({ position, digest = "" }: AuditRecord): Expected => ({ source: "edge", position: Number(position), digest });

it("p10_a_digest_is_the_one_that_the_service_makes", async () => {
  // the known value of the service's own test
  const record: AuditRecord = { id: "01930000-0001-7000-8000-000000000001", source: "billing", service: "billing", create_time: "2026-01-01T00:00:00.120Z", principal: "user:zoë", action: "price.create", resource: "price_version", resource_id: 'p\u0001"\\', request_id: "r", address: "192.0.2.1", user_agent: "curl/8", region: "r1", detail: '{"sku": "a\\nb"}', position: "1" };
  expect(await digestOf(GENESIS.digest, record)).toBe("9cd51cd4bc446c35b362c35cc0b5eb69ccfcec42c53f10f31c859c079e826709");
});

it("p10_what_was_done_to_a_chain_is_named", async () => {
  const sound = await records(6);
  const last = headOf(sound[5]!);
  expect(await found(sound, [last])).toEqual({ source: "edge", records: 6, head: { position: last.position, digest: last.digest }, findings: [] });
  const swapped = sound.map((record, index) => (index === 2 ? { ...record, position: "4", digest: sound[3]!.digest } : index === 3 ? { ...record, position: "3", digest: sound[2]!.digest } : record));
  [swapped[2], swapped[3]] = [swapped[3]!, swapped[2]!];
  const table: [AuditRecord[], string[]][] = [
    [sound.map((record, index) => (index === 2 ? { ...record, principal: "user:bob" } : record)), ["record id-3 at position 3 does not match"]],
    [sound.toSpliced(2, 1), ["the record at position 3 is missing; the next one is id-4"]],
    [sound.toSpliced(1, 3), ["the records at positions 2 to 4 are missing"]],
    [swapped, ["record id-4 at position 3 does not", "record id-3 at position 4 does not"]],
    [[...sound.slice(0, 2), sound[3]!, sound[2]!, ...sound.slice(4)], ["the record at position 3 is missing", "record id-3 at position 3 is out of order"]],
    [sound.slice(0, 4), ["the chain ends at position 4, but position 6 is expected"]],
    [sound.with(5, { ...sound[5]!, digest: "" }), ["record id-6 has no position or no digest", "the chain ends at position 5"]],
  ];
  for (const [all, expected] of table) {
    const { findings } = await found(all, [last]);
    expect(findings).toHaveLength(expected.length);
    for (const [index, part] of expected.entries()) expect(findings[index]).toContain(part);
  }
});

it("p10_a_chain_that_was_written_anew_is_not_the_one_that_was_noted", async () => {
  const noted = headOf((await records(3))[1]!);
  const forged = await records(3, (record) => (record.id === "id-2" ? { ...record, principal: "user:bob" } : record));
  expect((await found(forged)).findings).toEqual([]);
  expect((await found(forged, [noted])).findings).toEqual(["edge: the digest at position 2 differs from the checkpoint: the chain was rewritten"]);
  // of another source it says nothing
  expect((await found(forged, [{ ...noted, source: "billing" }])).findings).toEqual([]);
});

it("heads are read as the command prints them", () => {
  const digest = "ab".repeat(32);
  expect(headText({ source: "edge", position: 7, digest })).toBe(`edge:7:${digest}`);
  expect(headsOf(` edge:7:${digest}\n billing:0:${digest} `)).toEqual([{ source: "edge", position: 7, digest }, { source: "billing", position: 0, digest }]);
  expect(headsOf("")).toEqual([]);
  for (const bad of ["edge", "edge:7", "edge:x:00", `:7:${digest}`, `edge:7:${digest.toUpperCase()}`, `edge:7:${digest} nonsense`]) expect(headsOf(bad)).toBeUndefined();
});
