import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import type { Allocation } from "../../api/types";
import { Actions } from "./actions";

const running = (capacity_shape: "gpu_slice" | "baremetal"): Allocation => ({ id: "a", config: { name: "a", capacity_shape }, status: { state: "active", power: "running" } });
const offered = (allocation: Allocation) => {
  const shown = renderToStaticMarkup(
    <QueryClientProvider client={new QueryClient()}>
      <Actions allocation={allocation} />
    </QueryClientProvider>,
  );
  return ["Stop", "Reboot", "Release"].filter((verb) => shown.includes(verb));
};

it("bare metal offers only the actions that it supports", () => {
  expect(offered(running("gpu_slice"))).toEqual(["Stop", "Reboot", "Release"]);
  expect(offered(running("baremetal"))).toEqual(["Release"]);
});
