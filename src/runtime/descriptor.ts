/** What a handle carries of its actor: limits, the traits of its methods, and the shared count of its calls. */
import type { ActorDefinition, MethodOptions } from "./define-actor.js";
import type { ResolvedSpawnOptions } from "./options.js";
import { type ActorDescriptor, type MethodTraits, PENDING_CELLS } from "./protocol.js";
import { sharedCells } from "./shared-places.js";

export function describeActor<A extends object, O>(
  id: string,
  { groups = {}, methods = {} }: ActorDefinition<A, O>,
  options: ResolvedSpawnOptions,
): ActorDescriptor {
  const names = Object.keys(groups);
  const traits = new Map<string, MethodTraits>();
  for (const [method, own = {}] of Object.entries<MethodOptions | undefined>(methods)) {
    const { group, idempotent = false } = own;
    traits.set(method, { group: group === undefined ? 0 : names.indexOf(group) + 1, idempotent });
  }
  return {
    id,
    name: options.name,
    namespace: options.namespace,
    groupLimits: [options.maxConcurrency, ...Object.values(groups)],
    methods: traits,
    maxPendingCalls: options.maxPendingCalls,
    onFull: options.onFull,
    maxTaskRetries: options.maxTaskRetries,
    pending: sharedCells(PENDING_CELLS.count),
  };
}
