/** The same launch as a command and as a call of the API. Neither has the token in it. */
import type { PlacementConstraints } from "../../api/types";
import { keyText } from "../../lib/ssh";
import { waitFor } from "./choice";
import type { Order } from "./use-launch";

/** A word as a shell takes it. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
}

function placementFlags(placement: PlacementConstraints | undefined): string[][] {
  const { affinity, affinity_label, anti_affinity = [], anti_affinity_label, require_prewarmed } = placement ?? {};
  return [
    ...(affinity ? [["--affinity", affinity]] : []),
    ...(affinity_label ? [["--affinity-label", affinity_label]] : []),
    ...anti_affinity.map((id) => ["--anti-affinity", id]),
    ...(anti_affinity_label ? [["--anti-affinity-label", anti_affinity_label]] : []),
    ...(require_prewarmed ? [["--require-prewarmed"]] : []),
  ];
}

/** The file that a pasted key has to be in: which one it has on the reader's machine is not known here. */
function fileOf(number: number): string {
  return `./pasted-key-${number + 1}.pub`;
}

/** Kept keys by their names, each pasted one as a file. */
function keyFlags({ ssh_key_names = [], ssh_public_keys = [] }: Order["each"]): string[][] {
  return [...ssh_key_names, ...ssh_public_keys.map((_, number) => fileOf(number))].map((key) => ["--ssh-key", key]);
}

/** What the files of the command stand for. No comment of the command itself: not every shell takes one that is typed. */
export function keyNotes({ ssh_public_keys = [] }: Order["each"]): string[] {
  return ssh_public_keys.map((key, number) => `${fileOf(number)} is a placeholder for the pasted key ${keyText(key)}: save the key in this file, or name the file that has it.`);
}

/** The text as the input of a command: up to a line that is not in it. */
function asInput(text: string): string {
  const lines = text.split("\n");
  let end = "END";
  while (lines.includes(end)) end += "_";
  return ` << '${end}'\n${text}${text.endsWith("\n") ? "" : "\n"}${end}`;
}

/** `name` is the common part of the names; `project` the slug or id, when it must be said. */
export function cliOf({ names, each, waitHours }: Order, name: string, project?: string): string {
  const flags = [
    ["--sku", each.sku],
    ["--gpus", String(each.gpu_count)],
    ["--image", each.image],
    ["--region", each.region_code],
    ["--name", name],
    ...(names.length > 1 ? [["--count", String(names.length)]] : []),
    ...keyFlags(each),
    ...Object.entries(each.labels ?? {}).map(([key, value]) => ["--label", `${key}=${value}`]),
    ...placementFlags(each.placement),
    ...(each.termination_protection ? [["--protect"]] : []),
    ...(each.auto_release_time ? [["--release-at", each.auto_release_time]] : []),
    ...(waitHours === undefined ? [] : [["--wait-for-capacity", `${waitHours}h`]]),
    ...(project ? [["--project", project]] : []),
    ...(each.user_data ? [["--user-data", "-"]] : []),
  ];
  const text = ([flag = "", value]: string[]) => (value === undefined ? flag : `${flag} ${quoted(value)}`);
  return ["gpuaas launch", ...flags.map(text)].join(" \\\n  ") + (each.user_data ? asInput(each.user_data) : "");
}

/** `base` is where the console was loaded from, which serves the API too. */
export function curlOf({ project_id, names, each, waitHours }: Order, base: string, now: number): string {
  const how = waitHours === undefined ? {} : { wait: waitFor(waitHours, now) };
  const [path, body] =
    names.length === 1
      ? ["/api/v1/allocations", { ...each, name: names[0], project_id, ...how }]
      : ["/api/v1/allocations:batchCreate", { project_id, allocations: names.map((name) => ({ ...each, name })), ...how }];
  return [
    `curl --fail-with-body ${quoted(base + path)}`,
    '-H "Authorization: Bearer $GPUAAS_TOKEN"',
    '-H "X-Idempotency-Key: $(uuidgen)"',
    "-H 'Content-Type: application/json'",
    `-d ${quoted(JSON.stringify(body, null, 2))}`,
  ].join(" \\\n  ");
}
