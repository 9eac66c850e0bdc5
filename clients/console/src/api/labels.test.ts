import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { inWords, labelOf, ownField } from "./labels";

interface Schema {
  $ref?: string;
  items?: Schema;
  properties?: Record<string, Schema>;
}
interface Operation {
  parameters?: { name?: string; in?: string }[];
  requestBody?: { content: { "application/json": { schema: Schema } } };
}

const SOURCES = new URL("..", import.meta.url).pathname;
const document = JSON.parse(readFileSync(join(SOURCES, "../../../docs/reference/openapi.json"), "utf8")) as { paths: Record<string, Record<string, Operation>>; components: { schemas: Record<string, Schema> } };

/** Every field of a body, those in it with their path. */
function fieldsOf({ $ref, items, properties = {} }: Schema, depth = 0): string[] {
  if ($ref) return fieldsOf(document.components.schemas[$ref.split("/").at(-1) ?? ""] ?? {}, depth);
  if (items) return fieldsOf(items, depth);
  return Object.entries(properties).flatMap(([name, inner]) => [name, ...(depth < 4 ? fieldsOf(inner, depth + 1).map((field) => `${name}${inner.items ? "[0]" : ""}.${field}`) : [])]);
}

/** The addresses that the console calls, as patterns: what is put into one at run time is any text. */
function called(): RegExp[] {
  const files = readdirSync(SOURCES, { recursive: true, encoding: "utf8" }).filter((path) => /\.tsx?$/.test(path) && !/\.test\.|schema\.d\.ts/.test(path));
  const text = files.map((path) => readFileSync(join(SOURCES, path), "utf8")).join("\n");
  return [...text.matchAll(/["`](?:\$\{PATHS\[side\]\}|\/api\/v1\/)([^"`]*)["`]/g)].map(([, rest = ""]) => {
    const parts = rest.split(/\$\{[^}]*\}/).map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
    return new RegExp(`^/api/v1/${parts.join(".+")}$`);
  });
}

it("every field that a form of the console can be refused for has a label", () => {
  const patterns = called();
  // the console shows reports of hosts, and attaches none
  const operations = Object.entries(document.paths).flatMap(([path, methods]) => (!path.endsWith("/host-reports") && patterns.some((pattern) => pattern.test(path)) ? Object.values(methods) : []));
  const fields = operations.flatMap(({ parameters = [], requestBody }) => [
    ...parameters.filter((one) => one.in === "path" || one.in === "query").map(({ name = "" }) => name),
    ...(requestBody ? fieldsOf(requestBody.content["application/json"].schema) : []),
  ]);
  for (const known of ["max_allocations", "profile.memory_mib_per_gpu", "auto_release_time", "display_name", "allocations[0].wait.deadline", "config.release_unused_after_seconds"]) expect(fields).toContain(known);
  const raw = [...new Set(fields)].filter((field) => labelOf(field) === ownField(field));
  expect(raw).toEqual([]);
});

it("fields are named as the form names them, whichever message they are of", () => {
  const named = ["gpu_count", "allocations[2].image_digest", "config.end_time", "ssh_public_keys[1]", "sku.profile.memory_mib_per_gpu", "sku.profile.name", "region.unavailable_reason", "placement.affinity", "other"].map(labelOf);
  expect(named).toEqual(["GPUs", "Image", "End", "SSH public keys, number 2", "Memory per GPU", "Profile", "Reason, shown to users", "Affinity", "other"]);
});

it("a sentence names fields too, and leaves every other word as it is", () => {
  expect(inWords("must be after start_time")).toBe("must be after Start");
  expect(inWords("must be gpu_slice or baremetal, and not h200_sxm of eu-1")).toBe("must be gpu_slice or baremetal, and not h200_sxm of eu-1");
});
