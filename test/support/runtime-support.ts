/** A logger that keeps nothing, and one that keeps all. */
import type { ActorLogger, LogLevel } from "corral/runtime";

export const silentLogger: ActorLogger = {
  debug: () => {},
  info: () => {},
  warn: () => {},
  error: () => {},
};

interface LogRecord {
  readonly level: LogLevel;
  readonly fields: Record<string, unknown>;
  readonly message: string;
}

export interface RecordingLogger {
  readonly logger: ActorLogger;
  /** Resolves with the first `count` records of this message when they are all here. */
  recordsOf(message: string, count: number): Promise<LogRecord[]>;
}

export function recordingLogger(): RecordingLogger {
  const records: LogRecord[] = [];
  const waiting = new Set<() => void>();
  const recordsOf = (message: string, count: number): Promise<LogRecord[]> =>
    new Promise((resolve) => {
      const check = (): void => {
        const found = records.filter((record) => record.message === message);
        if (found.length < count) return;
        waiting.delete(check);
        resolve(found.slice(0, count));
      };
      waiting.add(check);
      check();
    });
  const at =
    (level: LogLevel) =>
    (fields: Record<string, unknown>, message: string): void => {
      records.push({ level, fields, message });
      for (const check of [...waiting]) check();
    };
  const logger = { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
  return { logger, recordsOf };
}
