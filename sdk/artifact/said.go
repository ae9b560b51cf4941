package artifact

import (
	"fmt"
	"io"
	"strings"
	"sync"
)

// maxSaid is how much of what a plugin printed an error carries.
const maxSaid = 4 << 10

// said is the end of what a plugin printed, which tells why it failed: the traceback
// of an interpreter, the words of a panic. All of it goes to the output.
type said struct {
	output io.Writer

	mu  sync.Mutex
	end []byte
	cut bool
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	s.end = append(s.end, p...)
	if more := len(s.end) - maxSaid; more > 0 {
		s.end, s.cut = append(s.end[:0], s.end[more:]...), true
	}
	s.mu.Unlock()
	return s.output.Write(p)
}

// explain adds to err, which stays what it is, what the plugin printed last.
func (s *said) explain(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := strings.TrimSpace(strings.ToValidUTF8(string(s.end), "\uFFFD"))
	if text == "" {
		return err
	}
	what := "it printed"
	if s.cut {
		what = "the last that it printed"
	}
	return fmt.Errorf("%w\n%s:\n%s", err, what, text)
}
