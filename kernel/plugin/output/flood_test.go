package output

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"
)

// TestFloodReader: a process that floods its standard error is read, dropped and
// counted; what stays is whole lines.
func TestFloodReader(t *testing.T) {
	line := strings.Repeat("n", 99) + "\n"
	flood := strings.NewReader(strings.Repeat(line, 2*floodBytes/len(line)))
	f := &FloodReader{From: flood, Budget: NewBudget()}
	began := time.Now()
	f.Budget.Now = func() time.Time { return began } // however slow the machine is
	var got bytes.Buffer
	if _, err := io.CopyBuffer(struct{ io.Writer }{&got}, f, make([]byte, 64<<10)); err != nil {
		t.Fatal(err)
	}
	if got.Len() > floodBytes || f.Budget.Lost() == 0 {
		t.Errorf("%d bytes came through, %d lines lost", got.Len(), f.Budget.Lost())
	}
}
