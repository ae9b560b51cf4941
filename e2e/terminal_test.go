package e2e

import (
	"context"
	"io"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/creack/pty"

	"pintle.dev/pintle/e2e/cluster"
)

// terminal is the person's side of a pseudo terminal.
type terminal struct {
	out  *transcript
	file io.ReadWriteCloser
}

// startTerminal starts a command at a terminal of 100 columns and 40 rows.
func startTerminal(t *testing.T, n *cluster.Network, cmd *exec.Cmd) *terminal {
	t.Helper()
	var tty *terminal
	if err := n.Do(func() error {
		file, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: 100, Rows: 40})
		if err != nil {
			return err
		}
		tty = &terminal{out: newTranscript(), file: file}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(tty.out, tty.file) // ends with EIO when the command has
	}()
	t.Cleanup(func() {
		tty.file.Close()
		<-done
	})
	return tty
}

func (x *terminal) expect(t *testing.T, text string) {
	t.Helper()
	if err := x.out.await(bound(t), text); err != nil {
		t.Fatalf("waiting for %q at the terminal: %v; seen:\n%s", text, err, x.seen())
	}
}

func (x *terminal) write(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(x.file, text); err != nil {
		t.Fatal(err)
	}
}

func (x *terminal) seen() string { return x.out.String() }

// transcript keeps what was written and wakes those who wait for words.
type transcript struct {
	mu      sync.Mutex
	text    strings.Builder
	changed chan struct{}
}

func newTranscript() *transcript { return &transcript{changed: make(chan struct{})} }

func (x *transcript) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.text.Write(p)
	close(x.changed)
	x.changed = make(chan struct{})
	return len(p), nil
}

func (x *transcript) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.text.String()
}

func (x *transcript) await(ctx context.Context, text string) error {
	for {
		x.mu.Lock()
		changed, found := x.changed, strings.Contains(x.text.String(), text)
		x.mu.Unlock()
		if found {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
