package plugin

import (
	"encoding/hex"
	"io"
	"log/slog"
	"strings"
)

// lineWriter logs what a guest writes to its standard streams, line by line
// and bounded.
type lineWriter struct {
	log  *slog.Logger
	line []byte
}

var _ io.Writer = (*lineWriter)(nil)

const maxLogLine = 4096

func (w *lineWriter) Write(p []byte) (int, error) {
	for _, b := range p {
		if b != '\n' {
			if len(w.line) < maxLogLine {
				w.line = append(w.line, b)
			}
			continue
		}
		if len(w.line) > 0 {
			w.log.Info("plugin wrote", "line", printable(w.line))
		}
		w.line = w.line[:0]
	}
	return len(p), nil
}

// printable keeps a plugin from writing control characters into the log.
func printable(line []byte) string {
	text := strings.ToValidUTF8(string(line), "\uFFFD")
	if strings.IndexFunc(text, func(r rune) bool { return r < ' ' && r != '\t' }) >= 0 {
		return hex.EncodeToString(line)
	}
	return text
}
