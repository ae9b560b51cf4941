//! JSON as far as controllers and admission plugins need it. The host has checked
//! what it hands over; what is not JSON is nowhere. A pointer is that of RFC 6901,
//! as /metadata/labels/example.com~1tier.

#![allow(dead_code)]

/// The value at a pointer, as JSON.
pub fn find<'a>(json: &'a str, pointer: &str) -> Option<&'a str> {
    let mut json = json;
    for part in pointer.split('/').skip(1) {
        let want = part.replace("~1", "/").replace("~0", "~");
        let mut c = Cursor { rest: json };
        let found = if c.pass('{') {
            let mut found = None;
            while c.peek() == Some('"') {
                let key = decoded(c.value());
                if !c.pass(':') {
                    break;
                }
                let value = c.value();
                if key.as_deref() == Some(want.as_str()) {
                    found = Some(value);
                    break;
                }
                c.pass(',');
            }
            found
        } else {
            let at: usize = want.parse().ok()?;
            items(json, "").get(at).copied()
        };
        json = found?;
    }
    Some(json)
}

/// The string at a pointer, decoded.
pub fn find_string(json: &str, pointer: &str) -> Option<String> {
    decoded(find(json, pointer)?)
}

/// The number at a pointer, without what is behind its point.
pub fn find_number(json: &str, pointer: &str) -> Option<i64> {
    let text = find(json, pointer)?;
    let end = text.find(|c: char| c != '-' && !c.is_ascii_digit());
    text[..end.unwrap_or(text.len())].parse().ok()
}

/// The values of the array at a pointer; none where there is no array.
pub fn items<'a>(json: &'a str, pointer: &str) -> Vec<&'a str> {
    let mut list = Vec::new();
    let mut c = Cursor {
        rest: find(json, pointer).unwrap_or(""),
    };
    if !c.pass('[') {
        return list;
    }
    while let Some(next) = c.peek() {
        let value = c.value();
        if next == ']' || value.is_empty() {
            break;
        }
        list.push(value);
        c.pass(',');
    }
    list
}

/// A text as a string of JSON, quotes included.
pub fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            c if c < ' ' => out += &format!("\\u{:04x}", c as u32),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

struct Cursor<'a> {
    rest: &'a str,
}

impl<'a> Cursor<'a> {
    /// The next character that is no space.
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start_matches(&[' ', '\n', '\r', '\t'][..]);
        self.rest.chars().next()
    }

    fn pass(&mut self, want: char) -> bool {
        let is = self.peek() == Some(want);
        if is {
            self.rest = &self.rest[want.len_utf8()..];
        }
        is
    }

    /// Passes one value and answers it.
    fn value(&mut self) -> &'a str {
        self.peek();
        let (text, bytes) = (self.rest, self.rest.as_bytes());
        let (mut at, mut depth) = (0, 0usize);
        while at < bytes.len() {
            match bytes[at] {
                b'"' => {
                    at += 1;
                    while at < bytes.len() && bytes[at] != b'"' {
                        at += if bytes[at] == b'\\' { 2 } else { 1 };
                    }
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' if depth == 0 => break,
                b'}' | b']' => depth -= 1,
                b',' | b' ' | b'\n' | b'\r' | b'\t' if depth == 0 => break,
                _ => {
                    at += 1;
                    continue;
                }
            }
            // A string, an object or an array may have ended here.
            let last = bytes.get(at).copied();
            at += 1;
            if depth == 0 && matches!(last, Some(b'"' | b'}' | b']')) {
                break;
            }
        }
        let (value, rest) = text.split_at(at.min(text.len()));
        self.rest = rest;
        value
    }
}

/// A string of JSON without quotes and escapes.
fn decoded(json: &str) -> Option<String> {
    let text = json.strip_prefix('"')?.strip_suffix('"')?;
    let mut units: Vec<u16> = Vec::with_capacity(text.len());
    let mut chars = text.chars();
    let mut pair = [0u16; 2];
    while let Some(c) = chars.next() {
        let plain = if c != '\\' {
            c
        } else {
            match chars.next()? {
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'u' => {
                    let hex: String = chars.by_ref().take(4).collect();
                    units.push(u16::from_str_radix(&hex, 16).ok()?);
                    continue;
                }
                other => other,
            }
        };
        units.extend_from_slice(plain.encode_utf16(&mut pair));
    }
    Some(String::from_utf16_lossy(&units))
}
