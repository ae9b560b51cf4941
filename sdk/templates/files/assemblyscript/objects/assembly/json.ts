// JSON as far as controllers and admission plugins need it. The host has checked
// what it hands over; what is not JSON is nowhere. A pointer is that of RFC 6901,
// as /metadata/labels/example.com~1tier.

/** The value at a pointer, as JSON; empty where there is none. */
export function find(json: string, pointer: string): string {
  const parts = pointer.split("/");
  for (let i = 1; i < parts.length; i++) {
    const want = parts[i].replaceAll("~1", "/").replaceAll("~0", "~");
    const c = new Cursor(json);
    let found = "";
    if (c.pass(OBJECT)) {
      while (c.peek() == QUOTE) {
        const key = decoded(c.value());
        if (!c.pass(COLON)) break;
        const value = c.value();
        if (key == want) {
          found = value;
          break;
        }
        c.pass(COMMA);
      }
    } else if (c.peek() == ARRAY) {
      const list = items(json, ""), at = I32.parseInt(want);
      if (at.toString() == want && at >= 0 && at < list.length) found = list[at];
    }
    if (found == "") return "";
    json = found;
  }
  return json;
}

/** The string at a pointer, decoded; empty where there is none. */
export function findString(json: string, pointer: string): string {
  return decoded(find(json, pointer));
}

/** The number at a pointer without what is behind its point, or otherwise. */
export function findNumber(json: string, pointer: string, otherwise: i64): i64 {
  const text = find(json, pointer), first = text == "" ? 0 : text.charCodeAt(0);
  return first == MINUS || (first >= 48 && first <= 57) ? I64.parseInt(text) : otherwise;
}

/** The values of the array at a pointer; none where there is no array. */
export function items(json: string, pointer: string): string[] {
  const list: string[] = [], c = new Cursor(find(json, pointer));
  if (!c.pass(ARRAY)) return list;
  for (let next = c.peek(); next != 0 && next != ARRAY_END; next = c.peek()) {
    const value = c.value();
    if (value == "") break;
    list.push(value);
    c.pass(COMMA);
  }
  return list;
}

/** A text as a string of JSON, quotes included. */
export function quote(text: string): string {
  let out = '"';
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (c == QUOTE || c == BACKSLASH) out += "\\";
    if (c >= 0x20) out += text.charAt(i);
    else out += "\\u" + c.toString(16).padStart(4, "0");
  }
  return out + '"';
}

const QUOTE = 34, BACKSLASH = 92, COMMA = 44, COLON = 58, MINUS = 45;
const OBJECT = 123, OBJECT_END = 125, ARRAY = 91, ARRAY_END = 93;

class Cursor {
  private at: i32 = 0;

  constructor(private text: string) {}

  /** The next character that is no space; 0 at the end. */
  peek(): i32 {
    while (this.at < this.text.length && space(this.text.charCodeAt(this.at))) this.at++;
    return this.at < this.text.length ? this.text.charCodeAt(this.at) : 0;
  }

  pass(want: i32): bool {
    if (this.peek() != want) return false;
    this.at++;
    return true;
  }

  /** Passes one value and answers it. */
  value(): string {
    let depth = 0;
    this.peek();
    const from = this.at;
    while (this.at < this.text.length) {
      const c = this.text.charCodeAt(this.at);
      const ends = c == OBJECT_END || c == ARRAY_END;
      if (depth == 0 && (c == COMMA || ends || space(c))) break;
      if (c == OBJECT || c == ARRAY) depth++;
      if (ends) depth--;
      if (c == QUOTE) this.string();
      else this.at++;
      if (depth == 0 && (c == QUOTE || ends)) break;
    }
    return this.text.substring(from, this.at);
  }

  private string(): void {
    for (this.at++; this.at < this.text.length; this.at++) {
      const c = this.text.charCodeAt(this.at);
      if (c == BACKSLASH) this.at++;
      else if (c == QUOTE) break;
    }
    this.at++;
  }
}

function space(c: i32): bool {
  return c == 32 || c == 10 || c == 13 || c == 9;
}

/** A string of JSON without quotes and escapes. */
function decoded(json: string): string {
  if (json.length < 2 || json.charCodeAt(0) != QUOTE) return "";
  let out = "";
  for (let i = 1; i < json.length - 1; i++) {
    if (json.charCodeAt(i) != BACKSLASH) {
      out += json.charAt(i);
      continue;
    }
    const c = json.charAt(++i);
    if (c == "b") out += "\b";
    else if (c == "f") out += "\f";
    else if (c == "n") out += "\n";
    else if (c == "r") out += "\r";
    else if (c == "t") out += "\t";
    else if (c == "u") {
      out += String.fromCharCode(<i32>I32.parseInt(json.substr(i + 1, 4), 16));
      i += 4;
    } else out += c;
  }
  return out;
}
