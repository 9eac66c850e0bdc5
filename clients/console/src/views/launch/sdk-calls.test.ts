import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import ts from "typescript";
import { expect, it } from "vitest";
import { pythonOf, typescriptOf } from "./sdk-calls";
import type { Order } from "./use-launch";

const CLIENTS = new URL("../../../../", import.meta.url).pathname;
const BASE = "https://gpu.example.com";
const ONE: Order = {
  project_id: "p1",
  names: ["web"],
  each: { region_code: "eu", sku: "h200", gpu_count: 2, image: "ubuntu", ssh_public_keys: ['ssh-ed25519 AAAA it\'s "me"'], ssh_key_names: [], labels: { "example.com/team": "a b" }, placement: { require_prewarmed: true, anti_affinity: ["a"] }, termination_protection: false, auto_release_time: "2027-01-01T00:00:00.000Z" },
  waitHours: 1,
};
const SEVERAL: Order = { ...ONE, project_id: undefined, names: ["web-1", "web-2"], waitHours: undefined };

/** What of the SDK a program names, and what of that the SDK does not have. */
const CHECK = `
import ast, json, sys
program = ast.parse(sys.stdin.read())
sources = {name: ast.parse(open(f"${CLIENTS}python/src/gpuaas/{name}.py").read()) for name in ("_operations", "models", "__init__")}
methods = {f.name: {a.arg for a in f.args.kwonlyargs} for f in ast.walk(sources["_operations"]) if isinstance(f, ast.FunctionDef)}
models = {c.name: {f.target.id for f in c.body if isinstance(f, ast.AnnAssign)} for c in sources["models"].body if isinstance(c, ast.ClassDef)}
exported = ast.literal_eval(next(n.value for n in sources["__init__"].body if isinstance(n, ast.Assign) and n.targets[0].id == "__all__"))
calls, unknown = [], []
for node in ast.walk(program):
    if isinstance(node, ast.ImportFrom) and node.module == "gpuaas":
        unknown += [a.name for a in node.names if a.name not in exported and a.name != "models"]
    if isinstance(node, ast.Call):
        known, name = None, ast.unparse(node.func)
        if name.startswith("client."):
            known = methods.get(name[7:], set())
        elif name.startswith("models."):
            known = models.get(name[7:], set())
        if known is not None:
            calls.append(name)
            unknown += [f"{name} {k.arg}" for k in node.keywords if k.arg and k.arg not in known]
            if not known: unknown.append(name)
        if name == "dict":
            unknown += [f"launch {k.arg}" for k in node.keywords if k.arg not in models["CreateAllocationRequest"]]
print(json.dumps({"calls": sorted(set(calls)), "unknown": unknown}))
`;

function checked(program: string): { calls: string[]; unknown: string[] } {
  const { stdout, stderr } = spawnSync("python3", ["-c", CHECK], { input: program, encoding: "utf8" });
  if (!stdout) throw new Error(stderr);
  return JSON.parse(stdout) as { calls: string[]; unknown: string[] };
}

it("the call with Python parses, and names methods, arguments and models that the SDK has", () => {
  expect(checked(pythonOf(ONE, BASE, 0))).toEqual({ calls: ["client.create_allocation", "models.PlacementConstraints", "models.Wait"], unknown: [] });
  expect(checked(pythonOf(SEVERAL, BASE, 0))).toEqual({ calls: ["client.batch_create_allocations", "models.CreateAllocationRequest", "models.PlacementConstraints"], unknown: [] });
  expect(pythonOf(ONE, BASE, 0)).toContain('wait=models.Wait(deadline=datetime.fromisoformat("1970-01-01T01:00:00.000+00:00")),');
  const plain = { ...ONE, each: { region_code: "eu", sku: "h200", gpu_count: 1, image: "ubuntu", labels: {}, ssh_public_keys: [] }, project_id: undefined, waitHours: undefined };
  expect(pythonOf(plain, BASE, 0).split("\n")[0]).toBe("from gpuaas import Client");
  expect(pythonOf(plain, BASE, 0)).not.toMatch(/labels|ssh_public_keys/);
});

/** What the compiler says about a program that imports the SDK, as its sources and its types of the API are here. */
function errorsOf(program: string): string[] {
  const sdk = `import type { components, operations } from "${CLIENTS}typescript/src/schema";
type S = components["schemas"];
type Batch = operations["AllocationService_BatchCreateAllocations"]["requestBody"]["content"]["application/json"];
export declare function unwrap<T>(call: Promise<{ data?: T }>): Promise<NonNullable<T>>;
export declare class Client {
  constructor(options: { baseUrl: string; token: string });
  POST(path: "/api/v1/allocations", init: { body: S["allocation.CreateAllocationRequest"] }): Promise<{ data?: S["allocation.Allocation"] }>;
  POST(path: "/api/v1/allocations:batchCreate", init: { body: Batch }): Promise<{ data?: S["allocation.BatchCreateAllocationsResponse"] }>;
}
`;
  const files: Record<string, string> = { "/launch.ts": `declare const process: { env: Record<string, string | undefined> };\n${program}`, "/sdk.ts": sdk };
  const options: ts.CompilerOptions = { strict: true, noEmit: true, target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler, types: [], lib: ["lib.es2022.d.ts", "lib.dom.d.ts"], paths: { "@gpuaas/sdk": ["/sdk.ts"] }, skipLibCheck: true };
  const host = ts.createCompilerHost(options);
  const [read, exists] = [host.getSourceFile.bind(host), host.fileExists.bind(host)];
  host.fileExists = (name) => name in files || exists(name);
  host.getSourceFile = (name, ...rest) => (files[name] === undefined ? read(name, ...rest) : ts.createSourceFile(name, files[name], ts.ScriptTarget.ES2022));
  const made = ts.createProgram(["/launch.ts"], options, host);
  return ts.getPreEmitDiagnostics(made).map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, "\n"));
}

it("the call with TypeScript compiles against the types of the API, and imports what the SDK exports", () => {
  expect(errorsOf(typescriptOf(ONE, BASE, 0))).toEqual([]);
  expect(errorsOf(typescriptOf(SEVERAL, BASE, 0))).toEqual([]);
  expect(errorsOf(typescriptOf(ONE, BASE, 0).replace("gpu_count", "gpus"))).not.toEqual([]);
  const index = readFileSync(`${CLIENTS}typescript/src/index.ts`, "utf8");
  expect(index).toMatch(/export \{ Client, .*\bunwrap\b/);
  expect(readFileSync(`${CLIENTS}typescript/src/client.ts`, "utf8")).toMatch(/interface ClientOptions extends CallOptions \{[^}]*\bbaseUrl: string/);
  expect(readFileSync(`${CLIENTS}typescript/src/fetch.ts`, "utf8")).toMatch(/interface CallOptions \{[^}]*\btoken\?: /);
}, 60_000);
