// Checks signatures and inclusion proofs in this browser, from the bytes themselves, and says what it did.
// Formats: DSSE (docs/spec/envelope.md), C2SP signed notes, tlog-checkpoint and tlog-proof@v1, RFC 6962 trees.
"use strict";
(() => {
  const text = new TextEncoder();
  const hex = (bytes) => [...new Uint8Array(bytes)].map((b) => b.toString(16).padStart(2, "0")).join("");
  const unhex = (s) => Uint8Array.from(s.match(/../g) || [], (b) => parseInt(b, 16));
  const unbase64 = (s) => Uint8Array.from(atob(s), (c) => c.charCodeAt(0));
  const sha256 = async (...parts) => {
    const all = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
    parts.reduce((at, p) => (all.set(p, at), at + p.length), 0);
    return new Uint8Array(await crypto.subtle.digest("SHA-256", all));
  };
  const same = (a, b) => hex(a) === hex(b);
  const verifies = async (key, signature, message) => {
    const imported = await crypto.subtle.importKey("raw", key, { name: "Ed25519" }, false, ["verify"]);
    return crypto.subtle.verify({ name: "Ed25519" }, imported, signature, message);
  };
  const fail = (why) => { throw new Error(why); };

  // DSSE: the signature covers the type and the payload, each behind its length.
  async function envelope(bytes, key, digest, say) {
    const found = hex(await sha256(bytes));
    if (digest && found !== digest) fail(`the bytes have the SHA-256 ${found}, not the one that this page names`);
    say(`SHA-256 of the ${bytes.length} bytes is ${found}${digest ? ", as this page says" : ""}`);
    const outside = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
    const payload = unbase64(outside.payload);
    const type = text.encode(outside.payloadType);
    const signed = [text.encode(`DSSEv1 ${type.length} `), type, text.encode(` ${payload.length} `), payload];
    const message = new Uint8Array(signed.reduce((n, p) => n + p.length, 0));
    signed.reduce((at, p) => (message.set(p, at), at + p.length), 0);
    const tries = await Promise.all(outside.signatures.map((s) => verifies(key, unbase64(s.sig), message)));
    if (!tries.includes(true)) fail(`no signature in the file verifies under the key ${hex(key)}`);
    say(`the Ed25519 signature over ${payload.length} bytes of payload verifies under the key ${hex(key)}`);
    const statement = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(payload));
    say(`the signed statement says: ${statement.predicate.verdict || statement.predicateType}${statement.predicate.headline ? ", " + statement.predicate.headline : ""}`);
  }

  // RFC 9162 2.1.3.2.
  async function root(leaf, index, size, path) {
    let at = BigInt(index), last = BigInt(size) - 1n, hash = leaf;
    const node = (l, r) => sha256(Uint8Array.of(1), l, r);
    for (const sibling of path) {
      if (last === 0n) fail("the proof is longer than the tree is high");
      if (at & 1n || at === last) {
        hash = await node(sibling, hash);
        while (!(at & 1n) && at !== 0n) { at >>= 1n; last >>= 1n; }
      } else {
        hash = await node(hash, sibling);
      }
      at >>= 1n; last >>= 1n;
    }
    if (last !== 0n) fail("the proof is shorter than the tree is high");
    return hash;
  }

  async function proof(line, file, key, say) {
    const lines = new TextDecoder("utf-8", { fatal: true }).decode(file).split("\n");
    if (lines[0] !== "c2sp.org/tlog-proof@v1") fail("not a c2sp.org/tlog-proof@v1");
    const index = lines[1].replace("index ", "");
    const end = lines.indexOf("", 2);
    const path = lines.slice(2, end).map(unbase64);
    const note = lines.slice(end + 1).join("\n");
    const cut = note.indexOf("\n\n");
    const [signed, signatures] = [note.slice(0, cut + 1), note.slice(cut + 2)];
    const [origin, size, stated] = signed.split("\n");
    let good = false;
    for (const entry of signatures.split("\n").filter((s) => s.startsWith("— "))) {
      const [, name, encoded] = entry.split(" ");
      if (name === origin) good ||= await verifies(key, unbase64(encoded).slice(4), text.encode(signed));
    }
    if (!good) fail(`the checkpoint of ${origin} does not verify under the key ${hex(key)}`);
    say(`the checkpoint of ${origin}, ${size} entries, verifies under the key ${hex(key)}`);
    const leaf = await sha256(Uint8Array.of(0), line);
    say(`the entry's ${line.length} bytes hash to the leaf ${hex(leaf)}`);
    const found = await root(leaf, index, size, path);
    if (!same(found, unbase64(stated))) fail(`leaf ${index} and the ${path.length} hashes of the proof give ${hex(found)}, not the signed root`);
    say(`with ${path.length} hashes of the proof it gives the root that the checkpoint signs: entry ${index} is in the tree`);
  }

  const fetched = async (url) => {
    const answer = await fetch(url);
    if (!answer.ok) fail(`${url} answered ${answer.status}: ${(await answer.json().catch(() => ({}))).error || answer.statusText}`);
    return new Uint8Array(await answer.arrayBuffer());
  };

  document.querySelectorAll("[data-recheck]").forEach((box) => {
    const [button, said] = [box.querySelector("button"), box.querySelector(".said")];
    const say = (words, kind) => {
      const line = document.createElement("li");
      line.textContent = words;
      if (kind) line.className = kind;
      said.append(line);
    };
    if (!window.isSecureContext || !crypto.subtle) {
      say("This browser offers no cryptography to this page; use the command line below.", "say");
      return;
    }
    button.hidden = false;
    button.addEventListener("click", async () => {
      said.replaceChildren();
      button.disabled = true;
      try {
        const key = unhex(box.dataset.key);
        const file = box.querySelector("input[type=file]");
        const embedded = box.querySelector(".signed-bytes");
        const bytes = file ? new Uint8Array(await (file.files[0] || fail("choose the signed file first")).arrayBuffer())
          : embedded ? text.encode(embedded.textContent) : await fetched(box.dataset.bytes);
        if (box.dataset.recheck === "proof") await proof(bytes, await fetched(box.dataset.proof), key, say);
        else await envelope(bytes, key, box.dataset.digest, say);
        say("Checked in this browser.", "say");
      } catch (error) {
        const unsupported = error.name === "NotSupportedError";
        say(unsupported ? "This browser does not know Ed25519; use the command line below." : `Not as it should be: ${error.message}`, unsupported ? "say" : "no");
      } finally {
        button.disabled = false;
      }
    });
  });
})();
