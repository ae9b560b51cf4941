package api_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
)

// chromium is a browser without a window, spoken to over a pipe in the DevTools protocol.
type chromium struct {
	cmd *exec.Cmd
	in  *os.File
	out *bufio.Reader
	ids int
}

// devtools is one message of the protocol, in either direction.
type devtools struct {
	ID        int             `json:"id,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    map[string]any  `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// chromiumCommand is a browser without a window that reaches only this machine's loopback.
// It skips the test where no browser is installed.
func chromiumCommand(ctx context.Context, t *testing.T, flags ...string) *exec.Cmd {
	t.Helper()
	const program = "chromium"
	if _, err := exec.LookPath(program); err != nil {
		t.Skip("no page is opened, as there is no chromium; install Debian's package of that name")
	}
	cmd := exec.CommandContext(ctx, program, append([]string{"--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--user-data-dir=" + t.TempDir(),
		"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"}, flags...)...)
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// startChromium starts a browser that ends with the test.
func startChromium(t *testing.T, flags ...string) *chromium {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	t.Cleanup(cancel)
	reads, in := pipe(t)
	out, writes := pipe(t)
	b := &chromium{cmd: chromiumCommand(ctx, t, append(flags, "--remote-debugging-pipe")...), in: in, out: bufio.NewReader(out)}
	b.cmd.ExtraFiles = []*os.File{reads, writes} // descriptors 3 and 4, as the flag asks
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	reads.Close()
	writes.Close() // so that a browser that ends is an end of file
	t.Cleanup(func() {
		_, _ = b.call("", "Browser.close", nil) // it may have ended
		in.Close()
		_ = b.cmd.Wait()
	})
	return b
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// call sends a command to a session, or to the browser itself, and reads until it is answered.
func (b *chromium) call(session, method string, params map[string]any) (json.RawMessage, error) {
	b.ids++
	data, err := json.Marshal(devtools{ID: b.ids, SessionID: session, Method: method, Params: params})
	if err != nil {
		return nil, err
	}
	if _, err := b.in.Write(append(data, 0)); err != nil {
		return nil, fmt.Errorf("%s: %w", method, err)
	}
	for {
		line, err := b.out.ReadBytes(0)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", method, err)
		}
		var answer devtools
		if err := json.Unmarshal(bytes.TrimSuffix(line, []byte{0}), &answer); err != nil {
			return nil, fmt.Errorf("%s: %w", method, err)
		}
		switch {
		case answer.ID != b.ids: // an event
		case answer.Error != nil:
			return nil, fmt.Errorf("%s: %w", method, errors.New(answer.Error.Message))
		default:
			return answer.Result, nil
		}
	}
}

// page opens an empty page, and gives the session that speaks to it.
func (b *chromium) page() (string, error) {
	var target struct{ TargetID, SessionID string }
	for _, step := range []struct {
		method string
		params func() map[string]any
	}{
		{"Target.createTarget", func() map[string]any { return map[string]any{"url": "about:blank"} }},
		{"Target.attachToTarget", func() map[string]any { return map[string]any{"targetId": target.TargetID, "flatten": true} }},
	} {
		result, err := b.call("", step.method, step.params())
		if err != nil {
			return "", err
		}
		if err := json.Unmarshal(result, &target); err != nil {
			return "", fmt.Errorf("%s: %w", step.method, err)
		}
	}
	return target.SessionID, nil
}

// text is what an expression of a page says; an error where it is no text.
func (b *chromium) text(session, expression string) (string, error) {
	result, err := b.call(session, "Runtime.evaluate", map[string]any{"expression": expression})
	if err != nil {
		return "", err
	}
	var said struct{ Result struct{ Value string } }
	return said.Result.Value, json.Unmarshal(result, &said)
}
