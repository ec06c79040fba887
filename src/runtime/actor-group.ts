/**
 * Several actors of one kind behind one handle.
 *
 * Y1. A call goes to a member that is not dead, as long as there is one.
 * Y2. A key stays with its member for as long as that one lives, and moves alone when it dies: no other key moves.
 */
import { createHash } from "node:crypto";
import type { ActorMethods, ActorStreams } from "./actor-types.js";
import type { DeathReport } from "./errors.js";
import { type ActorRef, methodProxy } from "./handle.js";
import type { Route } from "./options.js";
import type { CallOptions } from "./outgoing-call.js";

export class ActorGroup<A> implements AsyncDisposable {
  /** In the order they were spawned. Pass them to another actor and make a group of them there. */
  readonly members: readonly ActorRef<A>[];
  /** As `ActorRef.call`, of the member whose turn it is. */
  readonly call: ActorMethods<A>;
  /** As `ActorRef.stream`, of the member whose turn it is. */
  readonly stream: ActorStreams<A>;
  readonly #route: Route;
  readonly #options: CallOptions | undefined;
  #next = 0;

  /** @throws RangeError when there is no member. */
  constructor(
    members: readonly ActorRef<A>[],
    route: Route = "round-robin",
    options?: CallOptions,
  ) {
    if (members.length === 0)
      throw new RangeError("ActorGroup: members is empty; give at least one");
    if (route !== "round-robin" && route !== "least-busy")
      throw new TypeError(
        `ActorGroup: route is ${JSON.stringify(route)}; allowed: "round-robin", "least-busy"`,
      );
    this.members = members;
    this.#route = route;
    this.#options = options;
    this.call = this.#routed((member) => member.call) as ActorMethods<A>;
    this.stream = this.#routed((member) => member.stream) as ActorStreams<A>;
  }

  /** The member that serves `key`. */
  forKey(key: string | number): ActorRef<A> {
    // Rendezvous hashing: each member's weight for a key depends on no other member.
    const [best] = this.#candidates()
      .map((member) => ({ member, weight: weightOf(key, this.members.indexOf(member)) }))
      .sort((a, b) => (a.weight < b.weight ? 1 : -1));
    return this.#with(best?.member ?? this.#first());
  }

  with(options: CallOptions): ActorGroup<A> {
    return new ActorGroup(this.members, this.#route, { ...this.#options, ...options });
  }

  stop(options?: { readonly deadlineMs?: number }): Promise<DeathReport[]> {
    return Promise.all(this.members.map((member) => member.stop(options)));
  }

  kill(): Promise<DeathReport[]> {
    return Promise.all(this.members.map((member) => member.kill()));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  #routed(methodsOf: (member: ActorRef<A>) => object): object {
    return methodProxy((method) => (...args) => {
      const methods = methodsOf(this.#pick()) as Record<string, (...args: unknown[]) => unknown>;
      return methods[method]?.(...args);
    });
  }

  #pick(): ActorRef<A> {
    const candidates = this.#candidates();
    if (this.#route === "least-busy") {
      const busy = candidates.map((member) => member.pendingCalls);
      return this.#with(candidates[busy.indexOf(Math.min(...busy))] ?? this.#first());
    }
    return this.#with(candidates[this.#next++ % candidates.length] ?? this.#first());
  }

  /** Members that are not dead; when all are, all: a call then says why. */
  #candidates(): readonly ActorRef<A>[] {
    const living = this.members.filter((member) => member.state !== "DEAD");
    return living.length === 0 ? this.members : living;
  }

  #first(): ActorRef<A> {
    return this.members[0] as ActorRef<A>;
  }

  #with(member: ActorRef<A>): ActorRef<A> {
    return this.#options === undefined ? member : member.with(this.#options);
  }
}

function weightOf(key: string | number, member: number): string {
  return createHash("sha256").update(`${member}\0${key}`).digest("hex");
}
