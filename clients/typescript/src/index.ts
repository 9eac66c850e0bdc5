/** TypeScript SDK of GPUaaS. */
export { Client, type ClientOptions, pages, unwrap, type WaitOptions, type WatchMessage, type WatchPath } from "./client.js";
export {
  type Allocation,
  AllocationFailedError,
  ApiError,
  CallTimeoutError,
  type FieldViolation,
  GpuaasError,
  ProtocolError,
  TerminalClosedError,
  TransportError,
  UsageError,
  WaitTimeoutError,
} from "./errors.js";
export { type CallOptions, resilientFetch, type TokenSource } from "./fetch.js";
export type { Retries } from "./policy.js";
export type { components, operations, paths } from "./schema.js";
export { Terminal, type TerminalOptions } from "./terminal.js";
