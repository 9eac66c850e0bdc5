/** For tests: errors as they come of calls. */
import { ApiError, TransportError } from "@gpuaas/sdk";
import { type Problem, problemOf } from "./problem";

export function problemFrom(status: number, body: unknown): Problem {
  return problemOf(new ApiError(status, body, new Headers())) as Problem;
}

export function unreachable(): Problem {
  return problemOf(new TransportError("no answer came")) as Problem;
}
