/** A logger that keeps nothing, and one that keeps all. */
import type { ActorLogger, LogLevel } from "corral/runtime";

export const silentLogger: ActorLogger = {
  debug: () => {},
  info: () => {},
  warn: () => {},
  error: () => {},
};

export interface LogRecord {
  readonly level: LogLevel;
  readonly fields: Record<string, unknown>;
  readonly message: string;
}

export function recordingLogger(): { logger: ActorLogger; records: LogRecord[] } {
  const records: LogRecord[] = [];
  const at =
    (level: LogLevel) =>
    (fields: Record<string, unknown>, message: string): void => {
      records.push({ level, fields, message });
    };
  const logger = { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
  return { logger, records };
}
