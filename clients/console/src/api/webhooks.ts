/** Queries and mutations of webhooks and their deliveries. */
import type { components } from "@gpuaas/sdk";
import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { type KeyHeader, useOnce } from "./attempt";
import { client, request, unwrap } from "./client";
import { type Searched, SHOWN, textFilter, usePages, wordsFilter } from "./pages";
import type { Tenant } from "./tenancy";

type Schemas = components["schemas"];
export type Webhook = Schemas["events.Webhook"];
export type WebhookDelivery = Schemas["events.WebhookDelivery"];
export type DeliveryState = Exclude<Schemas["events.WebhookDeliveryState"], "unspecified">;

const DELIVERIES = 25;
/** How often deliveries are looked at while they are shown. */
const LOOK_MS = 5000;

/** A type of event, with what it means. */
export interface EventType {
  name: string;
  summary: string;
}

/** The types that a webhook of a project or an organisation gets, from the served AsyncAPI document. */
export function useEventTypes(kind: Tenant["kind"]) {
  return useQuery({
    queryKey: ["event-types", kind],
    staleTime: Infinity,
    queryFn: async (): Promise<EventType[]> => eventTypes(await request<AsyncApi>("/api/asyncapi.json"), kind),
  });
}

export interface AsyncApi {
  components: { messages: Record<string, { name: string; summary: string }> };
}

/** What a webhook of a project never gets and may not name: as in gateway/src/webhooks/event_types.rs. */
const OF_ORGANISATIONS_ALONE = /^organisation_member\.|^project\.(created|closed)$/;

/** All types that come but the ping, which comes only when it is asked for. */
export function eventTypes({ components: { messages } }: AsyncApi, kind: Tenant["kind"]): EventType[] {
  const comes = (name: string) => name !== "webhook.ping" && (kind === "organisation" || !OF_ORGANISATIONS_ALONE.test(name));
  return Object.values(messages).filter(({ name }) => comes(name)).map(({ name, summary }) => ({ name, summary }));
}

/** Those of a project, or those of an organisation, which get its own events and those of all of its projects. */
export function useWebhooks({ kind, id }: Tenant, search = "") {
  const filter = textFilter(["url", "description"], search);
  return usePages(["webhooks", kind, id, filter], (page_token) => {
    const query = { page_size: SHOWN, page_token, ...(filter && { filter }) };
    return (
      kind === "project"
        ? unwrap(client.GET("/api/v1/projects/{project_id}/webhooks", { params: { path: { project_id: id }, query } }))
        : unwrap(client.GET("/api/v1/organisations/{organisation_id}/webhooks", { params: { path: { organisation_id: id }, query } }))
    ).then(({ webhooks: items = [], next_page_token: next }) => ({ items, next }));
  });
}

/** The filter of the API for every word of a search in the type of an event or its error, or for a whole id of a delivery or of what it is about. */
export function deliveriesFilter(search: string): Searched {
  return wordsFilter(["event_type", "error"], search, { ids: ["id", "object_id"] });
}

/** Deliveries of one webhook that a filter of the API selects, newest first, page by page. */
export function useDeliveries(webhook_id: string, state: DeliveryState | "", filter: string) {
  return useInfiniteQuery({
    queryKey: ["webhook-deliveries", webhook_id, state, filter],
    refetchInterval: LOOK_MS,
    initialPageParam: "",
    queryFn: ({ pageParam: page_token }) => unwrap(client.GET("/api/v1/webhooks/{webhook_id}/deliveries", { params: { path: { webhook_id }, query: { page_size: DELIVERIES, page_token, ...(state && { state }), ...(filter && { filter }) } } })),
    getNextPageParam: ({ next_page_token }) => next_page_token || undefined,
  });
}

function useChange<T, R>(change: (value: T) => Promise<R>) {
  const queries = useQueryClient();
  return useMutation({
    mutationFn: change,
    onSuccess: () => Promise.all(["webhooks", "webhook-deliveries"].map((key) => queries.invalidateQueries({ queryKey: [key] }))),
  });
}

export function useCreateWebhook({ kind, id }: Tenant) {
  return useChange(
    useOnce(id, (body: { url: string; event_types: string[]; description: string }, header: KeyHeader) =>
      kind === "project"
        ? unwrap(client.POST("/api/v1/projects/{project_id}/webhooks", { params: { path: { project_id: id }, header }, body }))
        : unwrap(client.POST("/api/v1/organisations/{organisation_id}/webhooks", { params: { path: { organisation_id: id }, header }, body })),
    ),
  );
}

/** Disables, enables or deletes a webhook. */
export function useWebhookState({ id: webhook_id = "", etag = "" }: Webhook) {
  return useChange((verb: "disable" | "enable" | "delete"): Promise<unknown> =>
    verb === "delete"
      ? unwrap(client.DELETE("/api/v1/webhooks/{webhook_id}", { params: { path: { webhook_id }, query: { etag } } }))
      : unwrap(client.PATCH("/api/v1/webhooks/{webhook_id}", { params: { path: { webhook_id } }, body: { disabled: verb === "disable", etag } })),
  );
}

export function useRotateSecret({ id: webhook_id = "", etag }: Webhook) {
  return useChange((_: void) => unwrap(client.POST("/api/v1/webhooks/{webhook_id}:rotateSecret", { params: { path: { webhook_id } }, body: { etag } })));
}

export function usePing({ id: webhook_id = "" }: Webhook) {
  return useChange(useOnce(webhook_id, (_: void, header: KeyHeader) => unwrap(client.POST("/api/v1/webhooks/{webhook_id}:ping", { params: { path: { webhook_id }, header }, body: {} }))));
}

export function useRedeliver({ id: webhook_id = "" }: Webhook) {
  return useChange(useOnce(webhook_id, (delivery_id: string, header: KeyHeader) => unwrap(client.POST("/api/v1/webhooks/{webhook_id}/deliveries/{delivery_id}:redeliver", { params: { path: { webhook_id, delivery_id }, header }, body: {} }))));
}
