/** HTTP as bytes: what no well-behaved client would send. */
import { connect, type Socket } from "node:net";

export interface RawResponse {
  readonly status: number;
  readonly body: string;
}

/** A request as text; `Content-Length` is added unless the headers have one or say `chunked`. */
export function rawRequest(
  method: string,
  target: string,
  headers: Readonly<Record<string, string>>,
  body: string | Buffer = "",
): Buffer {
  const bytes = Buffer.from(body);
  const names = Object.keys(headers).map((name) => name.toLowerCase());
  const framed = names.includes("content-length") || names.includes("transfer-encoding");
  const lines = [
    `${method} ${target} HTTP/1.1`,
    "Host: 127.0.0.1",
    ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
    ...(framed ? [] : [`Content-Length: ${bytes.length}`]),
  ];
  return Buffer.concat([Buffer.from(`${lines.join("\r\n")}\r\n\r\n`, "latin1"), bytes]);
}

export async function openSocket(url: string): Promise<Socket> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.on("error", () => undefined);
  await new Promise((resolve) => socket.once("connect", resolve));
  return socket;
}

/** Sends the bytes on one connection and reads until that many responses have come, or the connection ended. */
export async function exchangeRaw(
  url: string,
  bytes: Buffer,
  count = 1,
): Promise<readonly RawResponse[]> {
  const socket = await openSocket(url);
  let text = "";
  const responses = await new Promise<readonly RawResponse[]>((resolve) => {
    const finish = () => resolve(parseResponses(text));
    socket.setEncoding("utf8");
    socket.on("data", (chunk: string) => {
      text += chunk;
      if (parseResponses(text).length >= count) finish();
    });
    socket.once("close", finish);
    socket.write(bytes);
  });
  socket.destroy();
  return responses;
}

/** Whole responses with a length or chunks; a `100 Continue` is skipped. */
function parseResponses(text: string): RawResponse[] {
  const found: RawResponse[] = [];
  for (let rest = text; rest !== ""; ) {
    const headEnd = rest.indexOf("\r\n\r\n");
    if (headEnd < 0) break;
    const head = rest.slice(0, headEnd);
    const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(head)?.[1]);
    rest = rest.slice(headEnd + 4);
    if (status === 100) continue;
    const length = /^content-length: (\d+)/im.exec(head)?.[1];
    const body = length === undefined ? chunkedBody(rest) : sized(rest, Number(length));
    if (body === null) break;
    found.push({ status, body: body.text });
    rest = rest.slice(body.used);
  }
  return found;
}

function sized(rest: string, bytes: number): { text: string; used: number } | null {
  const buffer = Buffer.from(rest);
  if (buffer.length < bytes) return null;
  const text = buffer.subarray(0, bytes).toString("utf8");
  return { text, used: text.length };
}

function chunkedBody(rest: string): { text: string; used: number } | null {
  const end = rest.indexOf("0\r\n\r\n");
  return end < 0 ? null : { text: rest.slice(0, end), used: end + 5 };
}
