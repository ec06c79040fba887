import fs from "node:fs/promises";
import path from "node:path";

/** Removes a directory and all below it; what is not there is no error. Symlinks are removed, never followed. */
export async function removeTree(root: string): Promise<void> {
  try {
    await fs.rm(root, { recursive: true, force: true, maxRetries: 3 });
  } catch {
    // A harness may have taken its own rights away.
    await openUp(root);
    await fs.rm(root, { recursive: true, force: true, maxRetries: 3 });
  }
}

async function openUp(directory: string): Promise<void> {
  await fs.chmod(directory, 0o700);
  for (const entry of await fs.readdir(directory, { withFileTypes: true })) {
    if (entry.isDirectory()) await openUp(path.join(directory, entry.name));
  }
}
