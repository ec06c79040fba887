/**
 * Group commit: all that wait are written in one transaction and share its one sync to the disk. While it runs others
 * arrive, so groups form by themselves and no timer is needed.
 *
 * M1. Acknowledged means committed: an operation resolves after the COMMIT that holds it, never before.
 * M2. BEGIN IMMEDIATE … COMMIT without an await inside: a deferred one can fail at once with SQLITE_BUSY_SNAPSHOT, and
 *     a thread that ends inside a transaction holds no lock afterwards.
 * M3. One that fails takes nobody with it: the group is rolled back and each of it is tried alone.
 * M4. Operations are applied in the order they were given.
 */
import type { Connection } from "./schema.js";

interface Waiting {
  readonly apply: () => unknown;
  readonly resolve: (value: never) => void;
  readonly reject: (error: unknown) => void;
}

export interface GroupCommitOptions {
  /** Contract: throws when what was committed is not in the file that others see. Then nothing is acknowledged. */
  readonly afterCommit: () => void;
}

export class GroupCommit {
  readonly #connection: Connection;
  readonly #afterCommit: () => void;
  #waiting: Waiting[] = [];
  #scheduled: NodeJS.Immediate | undefined;

  constructor(connection: Connection, { afterCommit }: GroupCommitOptions) {
    this.#connection = connection;
    this.#afterCommit = afterCommit;
  }

  /** `apply` runs inside a transaction, twice when its group failed: it must change nothing but the file. */
  run<T>(apply: () => T): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#waiting.push({ apply, resolve, reject });
      // After the poll phase: every message that is there by then joins the group.
      this.#scheduled ??= setImmediate(() => this.flush());
    });
  }

  /** Commits what waits, now. */
  flush(): void {
    clearImmediate(this.#scheduled);
    this.#scheduled = undefined;
    const group = this.#waiting;
    this.#waiting = [];
    if (group.length === 0 || this.#commit(group)) return;
    for (const one of group) this.#commitAlone(one); // M3
  }

  /** False when the group must be tried one by one. */
  #commit(group: readonly Waiting[]): boolean {
    if (group.length === 1) return false;
    let results: unknown[];
    try {
      this.#connection.exec("BEGIN IMMEDIATE");
    } catch (error) {
      // Nobody can write now; each alone would only wait as long again.
      for (const { reject } of group) reject(error);
      return true;
    }
    try {
      results = group.map(({ apply }) => apply());
      this.#connection.exec("COMMIT");
    } catch {
      this.#rollBack();
      return false;
    }
    this.#acknowledge(group, results);
    return true;
  }

  #commitAlone(one: Waiting): void {
    let result: unknown;
    try {
      this.#connection.exec("BEGIN IMMEDIATE");
      result = one.apply();
      this.#connection.exec("COMMIT");
    } catch (error) {
      this.#rollBack();
      one.reject(error);
      return;
    }
    this.#acknowledge([one], [result]);
  }

  /** M1 */
  #acknowledge(group: readonly Waiting[], results: readonly unknown[]): void {
    try {
      this.#afterCommit();
    } catch (error) {
      for (const { reject } of group) reject(error);
      return;
    }
    group.forEach(({ resolve }, index) => {
      resolve(results[index] as never);
    });
  }

  /** SQLite has rolled back by itself after a full disk; a second ROLLBACK would throw. */
  #rollBack(): void {
    if (this.#connection.inTransaction) this.#connection.exec("ROLLBACK");
  }
}
