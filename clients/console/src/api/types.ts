/** Short names of the API's messages. */
import type { components } from "./schema";

type Schemas = components["schemas"];

export type Allocation = Schemas["allocation.Allocation"];
export type AllocationState = Schemas["allocation.AllocationState"];
export type PowerState = Schemas["allocation.PowerState"];
export type TimelineEntry = Schemas["allocation.TimelineEntry"];
export type Access = Schemas["allocation.Access"];
export type Money = Schemas["google.type.Money"];
export type UsageInterval = Schemas["billing.UsageInterval"];
export type Sku = Schemas["scheduler.Sku"];
export type Availability = Schemas["scheduler.Availability"];
export type UnavailableReason = Schemas["scheduler.UnavailableReason"];
export type NodePlacement = Schemas["scheduler.NodePlacement"];
export type EvacuatedAllocation = Schemas["scheduler.EvacuatedAllocation"];
export type PlacementExplanation = Schemas["scheduler.PlacementExplanation"];
export type Region = Schemas["inventory.Region"];
export type Image = Schemas["images.Image"];
export type InventoryNode = Schemas["inventory.Node"];
export type Slot = Schemas["inventory.ResourceSlot"];
export type SlotCandidate = Schemas["inventory.SlotCandidate"];
export type Discovery = Schemas["inventory.TopologyDiscovery"];
export type Evidence = Schemas["common.Evidence"];
export type TerminalSession = Schemas["terminal.TerminalSession"];
export type SlotStatus = Schemas["common.SlotStatus"];
export type Reservation = Schemas["scheduler.CapacityReservation"];
export type ReservationConfig = Schemas["scheduler.CapacityReservationConfig"];
export type CapacityBucket = Schemas["scheduler.CapacityBucket"];
export type PlannedMove = Schemas["scheduler.PlannedMove"];
export type PlannedPlace = Schemas["scheduler.PlannedPlace"];
export type NodePreservation = Schemas["scheduler.NodePreservation"];
export type Defragmentation = Schemas["scheduler.DefragmentationSuggestion"];
export type PlacementConstraints = Schemas["scheduler.PlacementConstraints"];
export type WaitingRequest = Schemas["scheduler.WaitingRequest"];
export type Priority = Exclude<Schemas["scheduler.Priority"], "unspecified">;
export type ProjectPriority = Schemas["scheduler.ProjectPriority"];
export type CreateAllocation = Schemas["allocation.CreateAllocationRequest"];
