import type { AppendFile } from "../../src/actors/rollout-consumer/jsonl-writer.js";

/** A file on a disk that takes `room` bytes and, when `stuck`, cannot be cut back. */
export function smallDisk(room: number, stuck = false): AppendFile & { bytes: Buffer } {
  const disk = {
    bytes: Buffer.alloc(0),
    async write(buffer: Buffer, offset: number, length: number, position: number) {
      const fits = Math.min(length, 7, room - position);
      if (fits <= 0) throw Object.assign(new Error("no space left on device"), { code: "ENOSPC" });
      disk.bytes = Buffer.concat([
        disk.bytes.subarray(0, position),
        buffer.subarray(offset, offset + fits),
      ]);
      return { bytesWritten: fits, buffer };
    },
    async truncate(size: number) {
      if (stuck) throw new Error("input/output error");
      disk.bytes = disk.bytes.subarray(0, size);
    },
    async sync() {},
    async close() {},
  };
  return disk as unknown as AppendFile & { bytes: Buffer };
}
