package plugin

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"pintle.dev/pintle/kernel/plugin/manifest"
)

// logBuffer is a log that a test reads while it is written.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) has(s string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Contains(b.text.String(), s)
}

// What an author needs to know reaches the log and the Plugin object over
// either transport: what the plugin printed, and that it panicked, and where.
func TestAuthorIsTold(t *testing.T) {
	for _, transport := range []string{manifest.TransportWASM, manifest.TransportProcess} {
		t.Run(transport, func(t *testing.T) {
			log := &logBuffer{}
			h := runHostLogging(t, testConfig(t, transport, "Prints", "Panics"), nil, slog.New(slog.NewTextHandler(log, nil)))
			p := h.Source("s").Policy()
			if err := p.Apply(t.Context(), replica(1, 1)); err != nil {
				t.Fatal(err)
			}
			out := make([]uint32, 1)
			for i := range 2 {
				if err := p.Filter(t.Context(), i, 7, []uint32{0}, out); err != nil {
					t.Fatal(err)
				}
			}
			const panicked = "plugin panicked: Panics: on purpose (main.go:"
			for _, line := range []string{"asked about n0", "and about asked", panicked} {
				poll(t, line, func() bool { return log.has(line) })
			}
			st := objectOf(h, "Panics").Status
			if !strings.HasPrefix(st.Message, "last failure: plugin Panics: ") || !strings.Contains(st.Message, panicked) || st.Restarts != 0 {
				t.Errorf("status %+v", st)
			}
			if st := objectOf(h, "Prints").Status; st.Message != "" {
				t.Errorf("message of a sound plugin %q", st.Message)
			}
		})
	}
}

func TestThreeDigits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 999: "999ns", 1234: "1.23µs", 10485761: "10.5ms", 1073741825: "1.07s", 99999: "100µs",
	} {
		if got := threeDigits(d).String(); got != want {
			t.Errorf("%d: %s, want %s", d, got, want)
		}
	}
}
