package output

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"
)

const (
	MaxLogLine = 4096
	// MaxRecordLine is that of a process's standard error: a record with a stack.
	MaxRecordLine = 16 << 10
	// MaxLogWrite of one write is looked at: the rest is dropped.
	MaxLogWrite = 64 << 10

	// LogLines per second are what a bundle may write on average, LogBurst at once.
	LogLines, LogBurst = 100, 1000
	// LogReport is how often what was dropped is told.
	LogReport = 10 * time.Second
)

// LineWriter logs what a guest writes to its standard streams, line by line
// and bounded: records with their level and attributes, other lines as they are.
type LineWriter struct {
	Log  *slog.Logger
	Max  int // bytes of a line; 0 is MaxLogLine
	Line []byte
	// dying: the guest tells of its end from here on, in many lines.
	dying bool
	// late, if set, is asked before each write; it panics to stop a guest.
	Late func()
}

var _ io.Writer = (*LineWriter)(nil)

func (w *LineWriter) Write(p []byte) (int, error) {
	if w.Late != nil {
		w.Late()
	}
	size, room := len(p), cmp.Or(w.Max, MaxLogLine)
	p = p[:min(size, MaxLogWrite)]
	for len(p) > 0 {
		line, rest, whole := bytes.Cut(p, []byte{'\n'})
		w.Line = append(w.Line, line[:min(len(line), room-len(w.Line))]...)
		if p = rest; !whole {
			break
		}
		w.end()
	}
	return size, nil
}

// end logs the line that is whole now.
func (w *LineWriter) end() {
	line := w.Line
	w.Line = line[:0]
	if len(line) == 0 {
		return
	}
	if r, ok := parseRecord(line); ok {
		w.Log.LogAttrs(context.Background(), r.level, r.text, r.attrs...)
		return
	}
	if r, ok := parseText(printable(line)); ok {
		w.Log.LogAttrs(context.Background(), r.level, r.text, r.attrs...)
		return
	}
	level := slog.LevelInfo
	w.dying = w.dying || bytes.HasPrefix(line, []byte("panic: ")) || bytes.HasPrefix(line, []byte("fatal error: "))
	if w.dying {
		level = slog.LevelError
	}
	w.Log.Log(context.Background(), level, "plugin wrote", "line", printable(line))
}

// TakenReader logs all that it reads and hands on nothing: go-plugin would parse
// the lines, and one that has a number where it wants a word ends the kernel.
type TakenReader struct {
	From io.Reader
	To   *LineWriter
}

func (t *TakenReader) Read(p []byte) (int, error) {
	for {
		n, err := t.From.Read(p)
		_, _ = t.To.Write(p[:n])
		if err != nil {
			t.To.end() // what a process that died wrote last
			return 0, err
		}
	}
}

// printable keeps a plugin from writing control characters into the log.
func printable(line []byte) string {
	text := strings.ToValidUTF8(string(line), "\uFFFD")
	if strings.IndexFunc(text, func(r rune) bool { return r < ' ' && r != '\t' }) >= 0 {
		return hex.EncodeToString(line)
	}
	return text
}

// Budget bounds how much one bundle writes into the log. What it writes
// beyond is dropped and counted.
type Budget struct {
	Now func() time.Time

	mu       sync.Mutex
	tokens   float64
	filled   time.Time
	dropped  int64 // since the last report
	total    int64
	reported time.Time
}

func NewBudget() *Budget { return &Budget{Now: time.Now, tokens: LogBurst} }

// Spend takes one line; without one left it counts it. report is how many lines
// were dropped, when that is to be told now.
func (b *Budget) Spend() (ok bool, report int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.Now()
	if !b.filled.IsZero() {
		b.tokens = min(b.tokens+now.Sub(b.filled).Seconds()*LogLines, LogBurst)
	}
	b.filled = now
	if ok = b.tokens >= 1; ok {
		b.tokens--
	} else {
		b.dropped++
		b.total++
	}
	return ok, b.report(now)
}

// report is how many lines were dropped, when that is to be told now. mu is held.
func (b *Budget) report(now time.Time) (lines int64) {
	if b.dropped > 0 && now.Sub(b.reported) >= LogReport {
		lines, b.dropped, b.reported = b.dropped, 0, now
	}
	return lines
}

// Due is report for whoever comes by: a bundle that writes no more tells nothing.
func (b *Budget) Due() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.report(b.Now())
}

const DroppedWords = "plugin writes more than the log takes; lines were dropped"

// drop counts lines that were not even read.
func (b *Budget) drop(lines int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dropped += lines
	b.total += lines
}

// Lost is how many lines were dropped so far.
func (b *Budget) Lost() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.total
}

// Succeed takes over the count of the budget that this one replaces.
func (b *Budget) Succeed(old *Budget) {
	lost := old.Lost()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.total += lost
}

// budgetHandler is a handler for what a bundle itself writes.
type budgetHandler struct {
	slog.Handler
	budget *Budget
}

func (h budgetHandler) Handle(ctx context.Context, r slog.Record) error {
	ok, report := h.budget.Spend()
	if report > 0 {
		told := slog.NewRecord(r.Time, slog.LevelWarn, DroppedWords, 0)
		told.AddAttrs(slog.Int64("dropped", report), slog.Int("linesPerSecond", LogLines), slog.Int("burst", LogBurst))
		_ = h.Handler.Handle(ctx, told)
	}
	if !ok {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

func (h budgetHandler) WithAttrs(a []slog.Attr) slog.Handler {
	return budgetHandler{h.Handler.WithAttrs(a), h.budget}
}

func (h budgetHandler) WithGroup(name string) slog.Handler {
	return budgetHandler{h.Handler.WithGroup(name), h.budget}
}

// Budgeted is a logger for what a bundle itself writes.
func Budgeted(log *slog.Logger, b *Budget) *slog.Logger {
	return slog.New(budgetHandler{log.Handler(), b})
}

const (
	// floodBytes a second of a process's standard error are looked at, with as
	// much again at once; beyond that it is read at floodPace and dropped, so that
	// a process which floods costs little and one that is loud for a moment is
	// not held up.
	floodBytes = 1 << 20
	floodPace  = 20 * time.Millisecond
)

// FloodReader reads a process's standard error.
type FloodReader struct {
	From   io.Reader
	Budget *Budget

	left   float64
	filled time.Time
	broken bool // the last line that was handed on has no end yet
}

func (f *FloodReader) Read(p []byte) (int, error) {
	for {
		n, err := f.From.Read(p)
		now := f.Budget.Now()
		if f.filled.IsZero() {
			f.left = floodBytes
		} else {
			f.left = min(f.left+now.Sub(f.filled).Seconds()*floodBytes, floodBytes)
		}
		f.filled = now
		if n == 0 || err != nil || float64(n) <= f.left {
			f.left -= float64(n)
			if f.broken && n > 0 {
				// What was dropped ended somewhere in a line.
				f.broken = false
				if at := bytes.IndexByte(p[:n], '\n'); at >= 0 {
					return copy(p, p[at:n]), err
				}
			}
			return n, err
		}
		f.broken = true
		f.Budget.drop(int64(max(bytes.Count(p[:n], []byte{'\n'}), 1)))
		time.Sleep(floodPace)
	}
}
