/** TypeScript SDK of GPUaaS. */
export { Client, type ClientOptions, pages, unwrap, type WaitOptions, type WatchMessage, type WatchParams, type WatchPath, wholePages } from "./client.js";
export {
  type Allocation,
  AllocationFailedError,
  ApiError,
  CallTimeoutError,
  type FieldViolation,
  GpuaasError,
  isTransient,
  ProtocolError,
  SecretLostError,
  TerminalClosedError,
  TransportError,
  UsageError,
  WaitTimeoutError,
} from "./errors.js";
export { type CallOptions, resilientFetch, type TokenSource } from "./fetch.js";
export { idempotencyKey, type Retries } from "./policy.js";
export type { components, operations, paths } from "./schema.js";
export {
  type Socket,
  TerminalConnection,
  type TerminalEnding,
  type TerminalHandlers,
  type TerminalMeans,
  type TerminalPhase,
  type TerminalReady,
  type TerminalSaved,
  type TerminalSize,
  type TerminalTicket,
} from "./connection.js";
export { Terminal, terminalConnection, type TerminalOptions } from "./terminal.js";
export { Watch, type WatchHandlers, type WatchMeans, type WatchStatus } from "./watch.js";
