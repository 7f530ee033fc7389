// Opens a trace with Perfetto's own engine, as the Perfetto in a browser does, and asks it questions.
//
//   node perfetto.mjs DIRECTORY TRACE < queries.json     DIRECTORY has engine_bundle.js and trace_processor.wasm
//
// queries.json: a list of SQL texts. Prints {"error": …} or {"results": [[{column: value}, …], …]}. Numbers of more than
// 53 bits come as text.
import fs from 'node:fs';
import path from 'node:path';
import vm from 'node:vm';

const [directory, tracePath] = process.argv.slice(2);
const said = [];

// The engine runs in a browser's worker; this is as much of one as it needs.
class XMLHttpRequest {
  open(_, url) { this.url = url; }
  send() { this.response = Uint8Array.from(fs.readFileSync(path.join(directory, path.basename(this.url)))).buffer; }
}
const note = (text) => said.push(String(text));
const scope = {
  WorkerGlobalScope: class {}, XMLHttpRequest, console: {log: note, warn: note, error: note}, location: {href: 'http://localhost/'},
  URL, TextDecoder, TextEncoder, performance, crypto, setTimeout, clearTimeout,
};
scope.self = scope;
const worker = vm.createContext(scope);
vm.runInContext(fs.readFileSync(path.join(directory, 'engine_bundle.js'), 'utf8'), worker);
await new Promise((resolve) => setTimeout(resolve));  // it goes on in a microtask or two
const Bytes = vm.runInContext('Uint8Array', worker);

// As much of protobuf as its questions and answers need.
const varint = (value) => {
  const out = [];
  for (let rest = BigInt(value); ; rest >>= 7n) {
    const low = Number(rest & 127n);
    if (rest < 128n) return out.push(low), Buffer.from(out);
    out.push(low | 128);
  }
};
const field = (number, content) => typeof content === 'number'
  ? Buffer.concat([varint(number << 3), varint(content)])
  : Buffer.concat([varint(number << 3 | 2), varint(content.length), content]);
function* varints(bytes) {
  for (let at = 0; at < bytes.length;) {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const one = bytes[at++];
      value |= BigInt(one & 127) << shift;
      if (one < 128) break;
    }
    yield [value, at];
  }
}
function* fields(bytes) {
  for (let rest = bytes; rest.length;) {
    const [tag, at] = varints(rest).next().value;
    rest = rest.subarray(at);
    let content;
    if ((tag & 7n) === 1n) {
      [content, rest] = [rest.subarray(0, 8), rest.subarray(8)];
    } else {
      const [value, after] = varints(rest).next().value;
      rest = rest.subarray(after);
      content = value;
      if ((tag & 7n) === 2n) [content, rest] = [rest.subarray(0, Number(value)), rest.subarray(Number(value))];
    }
    yield [Number(tag >> 3n), content];
  }
}

const [APPEND, FINALIZE, QUERY] = [1, 2, 3];
let serial = 0;
let take = () => {};
const port = {postMessage: (bytes) => take(Buffer.from(bytes))};
const send = (request, ...rest) => {
  const message = Buffer.concat([field(1, serial++), field(2, request), ...rest]);
  port.onmessage({data: Bytes.from(field(1, message))});
};
// One request's answers: [field number, content] of each message, until `last` says so.
const ask = (last, request, ...rest) => new Promise((resolve, reject) => {
  const found = [];
  take = (bytes) => {
    for (const [, message] of fields(bytes)) {
      for (const one of fields(message)) {
        if (one[0] === 5) reject(new Error(one[1].toString()));
        found.push(one);
      }
    }
    if (last(found)) resolve(found);
  };
  try { send(request, ...rest); } catch (error) { reject(error); }
});

const [VARINT, FLOAT, TEXT, BLOB] = [2, 3, 4, 5];
const rowsOf = (found) => {
  const names = [], cells = [], rows = [];
  for (const [number, result] of found) {
    if (number !== 203) continue;
    for (const [part, content] of fields(result)) {
      if (part === 1) names.push(content.toString());
      if (part === 2) throw new Error(content.toString());
      if (part !== 3) continue;
      const kinds = [], numbers = [], floats = [], texts = [], blobs = [];
      for (const [piece, bytes] of fields(content)) {
        if (piece === 1) for (const [value] of varints(bytes)) kinds.push(Number(value));
        if (piece === 2) for (const [value] of varints(bytes)) numbers.push(BigInt.asIntN(64, value));
        if (piece === 3) for (let at = 0; at < bytes.length; at += 8) floats.push(bytes.readDoubleLE(at));
        if (piece === 4) blobs.push(bytes.toString('hex'));
        if (piece === 5) texts.push(...bytes.toString().split('\0'));
      }
      for (const kind of kinds) {
        const from = {[VARINT]: numbers, [FLOAT]: floats, [TEXT]: texts, [BLOB]: blobs}[kind];
        const value = from ? from.shift() : null;
        cells.push(typeof value === 'bigint'
          ? Number.isSafeInteger(Number(value)) ? Number(value) : String(value) : value);
      }
    }
  }
  for (let at = 0; at < cells.length; at += names.length) {
    rows.push(Object.fromEntries(names.map((name, index) => [name, cells[at + index]])));
  }
  return rows;
};
const isLast = (found) => found.some(([number, result]) => number === 203 &&
  [...fields(result)].some(([part, content]) => part === 2 ||
    (part === 3 && [...fields(content)].some(([piece, value]) => piece === 6 && value === 1n))));

worker.onmessage({data: port});
try {
  const content = fs.readFileSync(tracePath);
  for (let at = 0; at < content.length; at += 1 << 20) {
    const found = await ask((all) => all.some(([number]) => number === 201), APPEND,
      field(101, content.subarray(at, at + (1 << 20))));
    for (const [number, result] of found) {
      if (number !== 201) continue;
      for (const [part, text] of fields(result)) if (part === 2) throw new Error(text.toString());
    }
  }
  const finalized = await ask((all) => all.some(([number]) => number === 3), FINALIZE);
  for (const [number, result] of finalized) {
    if (number !== 211) continue;
    for (const [part, text] of fields(result)) if (part === 1) throw new Error(text.toString());
  }
  const results = [];
  for (const sql of JSON.parse(fs.readFileSync(0, 'utf8'))) {
    results.push(rowsOf(await ask(isLast, QUERY, field(103, field(1, Buffer.from(sql))))));
  }
  console.log(JSON.stringify({results}));
} catch (error) {
  console.log(JSON.stringify({error: `${error.message}`, said: said.slice(-20)}));
}
