// A certificate for one run of this process: self-signed, for "localhost", as
// go-plugin's mutual TLS wants it. Node has the keys and signatures; what X.509
// writes around them (DER, RFC 5280) is here.
import { generateKeyPairSync, randomBytes, sign } from "node:crypto";

const concat = (parts) => Buffer.concat(parts.map((p) => Buffer.from(p)));

function der(tag, ...parts) {
  const body = concat(parts);
  const length = [];
  for (let n = body.length; n > 0; n >>= 8) length.unshift(n & 0xff);
  const head = body.length < 128 ? [tag, body.length] : [tag, 0x80 | length.length, ...length];
  return concat([head, body]);
}

const sequence = (...parts) => der(0x30, ...parts);
const oid = (...bytes) => der(0x06, bytes);
const utc = (date) => der(0x17, Buffer.from(date.toISOString().replace(/[-:T]/g, "").slice(2, 14) + "Z"));
const extension = (id, critical, value) => sequence(id, ...(critical ? [der(0x01, [0xff])] : []), der(0x04, value));

const ecdsaWithSHA256 = sequence(oid(0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02));
const localhost = sequence(der(0x31, sequence(oid(0x55, 0x04, 0x03), der(0x0c, Buffer.from("localhost")))));

/** Returns { key, certificate } in PEM and the certificate as DER. */
export function certificate() {
  const pair = generateKeyPairSync("ec", { namedCurve: "prime256v1" });
  const now = Date.now(), year = 365 * 24 * 3600 * 1000;
  const serial = randomBytes(16);
  serial[0] = (serial[0] & 0x7f) | 0x40; // positive, without leading zeros
  const body = sequence(
    der(0xa0, der(0x02, [2])), // version 3
    der(0x02, serial),
    ecdsaWithSHA256,
    localhost, // issuer
    sequence(utc(new Date(now - 60000)), utc(new Date(now + 10 * year))),
    localhost, // subject
    pair.publicKey.export({ type: "spki", format: "der" }),
    der(0xa3, sequence(
      extension(oid(0x55, 0x1d, 0x13), true, sequence(der(0x01, [0xff]))), // a CA: it signs itself
      extension(oid(0x55, 0x1d, 0x0f), true, der(0x03, [2, 0x84])), // digital signature, certificate signing
      extension(oid(0x55, 0x1d, 0x25), false, sequence(oid(0x2b, 6, 1, 5, 5, 7, 3, 1), oid(0x2b, 6, 1, 5, 5, 7, 3, 2))),
      extension(oid(0x55, 0x1d, 0x11), false, sequence(der(0x82, Buffer.from("localhost")))),
    )),
  );
  const signature = sign("sha256", body, pair.privateKey);
  const whole = sequence(body, ecdsaWithSHA256, der(0x03, [0], signature));
  const lines = whole.toString("base64").match(/.{1,64}/g).join("\n");
  return {
    der: whole,
    certificate: `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`,
    key: pair.privateKey.export({ type: "pkcs8", format: "pem" }),
  };
}
