package output

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// maxRecordAttributes of one record are kept.
const maxRecordAttributes = 64

// Keys of a structured record: those of sdk/transport.Logger, which are hclog's,
// and those of log/slog.
var (
	messageKeys = []string{"@message", "msg", "message"}
	levelKeys   = []string{"@level", "level"}
	timeKeys    = []string{"@timestamp", "time", "timestamp", "ts"}
	// reservedKeys are the kernel's own in its log: a plugin does not say who it is.
	reservedKeys = []string{"time", "level", "msg", "plugin", "part", "source"}
)

// record is what a plugin wrote with level and attributes.
type record struct {
	level slog.Level
	text  string
	attrs []slog.Attr
}

// parseRecord reads a line that is a JSON object with a text; ok is false for
// every other line.
func parseRecord(line []byte) (r record, ok bool) {
	if line = bytes.TrimSpace(line); len(line) < 2 || line[0] != '{' || line[len(line)-1] != '}' || !json.Valid(line) {
		return r, false
	}
	in := json.NewDecoder(bytes.NewReader(line))
	in.UseNumber()
	if _, err := in.Token(); err != nil {
		return r, false
	}
	var levelled, timed bool
	for in.More() {
		token, err := in.Token()
		key, isKey := token.(string)
		if err != nil || !isKey {
			return r, false
		}
		var value any
		if err := in.Decode(&value); err != nil {
			return r, false
		}
		text, isText := value.(string)
		switch {
		case !ok && isText && slices.Contains(messageKeys, key):
			r.text, ok = text, true
			continue
		case !levelled && isText && slices.Contains(levelKeys, key):
			r.level, levelled = parseLevel(text), true
			continue
		case !timed && slices.Contains(timeKeys, key):
			timed = true // it is logged as it comes
			continue
		}
		if slices.Contains(reservedKeys, key) {
			key = "@" + key
		}
		if len(r.attrs) < maxRecordAttributes {
			r.attrs = append(r.attrs, slog.Any(key, plain(value)))
		}
	}
	return r, ok
}

// slogLine is what log/slog writes where no handler was set: date, time, level, text.
var slogLine = regexp.MustCompile(`^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d(?:\.\d+)? ((?:DEBUG|INFO|WARN|ERROR)(?:[+-]\d+)?) (.*)$`)

// parseText reads a line of log/slog's default logger or of its TextHandler; ok is
// false for every other line. The time is the kernel's to say.
func parseText(line string) (r record, ok bool) {
	if m := slogLine.FindStringSubmatch(line); m != nil {
		return record{level: parseLevel(m[1]), text: m[2]}, true
	}
	levelled := false
	for rest := line; rest != ""; {
		key, value, found := strings.Cut(rest, "=")
		if !found || key == "" || strings.ContainsAny(key, " \"") {
			return record{}, false
		}
		if quoted, err := strconv.QuotedPrefix(value); err == nil && strings.HasPrefix(value, `"`) {
			text, err := strconv.Unquote(quoted)
			if err != nil {
				return record{}, false
			}
			value, rest = strings.ToValidUTF8(text, "\uFFFD"), value[len(quoted):]
			if rest != "" && rest[0] != ' ' {
				return record{}, false
			}
			rest = strings.TrimPrefix(rest, " ")
		} else {
			value, rest, _ = strings.Cut(value, " ")
		}
		switch {
		case !ok && key == "msg":
			r.text, ok = value, true
			continue
		case !levelled && key == "level":
			r.level, levelled = parseLevel(value), true
			continue
		case key == "time":
			continue
		}
		if slices.Contains(reservedKeys, key) {
			key = "@" + key
		}
		if len(r.attrs) < maxRecordAttributes {
			r.attrs = append(r.attrs, slog.String(key, value))
		}
	}
	return r, ok && levelled
}

// plain is a value that reads well in a log of text, too.
func plain(value any) any {
	switch v := value.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		if f, err := v.Float64(); err == nil {
			return f
		}
		return v.String()
	case map[string]any, []any:
		if data, err := json.Marshal(v); err == nil {
			return json.RawMessage(data)
		}
	}
	return value
}

// parseLevel reads the level words of slog, hclog and other loggers.
func parseLevel(word string) slog.Level {
	switch strings.ToLower(word) {
	case "trace":
		return slog.LevelDebug
	case "warning":
		return slog.LevelWarn
	case "fatal", "panic", "critical":
		return slog.LevelError
	}
	var l slog.Level
	if err := l.UnmarshalText([]byte(word)); err != nil {
		return slog.LevelInfo
	}
	return min(max(l, slog.LevelDebug), slog.LevelError)
}
