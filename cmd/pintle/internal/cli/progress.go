package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// Progress is a bar on a terminal, and nothing elsewhere.
type Progress struct {
	Out    io.Writer
	width  int
	what   string
	begin  time.Time
	drawn  time.Time
	filled bool
}

// NewProgress draws on file when that is a terminal.
func NewProgress(file *os.File) *Progress {
	p := &Progress{Out: io.Discard}
	if fd := int(file.Fd()); term.IsTerminal(fd) {
		p.Out, p.width = file, 80
		if w, _, err := term.GetSize(fd); err == nil && w > 20 {
			p.width = w
		}
	}
	return p
}

// Tell draws how much of something is done; a total of 0 is not known.
func (p *Progress) Tell(what string, done, total int64, unit func(int64) string) {
	if p.width == 0 {
		return
	}
	now := time.Now()
	if what != p.what {
		p.what, p.begin = what, now
	} else if now.Sub(p.drawn) < 100*time.Millisecond && done != total {
		return
	}
	p.drawn, p.filled = now, true
	text := " " + unit(done)
	share := 0.0
	if total > 0 {
		share = min(float64(done)/float64(total), 1)
		text = fmt.Sprintf(" %3.0f%% %s", share*100, unit(done))
	}
	if s := now.Sub(p.begin).Seconds(); s > 0.5 {
		text += fmt.Sprintf(", %s/s", unit(int64(float64(done)/s)))
	}
	name := fmt.Sprintf("%-10.30s ", what)
	room := p.width - len(name) - len(text) - 3
	if room > 0 && total > 0 {
		full := int(share * float64(room))
		text = "[" + strings.Repeat("=", full) + strings.Repeat(" ", room-full) + "]" + text
	}
	line := name + text
	fmt.Fprintf(p.Out, "\r\x1b[K%.*s", p.width-1, line)
}

// Done takes the bar away.
func (p *Progress) Done() {
	if p.filled {
		fmt.Fprint(p.Out, "\r\x1b[K")
		p.filled = false
	}
}

// Count is the unit of progress of things that are counted.
func Count(n int64) string { return fmt.Sprint(n) }

// bytesOr is the unit of progress: bytes where they are many, else a count.
func bytesOr(n int64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return BytesText(n)
}

// Step draws how much of a step is done, in bytes where they are many.
func (p *Progress) Step(step string, done, total int64) { p.Tell(step, done, total, bytesOr) }
