/** The logging side of actors: what an actor sees, and what is kept of its last lines. */

export type LogLevel = "debug" | "info" | "warn" | "error";

/** A logger in pino's manner: fields first, then the message. A pino logger is one. */
export type ActorLogger = {
  readonly [Level in LogLevel]: (fields: Record<string, unknown>, message: string) => void;
};

const KEPT_LINES = 20;
const MAX_LINE_LENGTH = 2000;
/** A stream without newlines must not grow without end. */
const MAX_REST_LENGTH = 65_536;

/** The last lines of an actor, for its death report. */
export class LogTail {
  readonly #lines: string[] = [];

  push(line: string): void {
    this.#lines.push(line.slice(0, MAX_LINE_LENGTH));
    if (this.#lines.length > KEPT_LINES) this.#lines.shift();
  }

  lines(): string[] {
    return [...this.#lines];
  }
}

/** Cuts a stream of text into lines; `end` gives the last one when it has no newline. */
export class LineSplitter {
  #rest = "";
  readonly #onLine: (line: string) => void;

  constructor(onLine: (line: string) => void) {
    this.#onLine = onLine;
  }

  write(text: string): void {
    const lines = (this.#rest + text).split(/\r?\n/);
    this.#rest = lines.pop() ?? "";
    for (const line of lines) if (line !== "") this.#onLine(line);
    if (this.#rest.length > MAX_REST_LENGTH) this.end();
  }

  end(): void {
    if (this.#rest !== "") this.#onLine(this.#rest);
    this.#rest = "";
  }
}
