/** The same launch with the SDKs for Python and TypeScript. Neither has the token in it. */
import { waitFor } from "./choice";
import type { Order } from "./use-launch";

type Value = string | number | boolean | undefined | Value[] | { [key: string]: Value };

/** What is sent, as `useLaunch` sends it. */
function partsOf({ project_id, each, waitHours }: Order, now: number) {
  return { each: each as { [key: string]: Value }, shared: { project_id, ...(waitHours === undefined ? {} : { wait: waitFor(waitHours, now) }) } as { [key: string]: Value } };
}

/** The fields that say something. */
const given = (fields: { [key: string]: Value }) => Object.entries(fields).filter((pair): pair is [string, NonNullable<Value>] => pair[1] !== undefined && !(typeof pair[1] === "object" && Object.keys(pair[1]).length === 0));

/** The class of `gpuaas.models` that a field is of. */
const MODELS: Record<string, string> = { placement: "PlacementConstraints", wait: "Wait" };
const TIMES = ["auto_release_time", "deadline"];

/** A value of a field as Python writes it; a text of JSON is one of Python. */
function python(field: string, value: Value): string {
  if (TIMES.includes(field)) return `datetime.fromisoformat(${JSON.stringify(String(value).replace("Z", "+00:00"))})`;
  if (typeof value === "boolean") return value ? "True" : "False";
  if (Array.isArray(value)) return `[${value.map((one) => python("", one)).join(", ")}]`;
  if (typeof value === "object") {
    const inner = given(value);
    if (MODELS[field]) return `models.${MODELS[field]}(${inner.map(([key, one]) => `${key}=${python(key, one)}`).join(", ")})`;
    return `{${inner.map(([key, one]) => `${JSON.stringify(key)}: ${python("", one)}`).join(", ")}}`;
  }
  return JSON.stringify(value);
}

export function pythonOf(order: Order, base: string, now: number): string {
  const { each, shared } = partsOf(order, now);
  const lines = (fields: { [key: string]: Value }, indent: string) => given(fields).map(([key, value]) => `${indent}${key}=${python(key, value)},`);
  const call =
    order.names.length === 1
      ? ["    allocation = client.create_allocation(", ...lines({ name: order.names[0], ...each, ...shared }, "        "), "    )", "    print(allocation.id)"]
      : [
          "    launch = dict(",
          ...lines(each, "        "),
          "    )",
          "    made = client.batch_create_allocations(",
          ...lines(shared, "        "),
          `        allocations=[models.CreateAllocationRequest(name=name, **launch) for name in ${python("", order.names)}],`,
          "    )",
          "    print([allocation.id for allocation in made.allocations])",
        ];
  const text = [`with Client(${JSON.stringify(base)}) as client:`, ...call].join("\n");
  const imports = [...(text.includes("datetime.") ? ["from datetime import datetime"] : []), `from gpuaas import Client${text.includes("models.") ? ", models" : ""}`];
  return [...imports, "", text].join("\n");
}

export function typescriptOf(order: Order, base: string, now: number): string {
  const { each, shared } = partsOf(order, now);
  const object = (fields: { [key: string]: Value }) => JSON.stringify(Object.fromEntries(given(fields)), null, 2).replace(/^(\s*)"(\w+)":/gm, "$1$2:");
  const head = ['import { Client, unwrap } from "@gpuaas/sdk";', "", `const client = new Client({ baseUrl: ${JSON.stringify(base)}, token: process.env.GPUAAS_TOKEN ?? "" });`];
  const call =
    order.names.length === 1
      ? [`const body = ${object({ name: order.names[0], ...each, ...shared })};`, 'const allocation = await unwrap(client.POST("/api/v1/allocations", { body }));', "console.log(allocation.id);"]
      : [
          `const launch = ${object(each)};`,
          `const allocations = ${JSON.stringify(order.names)}.map((name) => ({ name, ...launch }));`,
          `const body = { ...${object(shared)}, allocations };`,
          'const made = await unwrap(client.POST("/api/v1/allocations:batchCreate", { body }));',
          "console.log(made.allocations?.map(({ id }) => id));",
        ];
  return [...head, ...call].join("\n");
}
