import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { renderToStaticMarkup } from "react-dom/server";
import { expect, it } from "vitest";
import type { Allocation, WipeCertificate } from "../../api/types";
import { WipeCertificates, fileOf } from "./certificates";

const one: WipeCertificate = {
  slot_id: "01920000-0000-7000-8000-000000000002",
  slot_generation: "4",
  policy: "blkdiscard",
  erase_method: "sanitize_crypto_erase",
  accept_time: "2026-01-31T12:00:00Z",
  document: "{}",
};

function shown(allocation: Allocation, certificates: WipeCertificate[]): string {
  const queries = new QueryClient();
  queries.setQueryData(["wipe-certificates", "a"], certificates);
  return renderToStaticMarkup(
    <QueryClientProvider client={queries}>
      <WipeCertificates allocation={{ id: "a", ...allocation }} />
    </QueryClientProvider>,
  );
}

const released: Allocation = { status: { state: "released" } };

it("p2: a released allocation has a line per wipe, with its certificate where the host signed one", () => {
  const text = shown(released, [one]);
  expect(text).toContain("Disk wiped by sanitize crypto erase");
  expect(text).toContain("Download certificate");
  const two = shown(released, [one, { ...one, slot_id: "01920000-0000-7000-8000-000000000003", document: "" }]);
  expect(two).toContain("Disk of slot 000002 wiped");
  expect(two).toContain("the signature of the host is not valid");
  expect(fileOf(one)).toBe("wipe-01920000-0000-7000-8000-000000000002-4.json");
});

it("nothing is shown while an allocation runs, nor of disks that are not wiped yet", () => {
  expect(shown({ status: { state: "active" } }, [one])).toBe("");
  expect(shown(released, [])).toBe("");
});
