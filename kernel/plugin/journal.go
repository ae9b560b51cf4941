package plugin

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"pintle.dev/pintle/kernel/plugin/manifest"
	"pintle.dev/pintle/kernel/plugin/output"
)

// What is kept of one bundle's records: the last ones, within both bounds.
const (
	journalLines = 1000
	journalBytes = 256 << 10
	// maxJournalLine is where a record is cut: its text, and each of its first
	// attributes.
	maxJournalLine = 16 << 10
	cutText        = 2 << 10
	cutAttributes  = 8
)

// Who wrote a record of a journal.
const (
	sourcePlugin = "plugin"
	sourceHost   = "host"
)

// journals are the records about each bundle that was ever loaded, by its name.
// They outlive the unit: what an upgrade replaced, or what took a bundle down,
// can be read afterwards.
type journals struct {
	mu       sync.Mutex
	byBundle map[string]*journal
}

func (j *journals) of(bundle string) *journal {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.byBundle == nil {
		j.byBundle = map[string]*journal{}
	}
	if j.byBundle[bundle] == nil {
		j.byBundle[bundle] = &journal{}
	}
	return j.byBundle[bundle]
}

// known is of for a bundle that there was.
func (j *journals) known(bundle string) *journal {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.byBundle[bundle]
}

// journal keeps the last records about one bundle, each as a line of JSON.
type journal struct {
	mu    sync.Mutex
	lines []journaled // oldest first
	first uint64      // the number of lines[0]; they are counted from 1
	bytes int
	wake  chan struct{} // closed by the next line; nil when nobody waits
}

type journaled struct {
	line  []byte
	about string // the plugin of the bundle that it is about, or empty
}

func (j *journal) add(line []byte, about string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.first == 0 {
		j.first = 1
	}
	j.lines = append(j.lines, journaled{line, about})
	j.bytes += len(line)
	for len(j.lines) > journalLines || j.bytes > journalBytes && len(j.lines) > 1 {
		j.bytes -= len(j.lines[0].line)
		j.lines[0] = journaled{}
		j.lines, j.first = j.lines[1:], j.first+1
	}
	if j.wake != nil {
		close(j.wake)
		j.wake = nil
	}
}

// read returns the lines behind number after about one plugin, and those that
// are about none in particular; about empty: all. last is the number to go on
// with, lost how many lines behind after are gone. wake is closed when there is
// more.
func (j *journal) read(after uint64, about string) (lines [][]byte, last, lost uint64, wake <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	from := 0
	switch {
	case j.first > after+1:
		lost = j.first - after - 1
	default:
		from = min(int(after+1-max(j.first, 1)), len(j.lines))
	}
	for _, l := range j.lines[from:] {
		if about == "" || l.about == "" || l.about == about {
			lines = append(lines, l.line)
		}
	}
	if j.wake == nil {
		j.wake = make(chan struct{})
	}
	return lines, max(after, max(j.first, 1)-1+uint64(len(j.lines))), lost, j.wake
}

// journalHandler hands records to the kernel's log and keeps them in a journal:
// those at info and above, and below that what the log takes.
type journalHandler struct {
	next    slog.Handler
	journal *journal
	plugins []string // of the bundle
	about   string   // which of them

	source, version string
	attrs           []func(slog.Handler) slog.Handler // With, in order
}

var _ slog.Handler = journalHandler{}

func (h journalHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo || h.next.Enabled(ctx, level)
}

func (h journalHandler) Handle(ctx context.Context, r slog.Record) error {
	about := h.about
	r.Attrs(func(a slog.Attr) bool {
		about = h.subject(about, a)
		return true
	})
	var line lineBuffer
	if err := h.encoder(&line).Handle(ctx, r); err == nil && len(line) > maxJournalLine {
		line = line[:0]
		err = h.encoder(&line).Handle(ctx, cut(r))
		if err == nil && len(line) > 4*maxJournalLine { // the logger's own attributes
			line = nil
		}
	}
	if len(line) > 0 {
		h.journal.add(line, about)
	}
	if !h.next.Enabled(ctx, r.Level) {
		return nil
	}
	return h.next.Handle(ctx, r)
}

// lineBuffer is what one record is written to.
type lineBuffer []byte

func (b *lineBuffer) Write(p []byte) (int, error) {
	*b = append(*b, p...)
	return len(p), nil
}

// encoder writes one record as {"time","level","message","source","version","attributes":{…}}.
func (h journalHandler) encoder(to *lineBuffer) slog.Handler {
	out := slog.NewJSONHandler(to, &slog.HandlerOptions{
		Level: slog.LevelDebug - 4,
		ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.MessageKey {
				a.Key = "message"
			}
			return a
		},
	}).WithAttrs([]slog.Attr{slog.String("source", h.source), slog.String("version", h.version)}).WithGroup("attributes")
	for _, with := range h.attrs {
		out = with(out)
	}
	return out
}

// subject is the plugin that a record is about, where an attribute names one.
func (h journalHandler) subject(about string, a slog.Attr) string {
	if a.Key != "controller" && a.Key != "name" || a.Value.Kind() != slog.KindString {
		return about
	}
	if name := a.Value.String(); slices.Contains(h.plugins, name) {
		return name
	}
	return about
}

func (h journalHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		h.about = h.subject(h.about, a)
	}
	return h.with(h.next.WithAttrs(attrs), func(o slog.Handler) slog.Handler { return o.WithAttrs(attrs) })
}

func (h journalHandler) WithGroup(name string) slog.Handler {
	return h.with(h.next.WithGroup(name), func(o slog.Handler) slog.Handler { return o.WithGroup(name) })
}

func (h journalHandler) with(next slog.Handler, f func(slog.Handler) slog.Handler) slog.Handler {
	h.next = next
	h.attrs = append(slices.Clone(h.attrs), f)
	return h
}

// cut is a record without most of what it says.
func cut(r slog.Record) slog.Record {
	short := slog.NewRecord(r.Time, r.Level, cutString(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		short.AddAttrs(slog.String(cutString(a.Key), cutString(a.Value.String())))
		return short.NumAttrs() < cutAttributes
	})
	return short
}

func cutString(s string) string {
	if len(s) <= cutText {
		return s
	}
	return strings.ToValidUTF8(s[:cutText], "") + "…"
}

// loggers are a bundle's: log is for what the host says of it, words for what it
// writes itself, which is bounded.
func (h *Host) loggers(b *manifest.Bundle, budget *output.Budget) (log, words *slog.Logger) {
	m := b.Manifest
	handler := journalHandler{
		next: h.log.With("plugin", m.Name).Handler(), journal: h.journals.of(m.Name), version: m.Version,
	}
	for i := range m.Plugins {
		handler.plugins = append(handler.plugins, m.Plugins[i].Name)
	}
	host, own := handler, handler
	host.source, own.source = sourceHost, sourcePlugin
	return slog.New(host), output.Budgeted(slog.New(own), budget)
}
